"""Pictures of any size: exact with a network that does nothing, seamless with one that says the same everywhere."""

import numpy as np
import pytest

from tffapps.use import tiling

SIZES = [(1, 1), (3, 200), (31, 32), (32, 32), (33, 32), (63, 65), (64, 64), (100, 47), (129, 130)]
TILE = (32, 24)


def identity(tiles):
    assert tiles.shape[1:3] == TILE and len(tiles) <= 3
    return tiles


def picture(high: int, wide: int) -> np.ndarray:
    return np.random.default_rng(0).random((high, wide, 2), np.float32)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("overlap", [0, 0.1, 0.25, 0.5])
def test_a_network_that_does_nothing(size, overlap):
    image = picture(*size)
    found = list(tiling.strips(image, identity, TILE, batch=3, overlap=overlap))
    assert all(strip.dtype == np.float32 for strip in found)
    np.testing.assert_allclose(np.concatenate(found), image, atol=1e-6)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_constant_has_no_seams(size):
    found = tiling.predicted(picture(*size), lambda tiles: np.full((*tiles.shape[:3], 1), 0.7, np.float32), TILE)
    np.testing.assert_allclose(found, np.float32(0.7), rtol=3e-7)
    assert found.shape == (*size, 1)


def test_what_tiles_say_of_their_edges_counts_little():
    """A network that is wrong at a tile's outermost pixels, as one that fills up with zeros is."""

    def wrong(tiles):
        answer = np.zeros((*tiles.shape[:3], 1), np.float32)
        answer[:, [0, -1]] = answer[:, :, [0, -1]] = 1
        return answer

    inner = tiling.predicted(picture(120, 110), wrong, TILE)[1:-1, 1:-1]
    assert inner.max() < 0.1
    blunt = np.concatenate(list(tiling.strips(picture(120, 110), wrong, TILE, overlap=0)))[1:-1, 1:-1]
    assert blunt.max() > 0.5


def test_a_smaller_picture_is_seen_with_its_mirror_image():
    seen = []
    tiling.predicted(np.arange(6, dtype=np.float32).reshape(2, 3, 1), lambda tiles: seen.append(tiles) or tiles, (4, 8))
    assert seen[0][0, :, :, 0].tolist() == [
        [0, 1, 2, 2, 1, 0, 0, 1], [3, 4, 5, 5, 4, 3, 3, 4], [3, 4, 5, 5, 4, 3, 3, 4], [0, 1, 2, 2, 1, 0, 0, 1]
    ]  # fmt: skip


def test_one_strip_is_in_memory():
    """Rows are asked for as they are needed, a tile's height at a time."""

    class OnDisk:
        shape, ndim, reads = (1000, 40, 1), 3, []

        def __getitem__(self, rows):
            self.reads.append((rows.start, rows.stop))
            return np.zeros((min(rows.stop, 1000) - rows.start, 40, 1), np.float32)

    image = OnDisk()
    found = tiling.strips(image, lambda tiles: tiles, TILE)
    first = next(found)
    assert image.reads == [(0, 32)] and first.base is None and len(first) < 32
    assert len(first) + sum(len(strip) for strip in found) == 1000
    assert all(stop - start == 32 for start, stop in image.reads)


@pytest.mark.parametrize(("shape", "overlap"), [((0, 3, 1), 0.1), ((3, 3), 0.1), ((3, 3, 1), 0.6), ((3, 3, 1), -0.1)])
def test_what_cannot_be_tiled(shape, overlap):
    with pytest.raises(ValueError, match="expected"):
        list(tiling.strips(np.zeros(shape), identity, TILE, overlap=overlap))
