"""Ways to find grains by hand, which one validation tiles choose, and rows that need no network."""

from __future__ import annotations

import numpy as np
import pytest

from tests.applications import working_in
from tffapps.evaluation import grown
from tffapps.fedtransfer import EMPTY, METRICS, WATERSHED, grain_finding, untrained
from tffapps.fedtransfer.data import images_of, masks_of
from tffapps.fedtransfer.grain_finding import CANDIDATES, PUBLISHED, Way


def with_gap(height: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """A true boundary down the middle, and a map of it with a gap of four pixels."""
    truth = np.zeros((48, 48), bool)
    truth[:, 24] = True
    found = np.where(truth, height, 0.05).astype(np.float32)
    found[22:26, 24] = 0.05
    return truth, found


def test_a_cut_is_the_published_argmax():
    boundary = np.random.default_rng(0).random((8, 9)).astype(np.float32)
    both = np.stack([1 - boundary, boundary], axis=-1)
    np.testing.assert_array_equal(PUBLISHED.mask(boundary), both.argmax(axis=-1) == 1)


def test_validation_chooses_what_closes_gaps():
    truth, found = with_gap()
    assert grown.grown_map(truth, PUBLISHED.mask(found)) < 0.2
    way = grain_finding.best([(truth, found)] * 3)
    assert way.method == "watershed" and grown.grown_map(truth, way.mask(found)) > 0.9
    faint = with_gap(0.3)[1]  # a network that is sure of nothing
    assert grain_finding.best([(truth, faint)]).threshold < 0.3
    whole = with_gap()[1]
    whole[:, 24] = 0.9
    assert grain_finding.best([(truth, whole)]) == CANDIDATES[0]  # the first of equal ones
    assert grain_finding.best([]) == PUBLISHED


def test_small_grains_go_to_a_neighbour():
    found = with_gap()[1]
    found[22:26, 24] = 0.9
    found[5:10, 5] = found[5:10, 9] = found[5, 5:10] = found[9, 5:10] = 0.9  # round nine pixels
    assert (~Way("watershed", 0.5).mask(found))[7, 7] and grown.grown(Way("watershed", 0.5).mask(found)).max() == 3
    assert grown.grown(Way("watershed", 0.5, 1 / 100).mask(found)).max() == 2


@pytest.mark.parametrize("kind", [EMPTY, WATERSHED])
def test_rows_of_no_network(kind, tiles, tmp_path, monkeypatch):
    with working_in(tmp_path):
        found = untrained.measured(tiles, kind)
        monkeypatch.setattr(untrained, "_of_client", None)
        again = untrained.measured(tiles, kind)  # of the file
    assert found.equals(again)
    assert len(found) == sum(len(tiles.part("test", client)) for client in tiles.clients)
    assert found[list(METRICS)].notna().all().all() and set(found.client) == set(tiles.clients)
    if kind == EMPTY:
        truth = masks_of(tiles.part("test", tiles.clients[0])).astype(bool)
        expected = [grain_finding.scores(mask, np.zeros_like(mask)) for mask in truth]
        np.testing.assert_allclose(found[list(METRICS)].iloc[: len(truth)], expected, rtol=1e-8)
        assert (found.boundary_f1 == 0).all() and (found.intercept_off == 1).all()


def test_the_textbook_s_watershed_finds_more_than_nothing(tiles, tmp_path):
    with working_in(tmp_path):
        means = {kind: untrained.measured(tiles, kind).grown_map.mean() for kind in (EMPTY, WATERSHED)}
    assert means[WATERSHED] > means[EMPTY] + 0.05


def test_maps_of_images(tiles):
    image = images_of(tiles.part("val", "austenite").iloc[[0]], 3)[0]
    truth = masks_of(tiles.part("val", "austenite").iloc[[0]])[0].astype(bool)
    dark = untrained.Prefilter("dark", 1.0).map(image)  # austenite's boundaries are dark
    assert dark.min() >= 0 and dark.max() == 1 and dark[truth].mean() > 2 * dark[~truth].mean()
    assert not untrained.Prefilter("gradient", 1.0).map(np.full((9, 9, 3), 80, np.uint8)).any()
