import cv2
import numpy as np
import pytest

from tffapps.errors import UserError
from tffapps.fedtransfer import data


def test_the_stand_in(pool):
    assert pool.name == "stand-in" and pool.clients == ["austenite", "iron"] and pool.size == (64, 64)
    assert pool.codings["austenite"].boundary == "dark" and pool.codings["iron"].boundary == "light"
    assert [len(pool.of(split)) for split in ("train", "val", "test")] == [16, 4, 4]
    tiles = pool.of("test", "iron")
    images, masks = data.images_of(tiles, 1), data.masks_of(tiles)
    assert images.shape == (2, 64, 64, 1) and images.dtype == np.uint8 and set(np.unique(masks)) == {0, 1}
    assert 0.1 < masks.mean() < 0.4
    colour = data.images_of(tiles, 3)
    np.testing.assert_array_equal(colour, np.repeat(images, 3, axis=-1))


def test_colours_keep_their_order(tmp_path):
    import pandas as pd

    image = np.zeros((2, 2, 3), np.uint8)
    image[..., 0] = 200  # OpenCV's first is blue
    cv2.imwrite(str(tmp_path / "a.png"), image)
    found = data.images_of(pd.DataFrame({"path": [str(tmp_path / "a.png")]}), 3)
    assert found[0, 0, 0].tolist() == [0, 0, 200]


def test_folds_differ_in_what_they_validate_with(values, here):
    values["folds"] = 3
    pools = data.load(values)
    assert len(pools) == 3 and len({pool.key for pool in pools}) == 3
    assert len({tuple(pool.of("test").path) for pool in pools}) == 1
    validated = [set(pool.of("val").path) for pool in pools]
    assert not set.intersection(*validated) and len(set.union(*validated)) == 20


def lay_out(root, sizes):
    for client, size in sizes.items():
        for kind in ("images", "labels"):
            (root / client / kind).mkdir(parents=True)
        for number in range(4):
            label = np.full((size, size), 255, np.uint8)
            label[number + 3] = 0
            cv2.imwrite(str(root / client / "images" / f"m{number}.png"), label)
            cv2.imwrite(str(root / client / "labels" / f"m{number}.png"), label)
    return str(root)


@pytest.mark.parametrize(
    ("sizes", "changes", "complaint"),
    [
        ({"one": 40}, {"tile": 40}, "only one client, one; generators travel between two or more"),
        ({"one": 40, "global": 40}, {"tile": 40}, "a client called global"),
        ({"one": 40, "two": 48}, {"tile": 0}, "--tile 0: tiles of 40 × 40 pixels at one and of 48 × 48 at two"),
        ({"one": 40, "two": 48}, {"tile": 50}, "smaller than a tile; choose --tile 40 or less"),
        ({"one": 40, "two": 48}, {"tile": 40, "folds": 9}, "are too few for 9 folds"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, values, sizes, changes, complaint):
    monkeypatch.chdir(tmp_path)
    values |= {"data": lay_out(tmp_path / "d", sizes), **changes}
    with pytest.raises(UserError, match=complaint):
        data.load(values)


def test_clients_of_different_magnification(tmp_path, monkeypatch, values):
    monkeypatch.chdir(tmp_path)
    values |= {"data": lay_out(tmp_path / "d", {"one": 40, "two": 80}), "tile": 0, "size": 32}
    (pool,) = data.load(values)
    assert pool.size == (32, 32) and pool.name == "d" and data.masks_of(pool.table).shape == (8, 32, 32)


def test_a_tile_that_is_gone(pool):
    tiles = pool.of("test").assign(path="gone.png")
    with pytest.raises(UserError, match=r"gone\.png: .*it could be read before"):
        data.images_of(tiles, 1)
