"""Drawn boundary maps: gaps, open grains, specks, faint boundaries."""

import numpy as np
import pytest
from scipy import ndimage

from tffapps.evaluation.segmentation import adjusted_rand_index
from tffapps.use import watershed

LINE = 0.9


def drawn(side: int = 40, count: int = 4) -> np.ndarray:
    """A map of squares: count × count of them, boundaries three pixels wide."""
    at = np.arange(side * count) % side
    line = (at < 2) | (at == side - 1)
    return np.where(line[:, None] | line[None, :], LINE, 0.05).astype(np.float32)


def number(labels: np.ndarray) -> int:
    assert set(np.unique(labels)) - {0} == set(range(1, labels.max() + 1))  # numbered without a gap
    return int(labels.max())


def test_squares_are_found_by_both_ways():
    for way in (watershed.grains_by_watershed, watershed.grains_by_cut):
        assert number(way(drawn(), 0.5)) == 16


def test_a_gap_joins_two_grains_in_a_cut_and_not_in_the_watershed():
    boundary = drawn()
    boundary[18:23, 38:43] = 0.05  # a gap of five pixels in a boundary of 37
    assert number(watershed.grains_by_cut(boundary, 0.5)) == 15
    assert number(watershed.grains_by_watershed(boundary, 0.5)) == 16


def test_a_boundary_that_is_mostly_gap_is_none():
    boundary = drawn()
    boundary[8:38, 38:43] = 0.05
    assert number(watershed.grains_by_watershed(boundary, 0.5)) == 15


def test_a_long_grain_with_a_waist_is_one():
    """Two basins whose border runs across an open place."""
    closed = np.zeros((60, 120), bool)
    closed[[5, 54], :] = closed[:, [5, 114]] = True
    for top, bottom in ((6, 16), (44, 54)):  # two other grains make the waist
        closed[[top, bottom - 1], 50:70] = closed[top:bottom, [50, 69]] = True
    boundary = np.where(ndimage.binary_dilation(closed), LINE, 0.05).astype(np.float32)[5:55, 5:115]
    labels = watershed.grains_by_watershed(boundary, 0.5)
    assert number(labels) == 3 and labels[25, 20] == labels[25, 90] != labels[5, 55]


def test_the_lines_lie_on_the_boundaries_and_divide():
    labels = watershed.grains_by_watershed(drawn(), 0.5)
    assert np.all(drawn()[labels == 0] >= 0.5)
    assert ndimage.label(labels != 0)[1] == 16  # grains touch at corners only
    assert np.count_nonzero(labels == 0) < 0.6 * np.count_nonzero(drawn() >= 0.5)  # thinner than what was drawn


def test_specks_go_to_their_neighbours():
    boundary = drawn()
    boundary[15:22, 15:22] = LINE  # a small ring in a grain
    boundary[17:20, 17:20] = 0.05
    assert number(watershed.grains_by_watershed(boundary, 0.5)) == 17
    found = watershed.grains_by_watershed(boundary, 0.5, least=60)
    assert number(found) == 16 and found[18, 18] == found[30, 30]
    cut = watershed.grains_by_cut(boundary, 0.5, least=60)
    assert number(cut) == 16 and cut[18, 18] == 0


def test_if_all_are_specks_one_grain_is_left():
    assert number(watershed.grains_by_watershed(drawn(), 0.5, least=10**6)) == 1


@pytest.mark.parametrize("scale", [1.0, 0.3, 0.1])
def test_the_threshold_follows_a_faint_map(scale):
    boundary = drawn() * scale
    assert number(watershed.grains_by_watershed(boundary, watershed.automatic_threshold(boundary))) == 16


def test_a_map_without_contrast():
    flat = np.full((30, 40), 0.2, np.float32)
    flat += np.random.default_rng(0).normal(0, 0.001, flat.shape).astype(np.float32)
    assert watershed.automatic_threshold(flat) == 0.5
    assert number(watershed.grains_by_watershed(flat, 0.5)) == 1
    assert number(watershed.grains_by_watershed(flat + 0.5, 0.5)) == 0


def test_noise_does_not_tear_grains():
    rng = np.random.default_rng(0)
    noisy = np.clip(ndimage.gaussian_filter(drawn(), 1) + rng.normal(0, 0.08, drawn().shape), 0, 1).astype(np.float32)
    labels = watershed.grains_by_watershed(noisy, watershed.automatic_threshold(noisy), least=20)
    assert number(labels) == 16
    assert adjusted_rand_index(watershed.grains_by_watershed(drawn(), 0.5) == 0, labels == 0) > 0.9
