import cv2
import numpy as np
import pandas as pd
import pytest

from tffapps.data import groups, near_duplicates
from tffapps.errors import UserError


def texture(seed: int, size: int = 160) -> np.ndarray:
    """Blobs at random, as no other seed has them."""
    rng = np.random.default_rng(seed)
    image = np.full((size, size, 3), 200, np.uint8)
    for _ in range(60):
        centre = tuple(int(value) for value in rng.integers(0, size, 2))
        cv2.circle(image, centre, int(rng.integers(3, 14)), [int(value) for value in rng.integers(0, 255, 3)], -1)
    return image


def rotated(image: np.ndarray, angle: float) -> np.ndarray:
    """About its centre, and as much of it as has no corner outside, as augmented sets have it."""
    size = len(image)
    turned = cv2.warpAffine(image, cv2.getRotationMatrix2D((size / 2, size / 2), angle, 1), (size, size))
    rim = round(size * 0.14)
    return cv2.resize(turned[rim : size - rim, rim : size - rim], (size, size))


COPIES = {
    "rotated": lambda image: rotated(image, 20),
    "flipped": lambda image: image[:, ::-1],
    "turned": lambda image: np.rot90(image),
    "turned and flipped": lambda image: rotated(image[::-1], -25),
    "brighter": lambda image: np.clip(image * 0.8 + 40, 0, 255).astype(np.uint8),
    "smaller": lambda image: cv2.resize(image, (96, 96), interpolation=cv2.INTER_AREA),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Eight images, and copies of the first six, one of each kind; the last file is a copy byte by byte."""
    place = tmp_path_factory.mktemp("textures")
    for number in range(8):
        cv2.imwrite(str(place / f"{number}.png"), texture(number))
    for number, change in enumerate(COPIES.values()):
        cv2.imwrite(str(place / f"{number}-copy.jpg"), change(texture(number)))
    (place / "7-copy.png").write_bytes((place / "7.png").read_bytes())
    return place


@pytest.fixture(scope="module")
def table(folder):
    paths = sorted(map(str, folder.glob("*.*")))
    splits = ["test" if "copy" in path else "train" for path in paths]
    return pd.DataFrame({"path": paths, "label": "a", "client": "all", "split": splits})


@pytest.fixture(scope="module")
def found(table, tmp_path_factory):
    return groups.of(table, groups.DUPLICATES, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("number", range(6))
def test_a_copy_is_in_the_group_of_its_original(number, table, found):
    by_name = {path.rpartition("/")[2]: group for path, group in zip(table.path, found)}
    assert by_name[f"{number}.png"] == by_name[f"{number}-copy.jpg"], list(COPIES)[number]


def test_other_images_are_in_no_group(table, found):
    assert pd.Series(found).value_counts().tolist() == [2] * 7 + [1]
    assert groups.sentence(table, found) == ("14 images in 7 groups of near-duplicates; 7 groups are in train and test")
    assert groups.sentence(table, list(table.path)) == "near-duplicates: none"
    assert groups.sentence(table.assign(split="train"), found).endswith("; each is in one split")


def test_many_images_go_by_candidates(table, found, monkeypatch, tmp_path):
    monkeypatch.setattr(near_duplicates, "_ALL_PAIRS", 4)
    monkeypatch.setattr(groups, "_pairs", groups._pairs.__wrapped__)
    assert list(groups.of(table, groups.DUPLICATES, tmp_path)) == list(found)


def test_images_that_are_all_alike_are_not_the_same(tmp_path):
    """As X-rays are: one frame for all, and of each its own blobs."""
    frame = texture(0)
    paths = []
    for number in range(24):
        image = cv2.addWeighted(frame, 0.75, texture(100 + number), 0.25, 0)
        paths.append(str(tmp_path / f"{number}.png"))
        cv2.imwrite(paths[-1], image)
    assert near_duplicates.pairs(paths, tmp_path / "cache") == []


def test_a_file_is_looked_at_once(table, folder, monkeypatch, tmp_path):
    first = near_duplicates.pairs(list(table.path), tmp_path)
    monkeypatch.setattr(near_duplicates.image_bytes, "decode", _only_below(tmp_path))
    assert near_duplicates.pairs(list(table.path), tmp_path) == first


def _only_below(folder):
    maps = {file.read_bytes() for file in folder.rglob("*.png")}
    decode = near_duplicates.image_bytes.decode

    def read(contents, flag):
        assert contents in maps, "an image was decoded again"
        return decode(contents, flag)

    return read


def test_what_cannot_be_read_is_nobodys_copy(tmp_path):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"no image")
    assert near_duplicates.pairs([str(tmp_path / "a.png"), str(tmp_path / "b.png")], tmp_path / "cache") == []


def test_auto_is_by_subject_where_one_has_several_images():
    rows = pd.DataFrame({"path": ["1", "2", "3"], "subject": ["p", "p", ""]})
    assert groups.kind_of(rows, groups.AUTO) == groups.SUBJECT
    assert list(groups.of(rows, groups.SUBJECT)) == ["p", "p", "3"]
    assert groups.kind_of(rows.assign(subject=["p", "q", "r"]), groups.AUTO) == groups.DUPLICATES
    assert groups.kind_of(rows[["path"]], groups.AUTO) == groups.DUPLICATES
    assert list(groups.of(rows, groups.IMAGE)) == ["1", "2", "3"]
    with pytest.raises(UserError, match="--group subject: the data has no subjects"):
        groups.kind_of(rows[["path"]], groups.SUBJECT)
