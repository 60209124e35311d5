"""Splits: the images of a pool divided anew into train, val and test, as a repeated cross-validation by subject.

    r0f0 r0f1 … r0f4      the five folds of the first repeat: each subject is tested exactly once
    r1f0 …                the same with another shuffle

Every method of a table is trained and tested on the same images of each split, and no subject (or group of
near-duplicates, `tffapps.data.groups`) is in two parts of one. Without --splits there is one split without a name: as
the data says.
"""

import dataclasses
import hashlib
import sys
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold

from tffapps.app import VALIDATION, Common
from tffapps.data import groups, partition
from tffapps.data.pool import Pool
from tffapps.errors import UserError

GROUP = "subject"  # the column that says what was kept together
_TRAIN_SEED = 1_000  # of validation parts, apart from the shuffles of folds


@dataclasses.dataclass(frozen=True)
class Split:
    """One division of a pool."""

    name: str  # such as r0f2; "": as the data says
    pool: Pool

    @property
    def labels(self) -> dict[str, str]:
        """What a run's labels have of it: nothing where the data decides."""
        return {"split": self.name} if self.name else {}

    def for_tuning(self) -> "Split":
        """The same without its test images, whose place the validation images take: nothing is tuned on the others."""
        table = self.pool.table
        if not (table.split == "val").any():
            raise UserError("--tune: no validation images to choose by; use --splits, or give --data some of split val")
        kept = table[table.split != "test"]
        tested = set(table.path[table.split == "test"])
        kept = kept.assign(split=kept.split.replace({"val": "test"}))
        assert not tested & set(kept.path), "a test image among those that are tuned on"
        return Split(f"{self.name or 'data'} tuning", with_table(self.pool, kept))


def of(pool: Pool, common: Common, *, val: bool = True) -> list[Split]:
    """The splits that the flags ask for. `val`: whether the system can use validation images."""
    if not common.splits:
        wanted = val and (common.select == VALIDATION or bool(common.tune))
        return [Split("", with_val(pool, common) if wanted else pool)]
    kind = groups.kind_of(pool.table, common.group)
    together = groups.of(pool.table, kind)
    share = common.val_share if val else 0.0
    if not share and (common.select == VALIDATION or common.tune):
        raise UserError("--val-share 0: nothing is left to choose by; give a share, or leave --select and --tune out")
    count = len(set(together))
    print(f"{common.splits} folds by {kind}: {len(together)} {pool.noun}, {count} {_noun(kind)}", file=sys.stderr)
    found = divided(pool, together, folds=common.splits, repeats=common.repeats, val_share=share, kind=kind)
    unknown = sorted(set(common.only_splits) - {split.name for split in found})
    if unknown:
        raise UserError(f"--only-splits {unknown[0]}: no such split; there are {found[0].name} to {found[-1].name}")
    return [split for split in found if not common.only_splits or split.name in common.only_splits]


def divided(
    pool: Pool,
    together: Sequence[str] | np.ndarray,
    *,
    folds: int,
    repeats: int = 1,
    val_share: float = 0.2,
    kind: str = "subject",
) -> list[Split]:
    """Cross-validations of a pool, one after the other.

    Args:
      pool: its own splits are not looked at.
      together: the group of each row, which is never divided.
      folds: parts of a cross-validation, each tested once.
      repeats: how many of them.
      val_share: of the training groups, by which rounds and settings are chosen; 0: none.
      kind: what a group is, for messages.
    """
    table = pool.table.reset_index(drop=True).assign(**{GROUP: list(together)})
    _check(table, folds, kind)
    strata = (table.client + "\0" + table.label).to_numpy()
    result = []
    for repeat in range(repeats):
        for fold, tested in enumerate(_folds(strata, table[GROUP].to_numpy(), folds, repeat)):
            name = f"r{repeat}f{fold}"
            split = np.full(len(table), "train", object)
            split[tested] = "test"
            if val_share:
                seed = _TRAIN_SEED + repeat * folds + fold
                split = _validated(table.assign(split=split), val_share, seed)
            part = table.assign(split=split)
            _check_training(part, name, kind)
            result.append(Split(name, with_table(pool, part)))
    return result


def with_val(pool: Pool, common: Common) -> Pool:
    """The pool, a share of its training images for validation if it has none; each group whole."""
    table = pool.table.reset_index(drop=True)
    if (table.split == "val").any():
        return pool
    if pool.at_sites:
        raise UserError("--select validation: no site has images of split val; give them some, or --select last")
    kind = groups.kind_of(table, common.group)
    table[GROUP] = groups.of(table, kind)
    table["split"] = _validated(table, common.val_share, _TRAIN_SEED)
    _check_training(table, "the validation part", kind)
    print(
        f"no validation images: {common.val_share:.0%} of the training images are held out, by {kind}", file=sys.stderr
    )
    return with_table(pool, table)


def with_table(pool: Pool, table: pd.DataFrame) -> Pool:
    """The pool with other splits of its rows, which their numbers tell; the key says which."""
    rows = " ".join(f"{number} {split}" for number, split in table.split.items())
    key = hashlib.sha256(f"{pool.key}\0{rows}".encode()).hexdigest()[:16]
    return dataclasses.replace(pool, table=table, key=key)


def sizes(splits: Sequence[Split]) -> pd.DataFrame:
    """A row for each split and part: how many images, subjects (groups) and images of each class."""
    rows: list[Mapping[str, object]] = []
    for each in splits:
        for part, own in each.pool.table.groupby("split", sort=False):
            counts = own.label.value_counts()
            classes = {label: int(counts.get(label, 0)) for label in each.pool.classes}
            rows.append(
                {"split": each.name, "part": part, "images": len(own), "subjects": own[GROUP].nunique(), **classes}
            )
    return pd.DataFrame(rows)


def _folds(strata: np.ndarray, together: np.ndarray, folds: int, repeat: int) -> list[np.ndarray]:
    """The rows that each fold tests."""
    # Groups are shuffled here: with shuffle=True, scikit-learn before 1.8 gives groups the class counts of others.
    codes, names = pd.factorize(together)
    shuffled = np.random.default_rng(repeat).permutation(len(names))[codes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a client with few images of a class; classes are checked here
        return [tested for _, tested in StratifiedGroupKFold(folds).split(np.zeros(len(strata)), strata, shuffled)]


def _validated(table: pd.DataFrame, share: float, seed: int) -> np.ndarray:
    """The column split, a share of the training rows in val, by client and class, groups whole."""
    split = table.split.to_numpy(object, copy=True)
    rows = np.flatnonzero(split == "train")
    own = table.iloc[rows]
    try:
        part = partition.stratified(
            (own.client + "/" + own.label).tolist(), [1 - share, share], seed, groups=own[GROUP].tolist()
        )
    except UserError as error:
        raise UserError(f"--val-share {share:g}: {error}") from None
    split[rows[part == 1]] = "val"
    return split


def _check(table: pd.DataFrame, folds: int, kind: str) -> None:
    """Every fold has to test every class: a class needs as many groups as there are folds."""
    noun = _noun(kind)
    count = table[GROUP].nunique()
    if count < folds:
        raise UserError(f"--splits {folds}: there are only {count} {noun}, which are never divided; ask for fewer")
    for label, own in table.groupby("label")[GROUP]:
        if own.nunique() < folds:
            raise UserError(
                f"--splits {folds}: class {label} has images of only {own.nunique()} {noun}, and each fold is to test"
                f" every class; use --splits {own.nunique()} or less, or leave the class out"
                if own.nunique() > 1
                else f"--splits {folds}: class {label} has images of one of the {noun} only; leave the class out"
            )


def _check_training(table: pd.DataFrame, name: str, kind: str) -> None:
    """Refuses a division that leaves a client or a class without training images."""
    trained = table[table.split == "train"]
    for column in ("client", "label"):
        missing = sorted(set(table[column]) - set(trained[column]))
        if missing:
            what = "client" if column == "client" else "class"
            raise UserError(
                f"--splits: {name} leaves the {what} {missing[0]} without training images, because its"
                f" {_noun(kind)} are too few; give it more, leave it out, or lower --val-share"
            )


def _noun(kind: str) -> str:
    return {groups.SUBJECT: "subjects", groups.IMAGE: "images"}.get(kind, "groups of images that are alike")
