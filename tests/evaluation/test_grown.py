"""Scores of grown grains by hand, and that the width of a line does not count."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from tests.evaluation.test_segmentation import mask
from tffapps.evaluation import grain_size, grown, segmentation


def cells(lines: list[int], size: int = 60) -> np.ndarray:
    """A mask with straight boundaries of one pixel at these columns."""
    found = np.zeros((size, size), bool)
    found[:, lines] = True
    return found


def test_every_pixel_belongs_to_the_nearest_grain():
    assert grown.grown(mask("..##.", "..##.")).tolist() == [[1, 1, 1, 2, 2]] * 2
    assert not grown.grown(np.ones((3, 4), bool)).any()


@pytest.mark.parametrize("wide", [1, 3, 5])
def test_the_width_of_a_line_does_not_count(wide):
    thin = cells([20, 40])
    thick = ndimage.binary_dilation(thin, np.ones((1, wide)))
    found = grown.scores(thin, thick)
    assert found == {"grown_map": 1.0, "boundary_f1": 1.0, "intercept_off": 0.0}
    if wide > 1:
        assert segmentation.map_score(thin, thick) < 1


def test_a_line_that_is_missed():
    # True: widths 20, 20 and 20 of 60. Found: 20 and 40. The first is found, the other two have an IoU of 1/2 with the
    # joined one, of which one counts at the threshold 0.5: 2 hits of 5 − 2, then 1 of 5 − 1 at the nine others.
    truth, predicted = cells([19, 39]), cells([19])
    true, found = grown.grown(truth), grown.grown(predicted)
    sizes = [np.bincount(labels.ravel())[1:].tolist() for labels in (true, found)]
    assert sizes == [[1200, 1200, 1200], [1200, 2400]]
    assert grown.grown_map(truth, predicted) == pytest.approx((2 / 3 + 9 * 1 / 4) / 10)
    assert grown.boundary_f1(true, found) == pytest.approx(2 * 1 * 0.5 / 1.5)
    assert grown.intercept_off(true, found) == pytest.approx(0.5)


def test_borders_a_little_off_count_within_the_tolerance():
    true, near, far = (grown.grown(cells([column])) for column in (30, 31, 35))
    assert grown.boundary_f1(true, near) == 1 and grown.boundary_f1(true, far) == 0
    assert grown.boundary_f1(true, far, tolerance=5) == 1


def test_nothing_against_something():
    nothing, something = np.zeros((60, 60), bool), cells([30])
    assert grown.scores(nothing, nothing) == {"grown_map": 1.0, "boundary_f1": 1.0, "intercept_off": 0.0}
    for pair in ((nothing, something), (something, nothing)):
        found = grown.scores(*pair)
        assert found["boundary_f1"] == 0 and found["intercept_off"] == 1 and found["grown_map"] < 0.11


def test_the_mean_intercept_is_heyn_s():
    """On drawn grains, as `grain_size` counts them along rows and columns, but for ends of lines."""
    labels = grown.grown(_voronoi(np.random.default_rng(0)))
    measured = grain_size.measure(labels, (grain_size.HORIZONTAL, grain_size.VERTICAL)).mean_intercept
    assert 1 / grown._borders_a_pixel(labels) == pytest.approx(measured, rel=0.02)


def _voronoi(rng: np.random.Generator, size: int = 128, count: int = 40) -> np.ndarray:
    points = rng.uniform(0, size, (count, 2))
    places = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), axis=-1)
    nearest = np.argmin(((places[:, :, None] - points) ** 2).sum(axis=-1), axis=-1)
    return grown.borders(nearest)
