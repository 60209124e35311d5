import json

import cv2
import numpy as np
import pytest

from tffapps.data import standin
from tffapps.data.standin import Item, write
from tffapps.errors import UserError

ITEMS = [Item(f"site/{number}.png", {"level": 10 * number}) for number in range(6)]


def draw(rng, item):
    return rng.integers(0, 5, (8, 9), dtype=np.uint8) + np.uint8(item.fields["level"])


def contents(folder):
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*.*"))}


def make(folder, items=ITEMS, draw=draw, seed=0, name="dots", **options):
    return write(folder, items, draw, seed, name, progress=False, **options)


def test_writes_images_and_a_marker(tmp_path):
    folder = make(tmp_path / "deep" / "d", parameters={"size": (8, 9)})
    assert folder == tmp_path / "deep" / "d"
    for item in ITEMS:
        image = cv2.imread(str(folder / item.path), cv2.IMREAD_UNCHANGED)
        assert image.shape == (8, 9)
        assert image.min() - item.fields["level"] >= 0 and image.max() - item.fields["level"] < 5
    marker = json.loads((folder / standin.MARKER).read_text())
    assert (marker["name"], marker["seed"], marker["parameters"]) == ("dots", 0, {"size": [8, 9]})
    assert standin.is_standin(folder) and not standin.is_standin(tmp_path)
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["d"]  # no temporary folder is left
    assert folder.stat().st_mode & 0o055 == 0o055


def test_an_item_depends_on_seed_and_position_alone(tmp_path):
    first, longer = make(tmp_path / "a", ITEMS[:3]), make(tmp_path / "b")
    other = make(tmp_path / "c", seed=1)
    for item in ITEMS[:3]:
        assert (first / item.path).read_bytes() == (longer / item.path).read_bytes()
        assert (first / item.path).read_bytes() != (other / item.path).read_bytes()


def test_items_of_one_stream_share_random_numbers(tmp_path):
    items = [Item("x.png", {"level": 0}, stream=4), Item("mask.png", {"level": 0}, stream=4)]
    folder = make(tmp_path / "d", items)
    assert (folder / "x.png").read_bytes() == (folder / "mask.png").read_bytes()


def test_colours_are_rgb(tmp_path):
    folder = make(tmp_path / "d", [Item("x.bmp")], lambda rng, item: np.full((2, 2, 3), [255, 0, 7], np.uint8))
    assert cv2.imread(str(folder / "x.bmp"))[0, 0].tolist() == [7, 0, 255]  # OpenCV reads blue first


def test_the_same_stand_in_is_reused(tmp_path):
    folder = make(tmp_path / "d", parameters={"size": (8, 9)})
    before = contents(folder)

    def not_again(rng, item):
        raise AssertionError("drawn again")

    assert make(tmp_path / "d", draw=not_again, parameters={"size": (8, 9)}) == folder
    assert contents(folder) == before


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "d").mkdir()
    assert len(contents(make(tmp_path / "d"))) == 7


@pytest.mark.parametrize(
    "change, word",
    [
        ({"seed": 1}, "seed"),
        ({"name": "lines"}, "name"),
        ({"parameters": {"size": 9}}, "parameters"),
        ({"items": ITEMS[:5]}, "images"),
        ({"items": [*ITEMS[:5], Item("site/5.png", {"level": 51})]}, "items"),
    ],
)
def test_another_stand_in_is_not_overwritten(tmp_path, change, word):
    before = contents(make(tmp_path / "d"))
    with pytest.raises(UserError, match=f"another stand-in .*{word}"):
        make(tmp_path / "d", **change)
    assert contents(tmp_path / "d") == before


def test_a_users_data_is_not_touched(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "mine.png").write_bytes(b"precious")
    with pytest.raises(UserError, match="not overwritten"):
        make(tmp_path / "d")
    assert contents(tmp_path / "d") == {"mine.png": b"precious"}
    with pytest.raises(UserError, match="not overwritten"):
        make(tmp_path / "d" / "mine.png")


def test_a_marker_that_is_nonsense(tmp_path):
    folder = make(tmp_path / "d")
    for text in ("{", "[]", "{}"):
        (folder / standin.MARKER).write_text(text)
        with pytest.raises(UserError, match="choose another folder"):
            make(folder)


def test_missing_images_are_noticed(tmp_path):
    folder = make(tmp_path / "d")
    (folder / ITEMS[2].path).unlink()
    with pytest.raises(UserError, match=r"1 images .*site/2\.png"):
        make(folder)


def test_a_failure_leaves_nothing_behind(tmp_path):
    def fails(rng, item):
        if item is ITEMS[3]:
            raise KeyboardInterrupt
        return draw(rng, item)

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "d", draw=fails)
    assert list(tmp_path.iterdir()) == []


def test_two_writers_at_once(tmp_path):
    def slow(rng, item):
        make(tmp_path / "d")  # the other one is done before us
        return draw(rng, item)

    assert len(contents(make(tmp_path / "d", draw=slow))) == 7
    assert [file.name for file in tmp_path.iterdir()] == ["d"]


def test_a_drawing_must_be_uint8(tmp_path):
    with pytest.raises(TypeError, match=r"site/0\.png: drawn as float64"):
        make(tmp_path / "d", draw=lambda rng, item: np.zeros((4, 4)))
