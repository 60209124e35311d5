"""Drawn grains of known size: squares, hexagons, Voronoi cells."""

import math

import numpy as np
import pytest
from scipy.spatial import cKDTree
from skimage.measure import regionprops

from tffapps.evaluation import grain_size, segmentation

NEAR = 0.02


def squares(side: int, count: int) -> np.ndarray:
    """Labels of squares that begin half a square before the rim: lines of one pixel between them."""
    at = np.arange(side * count) + side // 2
    boundary = (at % side == 0)[:, None] | (at % side == 0)[None, :]
    return segmentation.grains(boundary)


def hexagons(pitch: float, size: int) -> np.ndarray:
    """Cells around the points of a triangular lattice that lies aslant, no boundary between them."""
    rows, columns = np.mgrid[-40:40, -40:40]
    lattice = pitch * np.stack([rows * math.sqrt(3) / 2, columns + rows % 2 / 2], axis=-1).reshape(-1, 2)
    turned = lattice @ [[math.cos(0.2), -math.sin(0.2)], [math.sin(0.2), math.cos(0.2)]]
    return cells(turned + size / 2, size)


def cells(points: np.ndarray, size: int) -> np.ndarray:
    grid = np.stack(np.mgrid[:size, :size], axis=-1).reshape(-1, 2)
    return 1 + cKDTree(points).query(grid)[1].reshape(size, size)


def with_boundaries(labels: np.ndarray) -> np.ndarray:
    """The same grains with boundaries of one pixel."""
    edge = np.zeros(labels.shape, bool)
    edge[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    edge[:-1] |= labels[:-1] != labels[1:]
    return np.where(edge, 0, labels)


def test_squares():
    side, count = 40, 12
    sizes = grain_size.measure(squares(side, count))
    assert (sizes.whole, sizes.cut) == ((count - 1) ** 2, 4 * count)
    assert sizes.count == count**2  # 121 whole, 44 cut in half, 4 in quarters: as many as would fit
    assert sizes.mean_area == side**2
    assert sizes.areas == pytest.approx([side**2] * 3, rel=NEAR)
    assert sizes.diameters == pytest.approx([side * math.sqrt(4 / math.pi)] * 3, rel=NEAR)
    # A slanted line crosses both families of boundaries: (|sin| + |cos|) / side of them a pixel.
    angles = [math.atan2(*step) for step in grain_size.DIRECTIONS]
    by_hand = [side / (abs(math.sin(angle)) + abs(math.cos(angle))) for angle in angles]
    assert sizes.intercepts == pytest.approx(by_hand, rel=NEAR)
    # Over all directions the mean intercept is π · area / perimeter, whatever the shape.
    assert sizes.mean_intercept == pytest.approx(math.pi * side**2 / (4 * side), rel=NEAR)


@pytest.mark.parametrize("drawn", [False, True], ids=["touching", "with boundaries"])
def test_hexagons(drawn):
    pitch = 48.0
    labels = hexagons(pitch, 700)
    sizes = grain_size.measure(with_boundaries(labels) if drawn else labels)
    area = pitch**2 * math.sqrt(3) / 2
    assert sizes.areas[1] == pytest.approx(area, rel=NEAR)
    assert sizes.diameters[1] == pytest.approx(math.sqrt(4 * area / math.pi), rel=NEAR)
    assert sizes.mean_area == pytest.approx(area, rel=NEAR)
    # The perimeter is 2 √3 pitch; its mean intercept over all directions is π · area / perimeter.
    assert sizes.mean_intercept == pytest.approx(math.pi * area / (2 * math.sqrt(3) * pitch), rel=NEAR)


@pytest.fixture(scope="module")
def voronoi():
    size, count = 900, 900
    return cells(np.random.default_rng(0).uniform(-90, size + 90, (round(count * 1.44), 2)), size)


def test_voronoi_cells(voronoi):
    """Of a Poisson process with n points per area the mean intercept is π / (4 √n) (Meijering)."""
    sizes = grain_size.measure(voronoi)
    density = 900 * 1.44 / 1080**2
    assert sizes.mean_area == pytest.approx(1 / density, rel=0.05)  # these points, not all that could be drawn
    assert sizes.mean_intercept == pytest.approx(math.pi / 4 * math.sqrt(sizes.mean_area), rel=NEAR)


def test_areas_and_diameters_are_those_of_regionprops(voronoi):
    labels = with_boundaries(voronoi)
    whole = regionprops(grain_size.whole_grains(grain_size.shared(labels)))
    sizes = grain_size.measure(grain_size.shared(labels))
    assert sizes.whole == len(whole)
    assert sizes.areas == pytest.approx(np.percentile([each.area for each in whole], grain_size.PERCENTILES))
    diameters = [each.equivalent_diameter_area for each in whole]
    assert sizes.diameters == pytest.approx(np.percentile(diameters, grain_size.PERCENTILES))


@pytest.mark.parametrize(
    ("line", "length", "grains"),
    [
        ([1, 1, 1, 2, 2, 2, 3], 6, 2),  # both ends in a grain: 1/2 + 1 + 1/2
        ([0, 1, 1, 0, 2, 2, 0], 6, 2),  # both ends on boundaries: two whole ones
        ([0, 1, 1, 0, 2, 2, 2], 6, 1.5),
        ([1, 1, 1, 1], 3, 0),  # no boundary is crossed
        ([1, 1, 0, 1, 1], 4, 0),  # a spur within a grain
    ],
)
def test_ends_of_a_line_count_one_half(line, length, grains):
    labels = np.array([line], np.int32)
    (found,) = grain_size.measure(labels, directions=[grain_size.HORIZONTAL]).intercepts
    assert found == pytest.approx(length / grains) if grains else math.isnan(found)


def test_a_line_along_a_boundary_says_nothing():
    labels = np.array([[1, 1, 0, 2, 2], [0, 0, 0, 0, 0], [3, 3, 0, 4, 4]], np.int32)
    assert grain_size.measure(labels, directions=[grain_size.HORIZONTAL]).intercepts == (4 / 1,)


def test_numbers_of_the_standard():
    """ASTM E112, table 4: G 1 has 15.5 grains per mm² and an intercept of 226.3 µm; G 8 has 1984 and 20.0 µm."""
    for number, per_square_mm, micron in ((1, 15.50, 226.3), (5, 248.0, 56.6), (8, 1984.0, 20.0), (10, 7936.0, 10.0)):
        assert grain_size.number_of_area(1e6 / per_square_mm) == pytest.approx(number, abs=0.01)
        assert grain_size.number_of_intercept(micron) == pytest.approx(number, abs=0.01)


def test_both_numbers_of_one_structure_agree(voronoi):
    sizes = grain_size.measure(voronoi)
    by_line, by_area = sizes.number_from_intercepts(0.5), sizes.number_from_areas(0.5)
    assert by_line == pytest.approx(by_area, abs=0.4)  # the standard's two formulas assume one shape of grain
    assert sizes.number_from_areas(0.25) == pytest.approx(by_area + 2, abs=1e-3)  # half the length is two numbers up


@pytest.mark.parametrize("value", [0, 1])
def test_no_grain_and_one_grain(value):
    sizes = grain_size.measure(np.full((20, 30), value, np.int32))
    assert (sizes.whole, sizes.cut, sizes.count) == (0, value, value)
    assert math.isnan(sizes.mean_intercept) and all(math.isnan(area) for area in sizes.areas)
    assert math.isnan(sizes.number_from_intercepts(1.0))


def test_what_is_no_label_image_is_refused():
    for wrong in (np.zeros((3, 3), bool), np.zeros((0, 3), int), np.zeros((3, 3, 1), int), np.zeros((3, 3))):
        with pytest.raises(ValueError, match="expected whole numbers"):
            grain_size.measure(wrong)
