import cv2
import numpy as np
import pytest

from tffapps.errors import UserError
from tffapps.fedtransfer import data


def test_the_stand_in(tiles):
    assert tiles.pool.name == "stand-in" and tiles.clients == ["austenite", "iron"] and tiles.size == (64, 64)
    assert tiles.codings["austenite"].boundary == "dark" and tiles.codings["iron"].boundary == "light"
    assert [len(tiles.part(split)) for split in ("train", "val", "test")] == [16, 4, 4]
    rows = tiles.part("test", "iron")
    images, masks = data.images_of(rows, 1), data.masks_of(rows)
    assert images.shape == (2, 64, 64, 1) and images.dtype == np.uint8 and set(np.unique(masks)) == {0, 1}
    assert 0.1 < masks.mean() < 0.4
    colour = data.images_of(rows, 3)
    np.testing.assert_array_equal(colour, np.repeat(images, 3, axis=-1))


def test_colours_keep_their_order(tmp_path):
    import pandas as pd

    image = np.zeros((2, 2, 3), np.uint8)
    image[..., 0] = 200  # OpenCV's first is blue
    cv2.imwrite(str(tmp_path / "a.png"), image)
    found = data.images_of(pd.DataFrame({"path": [str(tmp_path / "a.png")]}), 3)
    assert found[0, 0, 0].tolist() == [0, 0, 200]


def test_folds_differ_in_what_they_validate_with(flags, here):
    folds = data.load(flags.replaced(folds=3))
    assert [tiles.fold for tiles in folds] == [0, 1, 2] and len({tiles.pool.key for tiles in folds}) == 3
    assert len({tuple(tiles.part("test").path) for tiles in folds}) == 1
    validated = [set(tiles.part("val").path) for tiles in folds]
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
@pytest.mark.parametrize("read", [data.load, data.look])
def test_what_is_refused(tmp_path, monkeypatch, flags, sizes, changes, complaint, read):
    """By a run, and by who looks at the data before."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=complaint):
        read(flags.replaced(data=lay_out(tmp_path / "d", sizes), **changes))


def test_clients_of_different_magnification(tmp_path, monkeypatch, flags):
    monkeypatch.chdir(tmp_path)
    flags = flags.replaced(data=lay_out(tmp_path / "d", {"one": 40, "two": 80}), tile=0, size=32)
    (tiles,) = data.load(flags)
    assert tiles.size == (32, 32) and tiles.pool.name == "d"
    assert data.masks_of(tiles.pool.table).shape == (8, 32, 32)
    found = data.look(flags)
    assert found.noun == "tiles" and "a tile is 40 or 80 pixels wide" in found.notes[-1]
    assert found.table.groupby(["client", "split"]).size().equals(tiles.pool.table.groupby(["client", "split"]).size())


def test_a_manifest_keeps_the_order_of_its_clients_and_says_what_it_does_not_use(tmp_path, monkeypatch, flags, capsys):
    """Clients' seeds go by that order."""
    monkeypatch.chdir(tmp_path)
    root = lay_out(tmp_path / "d", {"two": 40, "one": 40})
    lines = [
        f"{client}/images/m{number}.png,{client}/labels/m{number}.png,grains,{client},?"
        for client in ("two", "one")
        for number in range(4)
    ]
    manifest = tmp_path / "d" / "all.csv"
    manifest.write_text("\n".join(["path,mask,label,client,lens", *lines]))
    assert root == str(manifest.parent)
    (tiles,) = data.load(flags.replaced(data=str(manifest), tile=40))
    assert tiles.clients == ["two", "one"] and tiles.pool.clients == ["one", "two"]
    assert any("not used: lens" in note for note in tiles.pool.notes) and "lens" not in capsys.readouterr().err


def test_a_tile_that_is_gone(tiles):
    rows = tiles.part("test").assign(path="gone.png")
    with pytest.raises(UserError, match=r"gone\.png: .*it could be read before"):
        data.images_of(rows, 1)
