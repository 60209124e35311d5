"""Cutting a set of images into parts: clients, or the sides of a split.

Every function returns an integer array that gives, for each row, the number of its part. The same seed gives
the same parts.
"""

from collections.abc import Sequence

import numpy as np

from tffapps.data.manifest import natural_key
from tffapps.errors import UserError

_DRAWS = 1000  # of Dirichlet shares, before giving up on the smallest client


def even(labels: Sequence, n: int, seed: int) -> np.ndarray:
    """Equal parts with the same mix of classes; both differ by one image at most."""
    names, codes = _coded(labels)
    _check_parts(len(codes), n)
    rng = np.random.default_rng(seed)
    by_class = [rng.permutation(np.flatnonzero(codes == code)) for code in range(len(names))]
    part = np.empty(len(codes), int)
    part[np.concatenate(by_class)] = np.arange(len(codes)) % n  # dealt like cards, one class after the other
    return rng.permutation(n)[part]  # so that the spare images do not always go to the first parts


def dirichlet(labels: Sequence, n: int, alpha: float, seed: int, min_size: int = 1) -> np.ndarray:
    """Each class is shared out by a draw from Dirichlet(alpha): small alpha, unlike clients.

    Drawn again until every part has `min_size` images.
    """
    names, codes = _coded(labels)
    _check_parts(len(codes), n, min_size)
    if not alpha > 0:
        raise UserError(f"alpha {alpha}: the Dirichlet concentration must be above 0")
    rng = np.random.default_rng(seed)
    for _ in range(_DRAWS):
        part = np.empty(len(codes), int)
        for code in range(len(names)):
            rows = rng.permutation(np.flatnonzero(codes == code))
            ends = np.cumsum(rng.dirichlet(np.full(n, float(alpha)))) * len(rows)
            part[rows] = np.minimum(np.searchsorted(ends, np.arange(len(rows)) + 0.5), n - 1)
        if np.bincount(part, minlength=n).min() >= min_size:
            return part
    raise UserError(
        f"alpha {alpha}: {_DRAWS} draws gave no {n} parts of at least {min_size} of {len(codes)} images; "
        "raise alpha, or lower the number of parts or their smallest size"
    )


def sorted_shards(labels: Sequence, n: int, seed: int, shards_per_client: int = 2) -> np.ndarray:
    """Images sorted by class, cut into equal shards, each client given a few: most see few classes."""
    _, codes = _coded(labels)
    if shards_per_client < 1:
        raise UserError(f"{shards_per_client} shards per client: there must be at least 1")
    shards = n * shards_per_client
    _check_parts(len(codes), n)
    if shards > len(codes):
        raise UserError(f"{shards} shards of {len(codes)} images: lower the number of clients or their shards")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    owner = rng.permutation(np.arange(shards) % n)
    part = np.empty(len(codes), int)
    part[order] = owner[np.arange(len(codes)) * shards // len(codes)]
    return part


def by_column(values: Sequence) -> tuple[np.ndarray, list[str]]:
    """One part for each value, such as a hospital or a microscope; also returns the values in part order."""
    names, codes = _coded(values)
    if not names:
        raise UserError("no rows to divide by a column")
    return codes, names


def stratified(labels: Sequence, shares: Sequence[float], seed: int, groups: Sequence | None = None) -> np.ndarray:
    """Parts in the given proportions ([1, 1, 1] are thirds), each with the same mix of classes.

    With `groups`, such as subjects, the rows of one group stay together and the proportions are met as nearly
    as that allows.
    """
    wanted = np.asarray(shares, float)
    if wanted.ndim != 1 or not len(wanted) or not np.all(np.isfinite(wanted) & (wanted > 0)):
        raise UserError(f"shares {list(shares)}: give one positive number for each part")
    names, codes = _coded(labels)
    _check_parts(len(codes), len(wanted))
    wanted = wanted / wanted.sum()
    rng = np.random.default_rng(seed)
    if groups is None:
        part = _stratify_rows(codes, len(names), wanted, rng)
    else:
        part = _stratify_groups(codes, len(names), wanted, rng, groups)
    sizes = np.bincount(part, minlength=len(wanted))
    if sizes.min() == 0:
        what = "images" if groups is None else f"images in {len(set(groups))} groups"
        raise UserError(
            f"shares {list(shares)}: part {int(sizes.argmin())} of {len(wanted)} is left empty "
            f"by {len(codes)} {what}; add images or raise its share"
        )
    return part


def _stratify_rows(codes: np.ndarray, classes: int, wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    part = np.empty(len(codes), int)
    sizes = np.zeros(len(wanted))
    for code in range(classes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        counts = np.floor(wanted * len(rows) + 1e-9).astype(int)
        spare = len(rows) - counts.sum()
        # What does not divide goes to the parts furthest behind over all classes, so totals come out too.
        behind = wanted * (sizes.sum() + len(rows)) - (sizes + counts)
        counts[np.lexsort((rng.random(len(wanted)), -behind.round(9)))[:spare]] += 1
        part[rows] = np.repeat(np.arange(len(wanted)), counts)
        sizes += counts
    return part


def _stratify_groups(
    codes: np.ndarray, classes: int, wanted: np.ndarray, rng: np.random.Generator, groups: Sequence
) -> np.ndarray:
    if len(groups) != len(codes):
        raise ValueError(f"{len(groups)} groups for {len(codes)} labels")
    names, members = _coded(groups)
    if len(names) < len(wanted):
        raise UserError(f"{len(names)} groups for {len(wanted)} parts: a group is never divided; ask for fewer parts")
    content = np.zeros((len(names), classes))  # (groups, classes): how many images
    np.add.at(content, (members, codes), 1)
    target = np.outer(wanted, content.sum(axis=0))  # (parts, classes)
    given = np.zeros_like(target)
    place = np.empty(len(names), int)
    shuffled = rng.permutation(len(names))
    for group in shuffled[np.argsort(-content[shuffled].sum(axis=1), kind="stable")]:  # the large ones first
        before = (given - target) ** 2
        after = (given + content[group] - target) ** 2
        place[group] = np.argmin(((after - before) / target).sum(axis=1))
        given[place[group]] += content[group]
    return place[members]


def _coded(values: Sequence) -> tuple[list[str], np.ndarray]:
    """Distinct values as text in natural order, and each row's position among them."""
    texts = [str(value) for value in values]
    names = sorted(set(texts), key=natural_key)
    position = {name: index for index, name in enumerate(names)}
    return names, np.array([position[text] for text in texts], dtype=int)


def _check_parts(rows: int, n: int, min_size: int = 1) -> None:
    if n < 1:
        raise UserError(f"{n} parts: there must be at least 1")
    if n * max(min_size, 1) > rows:
        raise UserError(f"{n} parts of at least {max(min_size, 1)} from {rows} images: ask for fewer or smaller parts")
