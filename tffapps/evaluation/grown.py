"""How well grains are found when a boundary's width does not count: grains grow until they meet, and are then compared.

Published MAP counts the pixels of grains, and how wide a line was drawn decides how many there are: the same prediction
scored with lines of 3 and of 9 pixels gives two values. Here every boundary pixel belongs to the nearest grain, in the
label and in the prediction, before anything is measured.

    grown_map      MAP (`evaluation.segmentation`) of the grown grains
    boundary_f1    harmonic mean of the shares of found and of true borders that lie within a tolerance of one of the
                   other kind: 0.75 % of the picture's diagonal, one pixel at least (as in Arbeláez et al. 2011). Every
                   near pixel counts; matching one to one, as their benchmark does, is stricter.
    intercept_off  how far the mean intercept (Heyn, `evaluation.grain_size`) is from the label's: 1 − the smaller over
                   the larger, 0 right, 1 where only one of the two has a border at all
"""

import math

import numpy as np
from scipy import ndimage
from scipy.sparse import csr_matrix
from skimage.metrics import contingency_table

from tffapps.evaluation import grain_size, segmentation

METRICS = ("grown_map", "boundary_f1", "intercept_off")
TOLERANCE = 0.0075  # of the diagonal


def grown(boundary: np.ndarray) -> np.ndarray:
    """The grains of a boundary mask, numbered from 1, that share all pixels among them; all 0 where there is none."""
    return grain_size.shared(segmentation.grains(boundary))


def scores(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """All METRICS of one predicted boundary mask, bool (height, width) as the true one."""
    one, other = grown(truth), grown(predicted)
    return {
        "grown_map": _map(one, other),
        "boundary_f1": boundary_f1(one, other),
        "intercept_off": intercept_off(one, other),
    }


def grown_map(truth: np.ndarray, predicted: np.ndarray) -> float:
    """That of two boundary masks alone."""
    return _map(grown(truth), grown(predicted))


def _map(truth: np.ndarray, predicted: np.ndarray) -> float:
    return segmentation.precision(csr_matrix(contingency_table(truth, predicted)))


def borders(labels: np.ndarray) -> np.ndarray:
    """Pixels beside which, to the right or below, another grain begins."""
    found = np.zeros(labels.shape, bool)
    found[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    found[:-1] |= labels[:-1] != labels[1:]
    return found


def boundary_f1(truth: np.ndarray, predicted: np.ndarray, tolerance: float | None = None) -> float:
    """Of grown labels; `tolerance` in pixels, as said above by itself."""
    if tolerance is None:
        tolerance = max(1.0, TOLERANCE * math.hypot(*truth.shape))
    true, found = borders(truth), borders(predicted)
    if not true.any() and not found.any():
        return 1.0
    if not true.any() or not found.any():
        return 0.0
    precision, recall = _near(found, true, tolerance), _near(true, found, tolerance)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _near(these: np.ndarray, those: np.ndarray, tolerance: float) -> float:
    """The share of pixels of one kind within the tolerance of one of the other."""
    return float((ndimage.distance_transform_edt(~those)[these] <= tolerance).mean())


def intercept_off(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Of grown labels."""
    true, found = _borders_a_pixel(truth), _borders_a_pixel(predicted)
    return 1 - min(true, found) / max(true, found) if max(true, found) else 0.0


def _borders_a_pixel(labels: np.ndarray) -> float:
    """How many borders test lines along rows and columns cross for each pixel of length: 1 over the mean intercept."""
    high, wide = labels.shape
    crossed = np.count_nonzero(labels[:, 1:] != labels[:, :-1]) + np.count_nonzero(labels[1:] != labels[:-1])
    return crossed / max(high * (wide - 1) + (high - 1) * wide, 1)
