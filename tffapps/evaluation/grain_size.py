"""How large grains are: counts, areas, diameters, intercept lengths, and the ASTM grain size number G of both kinds.

Labels are whole numbers (height, width): 0 is boundary, each other number a grain. A boundary has a width in a picture
and none in the metal, so that its pixels belong to the nearest grain when areas are taken.

What the rim of the picture cuts is not known whole. The rules are those of ASTM E112:

    areas, diameters   of whole grains alone: those that do not touch the rim
    grains per area    a whole grain counts 1, one that the rim cuts 1/2, one at a corner of the picture 1/4 (the
                       planimetric method for a rectangle); the mean area is the picture's over this count
    intercepts         test lines run through the whole picture. Each grain that a line crosses counts 1, and each end
                       of a line that lies in a grain takes 1/2 off; the mean intercept is all lines' length over this

    G = −6.643856 log10(mean intercept in mm) − 3.288          from intercepts (Heyn)
    G =  3.321928 log10(grains per mm²) − 2.954                from areas (Jeffries, Saltykov)

Whole grains are the smaller ones, since a large one is cut more often: their median lies below that of all grains.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from skimage.segmentation import expand_labels

# Of test lines: rows and columns from one sample to the next. All samples are pixels: a line that is rounded to pixels
# would cross a boundary nearly parallel to it several times.
HORIZONTAL, VERTICAL = (0, 1), (1, 0)
DIRECTIONS = (HORIZONTAL, (1, 2), (1, 1), (2, 1), VERTICAL, (2, -1), (1, -1), (1, -2))
PERCENTILES = (10, 50, 90)
_MOST_LINES = 1000  # in each direction: more of them see the same grains again
_MICRON_PER_MM = 1000.0


@dataclasses.dataclass(frozen=True)
class GrainSizes:
    """The grains of one picture, lengths in pixels; what cannot be known is NaN."""

    whole: int  # grains that the rim does not cut
    cut: int  # those that it cuts
    count: float  # of grains in the picture's area: whole ones, and parts of those that are cut
    mean_area: float  # the picture's area over `count`
    areas: tuple[float, ...]  # PERCENTILES over whole grains
    diameters: tuple[float, ...]  # the same of the circle of equal area
    intercepts: tuple[float, ...]  # the mean one in each of the directions
    mean_intercept: float  # of all directions' lines together

    def number_from_intercepts(self, micron_per_pixel: float) -> float:
        """G by the intercept method."""
        return number_of_intercept(self.mean_intercept * micron_per_pixel)

    def number_from_areas(self, micron_per_pixel: float) -> float:
        """G by the planimetric method."""
        return number_of_area(self.mean_area * micron_per_pixel**2)


def number_of_intercept(micron: float) -> float:
    """G of a mean intercept length."""
    return -6.643856 * math.log10(micron / _MICRON_PER_MM) - 3.288


def number_of_area(square_micron: float) -> float:
    """G of a mean area of grains."""
    return -3.321928 * math.log10(square_micron / _MICRON_PER_MM**2) - 2.954


def measure(labels: np.ndarray, directions: Sequence[tuple[int, int]] = DIRECTIONS) -> GrainSizes:
    """The sizes of the grains in a label image.

    Args:
      labels: whole numbers (height, width), 0 on boundaries; of a boundary mask they are `segmentation.grains`.
      directions: of the test lines, rows and columns of one step each.
    """
    if labels.ndim != 2 or not labels.size or labels.dtype.kind not in "iu":
        raise ValueError(f"labels {labels.dtype} {labels.shape}: expected whole numbers (height, width)")
    cut = _cut_by_rim(labels)
    corners = np.unique(labels[[0, 0, -1, -1], [0, -1, 0, -1]], return_counts=True)
    cornered = dict(zip(corners[0].tolist(), corners[1].tolist()))
    cornered.pop(0, None)
    filled = shared(labels)
    areas = np.bincount(filled.ravel())
    areas[0] = 0
    whole = areas[np.setdiff1d(np.flatnonzero(areas), cut)]
    count = len(whole) + (len(cut) - len(cornered)) / 2 + sum(cornered.values()) / 4
    crossed = [_crossed(labels, filled, step) for step in directions]  # (length, grains) of each
    return GrainSizes(
        whole=len(whole),
        cut=len(cut),
        count=count,
        mean_area=_ratio(labels.size, count),
        areas=_percentiles(whole),
        diameters=_percentiles(np.sqrt(4 * whole / np.pi)),
        intercepts=tuple(_ratio(*each) for each in crossed),
        mean_intercept=_ratio(sum(length for length, _ in crossed), sum(grains for _, grains in crossed)),
    )


def shared(labels: np.ndarray) -> np.ndarray:
    """Labels with every boundary pixel given to the nearest grain."""
    return expand_labels(labels, distance=math.hypot(*labels.shape)) if labels.any() else labels


def whole_grains(labels: np.ndarray) -> np.ndarray:
    """Labels of the grains that the rim does not cut; the others are 0."""
    return np.where(np.isin(labels, _cut_by_rim(labels)), 0, labels)


def _cut_by_rim(labels: np.ndarray) -> np.ndarray:
    """The grains that touch the rim. One with a drawn boundary between it and the rim is whole."""
    rim = np.unique(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]]))
    return rim[rim != 0]


def _crossed(labels: np.ndarray, filled: np.ndarray, step: tuple[int, int]) -> tuple[float, float]:
    """The length of all test lines in a direction, and how many grains they cross by the rule for ends."""
    samples, grains = 0, 0.0
    for line, along in zip(_lines(labels, step), _lines(filled, step)):
        if len(line) < 2 or not line.any():  # one that runs along a boundary alone says nothing
            continue
        # Without boundary pixels: a chord over a grain's corner may be shorter than the boundary is wide.
        crossed = 1 + np.count_nonzero(along[1:] != along[:-1])
        grains += crossed - (int(line[0] != 0) + int(line[-1] != 0)) / 2
        samples += len(line) - 1
    return samples * math.hypot(*step), grains


def _lines(labels: np.ndarray, step: tuple[int, int]) -> Iterator[np.ndarray]:
    """Lines of labels in a direction, from rim to rim; so many of them that no pixel is left out, or _MOST_LINES."""
    down, right = step
    if right < 0:
        labels, right = labels[:, ::-1], -right
    high, wide = labels.shape
    first_rows = [(row, column) for row in range(min(down, high)) for column in range(wide)]
    first_columns = [(row, column) for row in range(min(down, high), high) for column in range(min(right, wide))]
    starts = first_rows + first_columns
    for row, column in starts[:: -(-len(starts) // _MOST_LINES)]:
        count = min(
            (high - 1 - row) // down if down else high + wide, (wide - 1 - column) // right if right else high + wide
        )
        steps = np.arange(count + 1)
        yield labels[row + down * steps, column + right * steps]


def _percentiles(values: np.ndarray) -> tuple[float, ...]:
    if not len(values):
        return (math.nan,) * len(PERCENTILES)
    return tuple(np.percentile(values, PERCENTILES).tolist())


def _ratio(amount: float, count: float) -> float:
    return amount / count if count else math.nan
