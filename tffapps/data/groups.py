"""What must stay together when images are divided: a subject's, or near-duplicates where nobody says whose they are.

Without it a copy of a training image among the test images is a test of memory.
"""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse.csgraph

from tffapps.data import near_duplicates
from tffapps.data.manifest import SPLITS
from tffapps.errors import UserError
from tffapps.home import cache_folder

SUBJECT, IMAGE, DUPLICATES, AUTO = "subject", "image", "duplicates", "auto"


def kind_of(table: pd.DataFrame, asked: str) -> str:
    """What `auto` comes to: subjects where any has several images, else near-duplicates."""
    if asked == SUBJECT and "subject" not in table.columns:
        raise UserError("--group subject: the data has no subjects; add a column subject, or use --group duplicates")
    if asked != AUTO:
        return asked
    return SUBJECT if _names_subjects(table) else DUPLICATES


def of(table: pd.DataFrame, kind: str, cache: Path | None = None) -> np.ndarray:
    """(n,) the group of each row, as text: a subject's name, or that of an image of the group.

    Args:
      table: path, and subject where the kind is that.
      kind: as `kind_of` gives it.
      cache: where what near-duplicates are told by is kept, if it is not the usual folder.
    """
    paths = table.path.astype(str).to_numpy(object)
    if kind == SUBJECT:
        subjects = table.subject.astype(str).to_numpy(object)
        return np.where(subjects == "", paths, subjects)  # nobody says whose: an image of its own
    if kind == IMAGE:
        return paths
    source = table.source if "source" in table.columns else table.path  # before it was prepared
    return paths[_first_of_each(len(table), _pairs(tuple(source), str(cache or cache_folder() / "edges")))]


@functools.lru_cache(maxsize=4)  # a command asks for the same images more than once
def _pairs(paths: tuple[str, ...], cache: str) -> list[tuple[int, int]]:
    return near_duplicates.pairs(paths, Path(cache))


def sentence(table: pd.DataFrame, groups: Sequence[str] | np.ndarray) -> str:
    """How many images have near-duplicates, and which splits of the data's own those straddle."""
    found = pd.DataFrame({"group": list(groups), "split": table.split.to_numpy()})
    size = found.groupby("group")["split"].transform("size")
    several = found[size > 1]
    if several.empty:
        return "near-duplicates: none"
    text = f"{len(several)} images in {several.group.nunique()} groups of near-duplicates"
    sides = several.groupby("group")["split"].agg(lambda splits: frozenset(splits))
    counts = {pair: sum(splits >= set(pair) for splits in sides) for pair in itertools.combinations(SPLITS, 2)}
    torn = [f"{count} groups are in {one} and {other}" for (one, other), count in counts.items() if count]
    return "; ".join([text, *(torn or ["each is in one split"])])


def _names_subjects(table: pd.DataFrame) -> bool:
    if "subject" not in table.columns:
        return False
    known = table.subject[table.subject.astype(str) != ""]
    return known.duplicated().any()


def _first_of_each(count: int, pairs: list[tuple[int, int]]) -> np.ndarray:
    """(count,) the first position of the group that each position is joined to by pairs."""
    if not pairs:
        return np.arange(count)
    rows, columns = np.array(pairs).T
    graph = scipy.sparse.coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(count, count))
    _, group = scipy.sparse.csgraph.connected_components(graph, directed=False)
    return np.unique(group, return_index=True)[1][group]
