"""Grains from a map of how likely each pixel is on a boundary.

A cut at a threshold joins two grains wherever the boundary between them has a gap of one pixel. The watershed does not:

    1. basins      the map is cut, and water rises from the middle of every open place; where waters meet is a border,
                   in the gaps of a boundary too, and in places across an open grain
    2. merging     two basins are one grain if the map is below the threshold on average along their border: true of a
                   border across an open grain, not of a boundary with a gap
    3. specks      grains of fewer pixels than `least` go to the neighbour that the weakest border divides them from
"""

import numpy as np
from scipy import ndimage
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from skimage.filters import threshold_otsu
from skimage.morphology import h_maxima
from skimage.segmentation import relabel_sequential, watershed

from tffapps.evaluation import segmentation

_FLAT = 0.05  # a map that varies by less shows no boundary: a threshold would divide noise
_DEPTH = 1.0  # pixels: how much narrower an open place must become for its two ends to be two basins


def automatic_threshold(boundary: np.ndarray) -> float:
    """Otsu's, which divides a map best in two; 1/2 of a map without contrast."""
    return float(threshold_otsu(boundary)) if np.ptp(boundary) >= _FLAT else 0.5


def grains_by_watershed(boundary: np.ndarray, threshold: float, least: int = 1) -> np.ndarray:
    """Grains numbered from 1, lines of one pixel between them 0: int32 (height, width).

    Args:
      boundary: float32 (height, width), how likely a pixel is on a boundary.
      threshold: from where on it is.
      least: pixels of a grain.
    """
    closed = boundary >= threshold
    if closed.all():
        return np.zeros(boundary.shape, np.int32)
    if not closed.any():
        return np.ones(boundary.shape, np.int32)
    # To the nearest boundary; what lies outside the picture is none.
    distance = ndimage.distance_transform_edt(~closed).astype(np.float32)
    smooth = ndimage.gaussian_filter(distance, 1.0)
    markers = _markers(smooth, closed)
    # Above the level of the open places, the water climbs the map itself: borders follow its ridges.
    basins = watershed(np.where(closed, boundary, -smooth), markers)
    return with_lines(_without_specks(_merged(basins, boundary, threshold), boundary, least))


def _markers(smooth: np.ndarray, closed: np.ndarray) -> np.ndarray:
    """The widest spots of the open places, numbered: one or more of each place, however small it is."""
    places, count = ndimage.label(~closed)
    spots = h_maxima(smooth, _DEPTH).astype(bool) & ~closed
    spotless = ~np.isin(np.arange(count + 1), places[spots])
    spotless[0] = False
    return ndimage.label(spots | spotless[places], np.ones((3, 3)))[0]


def grains_by_cut(boundary: np.ndarray, threshold: float, least: int = 1) -> np.ndarray:
    """The connected parts of what is below a threshold, as `evaluation.segmentation` has them; specks are boundary."""
    labels = segmentation.grains(boundary >= threshold)
    sizes = np.bincount(labels.ravel())
    return relabel_sequential(np.where(sizes[labels] >= least, labels, 0).astype(np.int32))[0]


def with_lines(labels: np.ndarray) -> np.ndarray:
    """Grains that touch, divided by lines of one pixel, which are 0."""
    edge = np.zeros(labels.shape, bool)
    edge[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    edge[:-1] |= labels[:-1] != labels[1:]
    return relabel_sequential(np.where(edge, 0, labels).astype(np.int32))[0]


def _borders(labels: np.ndarray, boundary: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of labels that touch (first below second), and the mean of the map along each pair's border."""
    firsts, seconds, heights = [], [], []
    for one, other in (((slice(None), slice(-1)), (slice(None), slice(1, None))), ((slice(-1),), (slice(1, None),))):
        differ = labels[one] != labels[other]
        pair = labels[one][differ], labels[other][differ]
        firsts.append(np.minimum(*pair))
        seconds.append(np.maximum(*pair))
        # A boundary one pixel wide lies on one side of the border.
        heights.append(np.maximum(boundary[one][differ], boundary[other][differ]))
    place = np.concatenate(firsts), np.concatenate(seconds)
    shape = (int(labels.max()) + 1,) * 2
    # Sums over all places with the same pair.
    totals = coo_matrix((np.concatenate(heights).astype(np.float64), place), shape).tocsr().tocoo()
    counts = coo_matrix((np.ones(len(place[0])), place), shape).tocsr().tocoo()
    order, same = np.lexsort((totals.col, totals.row)), np.lexsort((counts.col, counts.row))
    return totals.row[order], totals.col[order], totals.data[order] / counts.data[same]


def _merged(labels: np.ndarray, boundary: np.ndarray, threshold: float) -> np.ndarray:
    first, second, height = _borders(labels, boundary)
    open_ = height < threshold
    size = int(labels.max()) + 1
    graph = coo_matrix((np.ones(np.count_nonzero(open_)), (first[open_], second[open_])), (size, size))
    return connected_components(graph, directed=False)[1][labels] + 1


def _without_specks(labels: np.ndarray, boundary: np.ndarray, least: int) -> np.ndarray:
    """Each round gives every speck to a neighbour; specks among specks may take several."""
    while True:
        sizes = np.bincount(labels.ravel())
        small = (sizes > 0) & (sizes < least)
        if not small.any() or np.count_nonzero(sizes) == 1:
            return labels
        first, second, height = _borders(labels, boundary)
        pairs = [(first, second, height), (second, first, height)]
        speck, neighbour, height = (np.concatenate(each) for each in zip(*pairs))
        order = np.argsort(-height, kind="stable")  # the weakest border comes last, and is the one that stays
        order = order[small[speck[order]]]
        nearest = np.arange(len(sizes))
        nearest[speck[order]] = neighbour[order]
        # Two specks may have chosen each other: what is joined by choices is one grain.
        graph = coo_matrix((np.ones(len(sizes)), (np.arange(len(sizes)), nearest)), (len(sizes),) * 2)
        labels = connected_components(graph, directed=False)[1][labels] + 1
