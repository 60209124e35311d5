"""Clients dealt anew: the images of a pool among so many clients, unlike in their classes as Dirichlet(alpha) says.

Of every class each client gets a share, drawn from a Dirichlet distribution (Hsu et al. 2019): small alpha, unlike
clients; alpha 0 here: equal shares. The shares hold in every split, so that a client's test images are like those it
trains with. A subject's images stay together, at one client, and shares are met as nearly as that allows.
"""

import dataclasses
import hashlib

import numpy as np
import pandas as pd

from tffapps.data.pool import Pool
from tffapps.errors import UserError

_DRAWS = 1000  # before giving up on the smallest client
_LEAST = 10  # training images of a client, where there are enough for all (Li et al. 2022, NIID-Bench)


def dealt(pool: Pool, clients: int, alpha: float, seed: int) -> Pool:
    """The pool, its images among `clients` others than the data names; the same seed gives the same.

    Args:
      pool: images that are here.
      clients: how many.
      alpha: concentration; 0: every client gets the same share of every class.
      seed: of shares, and of who gets which image.
    """
    table = pool.table.reset_index(drop=True)
    training = int((table.split == "train").sum())
    least = max(1, min(_LEAST, training // (4 * clients)))
    if clients * least > training:
        raise UserError(f"--clients {clients}: there are only {training} training {pool.noun}; ask for fewer")
    codes, together = pool.codes(table), _together(table)
    rng = np.random.default_rng(seed)
    for _ in range(_DRAWS):
        place = np.empty(len(table), int)
        shares = _shares(len(pool.classes), clients, alpha, rng)
        for split in sorted(set(table.split)):
            rows = np.flatnonzero(table.split == split)
            place[rows] = deal(codes[rows], together[rows], shares, rng)
        sizes = np.bincount(place[table.split == "train"], minlength=clients)
        if sizes.min() >= least:
            return _with_clients(pool, table, place, sizes, alpha, seed)
    raise UserError(
        f"--dirichlet {alpha:g}: {_DRAWS} draws gave no {clients} clients of {least} training {pool.noun} or more each;"
        " raise it, or lower --clients"
    )


def deal(codes: np.ndarray, together: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n,) the client of each row: whole groups, the largest first, each to where most is missing.

    Args:
      codes: (n,) classes.
      together: (n,) groups, which are not divided.
      shares: (classes, clients) of each class; rows sum to 1.
      rng: decides between groups of the same size.
    """
    names, members = np.unique(together, return_inverse=True)
    content = np.zeros((len(names), len(shares)))  # (groups, classes)
    np.add.at(content, (members, codes), 1)
    missing = (shares * content.sum(axis=0)[:, None]).T  # (clients, classes)
    place = np.empty(len(names), int)
    shuffled = rng.permutation(len(names))
    for group in shuffled[np.argsort(-content[shuffled].sum(axis=1), kind="stable")]:
        # What the squared distance to all targets falls by, without what is the same for all clients.
        place[group] = np.argmax(missing @ content[group])
        missing[place[group]] -= content[group]
    return place[members]


def _shares(classes: int, clients: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    if not alpha:
        return np.full((classes, clients), 1 / clients)
    return rng.dirichlet(np.full(clients, alpha), classes)


def _together(table: pd.DataFrame) -> np.ndarray:
    """(n,) the subject of each row; an image that nobody names one of is by itself."""
    paths = "image " + table.path.astype(str)
    if "subject" not in table.columns:
        return paths.to_numpy(str)
    subjects = table.subject.astype(str)
    return np.where(subjects == "", paths, "subject " + subjects).astype(str)


def _with_clients(
    pool: Pool, table: pd.DataFrame, place: np.ndarray, sizes: np.ndarray, alpha: float, seed: int
) -> Pool:
    width = len(str(len(sizes) - 1))
    table = table.assign(client=[f"client_{number:0{width}d}" for number in place])
    key = hashlib.sha256(f"{pool.key}\0{' '.join(table.client)}".encode()).hexdigest()[:16]
    how = f"by Dirichlet({alpha:g}) over classes" if alpha else "evenly"
    note = f"{len(sizes)} clients dealt {how}, seed {seed}: {sizes.min()} to {sizes.max()} training {pool.noun} each"
    return dataclasses.replace(pool, table=table, key=key, given=False, notes=(*pool.notes, note))
