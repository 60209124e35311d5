"""How well grains are found: MAP, MVI and ARI, the metrics of FedTransfer (Eqs 1 to 4).

A mask is bool, true on grain boundaries. Grains are the connected components of the other pixels; pixels that touch
at a corner only are not connected (4-connectivity), so that a boundary one pixel wide divides grains in whatever
direction it runs.

    MAP    TP / (TP + FP + FN), mean over the IoU thresholds 0.50, 0.55, … 0.95 (Eqs 1 and 2). Only grains count, not
           the boundary. A predicted and a true grain are a hit from an IoU of the threshold on (the paper's text
           has "above", which differs only where an IoU is exactly a threshold), and one to one.
    MVI    mean variation of information H(X|Y) + H(Y|X) in bits, that is with log2 (Eq 3), of the pixels that are
           boundary in neither mask: where a boundary runs, or how wide it is, changes little, grains torn or merged
           change much
    ARI    adjusted Rand index of all pixels, the boundary being a segment like any other (Eq 4)

The paper does not say which pixels MVI is of. This is the choice of the first author's published metrics, and the
one with which MVI and ARI have the proportion of the paper's tables; over all pixels MVI is several times as large.
Where no pixel is a grain's in both masks MVI is 10, also as there. MAP is 0 if one of the masks has no grain. Two
masks without a grain agree: MAP 1, MVI 0, ARI 1.
"""

import itertools
from collections.abc import Iterable

import numpy as np
from scipy import ndimage
from scipy.sparse import csr_matrix
from skimage.metrics import contingency_table

METRICS = ("map", "mvi", "ari")
THRESHOLDS = tuple(step / 20 for step in range(10, 20))  # of the IoU: 0.50, 0.55, … 0.95
NOTHING_COMMON = 10.0  # the MVI of masks without a common grain pixel
_STEPS = 20  # thresholds are so many parts of 1: the comparison is one of whole numbers


def grains(boundary: np.ndarray) -> np.ndarray:
    """The grains of a mask numbered from 1, boundary 0: int32 (height, width)."""
    if boundary.dtype != np.bool_ or boundary.ndim != 2 or not boundary.size:
        raise ValueError(f"mask {boundary.dtype} {boundary.shape}: expected bool (height, width), true on boundaries")
    return ndimage.label(~boundary)[0]  # its default structure is the 4-connected one


def scores(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """All METRICS of one predicted boundary mask."""
    table = _table(truth, predicted)
    return {"map": precision(table), "mvi": _variation(table), "ari": _rand(table)}


def mean_scores(truth: Iterable[np.ndarray], predicted: Iterable[np.ndarray]) -> dict[str, float]:
    """The mean of each of METRICS over images, given as stacks of masks (n, height, width) or one by one."""
    found: list[list[float]] = []
    for one, other in itertools.zip_longest(truth, predicted):
        if one is None or other is None:
            raise ValueError(
                f"after {len(found)} images there is no {'true' if one is None else 'predicted'} mask left"
            )
        found.append(list(scores(one, other).values()))
    if not found:
        raise ValueError("no masks to score; give at least one image")
    return dict(zip(METRICS, np.mean(found, axis=0).tolist()))


def map_score(truth: np.ndarray, predicted: np.ndarray) -> float:
    """MAP of one image: 1 is perfect."""
    return precision(_table(truth, predicted))


def variation_of_information(truth: np.ndarray, predicted: np.ndarray) -> float:
    """The variation of information of one image's grains in bits, the mean of which is MVI: 0 is perfect."""
    return _variation(_table(truth, predicted))


def adjusted_rand_index(truth: np.ndarray, predicted: np.ndarray) -> float:
    """ARI of one image: 1 is perfect, 0 is chance."""
    return _rand(_table(truth, predicted))


def _table(truth: np.ndarray, predicted: np.ndarray) -> csr_matrix:
    """How many pixels each pair of labels has in common: (true grains + 1, predicted grains + 1), boundary first."""
    if truth.shape != predicted.shape:
        raise ValueError(f"true mask {truth.shape} and predicted mask {predicted.shape}: expected one size")
    return csr_matrix(contingency_table(grains(truth), grains(predicted)))


def _hits(table: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Common pixels and pixels of either, for each true and predicted grain with an IoU of 0.5 or more.

    These pairs are one to one, but where a grain consists of two grains of the other mask and of nothing else, each
    exactly half of it: of grown grains, which have no boundary between them. Then one of the two counts.
    """
    pairs = table.tocoo()
    true, guess, common = pairs.row, pairs.col, pairs.data.astype(np.int64)
    sizes = [np.asarray(table.sum(axis=axis)).ravel().astype(np.int64) for axis in (1, 0)]
    union = sizes[0][true] + sizes[1][guess] - common
    hits = np.flatnonzero((true > 0) & (guess > 0) & (2 * common >= union))
    for side in (true, guess):
        hits = hits[np.unique(side[hits], return_index=True)[1]]
    return common[hits], union[hits]


def precision(table: csr_matrix) -> float:
    """MAP of how many pixels each true and each predicted label have in common, 0 being no grain."""
    common, union = _hits(table)
    both = sum(size - 1 for size in table.shape)  # the grains of either mask
    if not both:
        return 1.0
    hits = [np.count_nonzero(_STEPS * common >= round(_STEPS * limit) * union) for limit in THRESHOLDS]
    return float(np.mean([hit / (both - hit) for hit in hits]))  # TP + FP + FN = the grains of either less TP


def _variation(table: csr_matrix) -> float:
    """H(X|Y) + H(Y|X) = 2 H(X, Y) − H(X) − H(Y), without the boundary's row and column."""
    inner = table[1:, 1:]
    if not inner.sum():
        return NOTHING_COMMON if max(table.shape) > 1 else 0.0
    joint, first, second = (_entropy(counts) for counts in _counts(inner))
    return max(2 * joint - first - second, 0.0)  # equal partitions may differ from 0 by rounding


def _entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def _rand(table: csr_matrix) -> float:
    total = table.sum()
    joint, first, second = ((counts * (counts - 1)).sum() / 2 for counts in _counts(table))
    pairs = total * (total - 1) / 2
    if not pairs:
        return 1.0  # one pixel: there is one way only to divide it
    chance, most = first * second / pairs, (first + second) / 2
    return (
        1.0 if most == chance else float((joint - chance) / (most - chance))
    )  # both one segment, or all single pixels


def _counts(table: csr_matrix) -> list[np.ndarray]:
    """The numbers of pixels of each overlap, each true and each predicted segment, as floats."""
    sides = [np.asarray(table.sum(axis=axis)).ravel() for axis in (1, 0)]
    return [np.asarray(counts, np.float64) for counts in (table.data, *sides)]
