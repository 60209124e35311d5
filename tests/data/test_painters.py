import dataclasses
import json

import cv2
import numpy as np
import pandas as pd
import pytest

from tffapps.data import artists, painters, standin
from tffapps.data import painters_drawing as drawing
from tffapps.data.painters_scenes import KINDS, scene
from tffapps.errors import UserError

ARTISTS, IMAGES, CLOSE = 12, 32, 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("painters") / "p"
    return painters.write_painters(root, artists=ARTISTS, images=IMAGES, close=CLOSE, progress=False)


@pytest.fixture(scope="module")
def truth(folder):
    return painters.true_kinds(folder)


@pytest.fixture(scope="module")
def images(truth):
    images = np.stack([cv2.imread(path, cv2.IMREAD_UNCHANGED)[..., ::-1] for path in truth.index])
    assert images.shape == (ARTISTS * IMAGES, 64, 64, 3) and images.dtype == np.uint8
    return images


@pytest.fixture(scope="module")
def scenes(truth):
    """What was painted in each picture, as small tones (n, 64)."""
    drawn = [scene(np.random.default_rng([0, row]), kind, 128)[..., 0] for row, kind in enumerate(truth.kind)]
    return np.stack([cv2.resize(tones, (8, 8), interpolation=cv2.INTER_AREA).ravel() for tones in drawn]).astype(float)


def colours(images):
    """How often each of 64 colours is in a picture."""
    codes = (images // 64) @ np.array([16, 4, 1])
    return np.stack([np.bincount(code.ravel(), minlength=64) for code in codes]) / codes[0].size


def directions(images):
    """How much of the slopes goes in each of 12 directions."""
    found = []
    for image in images:
        grey = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
        across, down = cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)
        bins = (np.arctan2(down, across) % np.pi / np.pi * 11.999).astype(int)
        steep = np.hypot(across, down)
        found.append(np.bincount(bins.ravel(), steep.ravel(), 12) / (steep.sum() + 1))
    return np.stack(found)


def accuracy(features, answers, train):
    """On the other pictures, of the nearest centroid."""
    features = (features - features[train].mean(axis=0)) / (features[train].std(axis=0) + 1e-9)
    names = np.unique(answers)
    centroids = np.stack([features[train & (answers == name)].mean(axis=0) for name in names])
    nearest = np.square(features[~train][:, None] - centroids).sum(axis=2).argmin(axis=1)
    return (names[nearest] == answers[~train]).mean()


@pytest.fixture(scope="module")
def train():
    return np.arange(ARTISTS * IMAGES) % IMAGES < IMAGES // 2


def test_the_real_loader_reads_it_back(folder, truth):
    assert standin.is_standin(folder)
    table, notes = artists.read(folder)
    assert notes == [] and list(table.path) == list(truth.index) and list(table.label) == list(truth.artist)
    assert set(table.client) == {f"painter{number:02d}" for number in range(1, ARTISTS + 1)}
    assert (pd.crosstab(table.label, table.split)[["train", "test", "public"]] == [23, 6, 3]).all(axis=None)


def test_all_paint_every_kind_equally_often_in_no_order(truth):
    assert (pd.crosstab(truth.artist, truth.kind)[sorted(KINDS)] == IMAGES // 4).all(axis=None)
    first = truth.kind.to_numpy().reshape(ARTISTS, IMAGES)[:, : IMAGES // 2]
    assert all(0.18 < (first == kind).mean() < 0.32 for kind in KINDS)
    assert len({tuple(kinds) for kinds in first}) == ARTISTS


def test_style_tells_the_painter(images, truth, train):
    features = np.concatenate([colours(images), directions(images)], axis=1)
    assert accuracy(features, truth.artist.to_numpy(), train) > 0.7  # chance is 0.083


def test_content_tells_nothing_of_the_painter(scenes, truth, train):
    assert accuracy(scenes, truth.artist.to_numpy(), train) < 0.15
    assert accuracy(scenes, truth.kind.to_numpy(), train) > 0.6  # chance is 0.25


def test_the_same_content_is_seen_in_every_hand(images, truth):
    """A kind of scene is known in pictures of painters whose other pictures were never seen."""
    grey = np.stack([cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY) for image in images])
    steep = np.abs(cv2.Laplacian(grey.transpose(1, 2, 0).astype(np.float32), cv2.CV_32F)).transpose(2, 0, 1)
    seen = np.stack([cv2.resize(layer, (8, 8), interpolation=cv2.INTER_AREA).ravel() for layer in steep])
    seen /= seen.mean(axis=1, keepdims=True)
    kinds, known = truth.kind.to_numpy(), np.arange(len(truth)) < len(truth) // 2
    assert accuracy(seen, kinds, known) > 0.5 and accuracy(seen, kinds, ~known) > 0.5


def test_close_painters_differ_in_direction_only(images, truth, train):
    one, other = (drawing.style(0, number, CLOSE) for number in (0, 1))
    assert dataclasses.replace(other, direction=one.direction) == one != other
    pair = truth.artist.isin(["painter01", "painter02"]).to_numpy()
    answers = truth.artist.to_numpy()
    by_colour, by_direction = (
        accuracy(found(images[pair]), answers[pair], train[pair]) for found in (colours, directions)
    )
    assert by_colour < 0.75 and by_direction > 0.85  # chance is 0.5


@pytest.mark.parametrize(("number", "close"), [(number, 4) for number in range(0, 8, 2)])
def test_close_painters_have_strokes_to_tell_them_by(number, close):
    one, other = (drawing.style(3, pair, close) for pair in (number, number + 1))
    assert one.length > 3 * one.width and one.direction != other.direction


def test_many_painters_are_all_different():
    hands = [drawing.style(0, number) for number in range(60)]
    assert {hand.direction for hand in hands} == set(drawing.DIRECTIONS)
    assert {len(hand.ramp) + len(hand.accent) for hand in hands} == {5, 6}
    plain = np.array(
        [[*np.ravel(hand.ramp[0] + hand.accent[0]), 1e3 * hand.width, 1e2 * hand.length] for hand in hands]
    )
    apart = np.abs(plain[:, None] - plain).max(axis=2) + 1e9 * np.eye(len(hands))
    assert apart.min() > 5


def turned(direction, angle=0.7):
    """Mean direction of the strokes, twice its angle as x + iy, and how much they have it in common (0 to 1)."""
    hand = dataclasses.replace(
        drawing.style(0, 0), direction=direction, angle=angle, width=0.03, length=0.25, grain=0, soft=0, outlined=0
    )
    painted = [drawing.paint(np.random.default_rng(n), KINDS[n % 4], hand, 64) for n in range(8)]
    grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in painted]
    slopes = [cv2.Sobel(g, cv2.CV_32F, 1, 0) + 1j * cv2.Sobel(g, cv2.CV_32F, 0, 1) for g in grey]
    mean = np.mean([-(slope**2).mean() / (np.abs(slope) ** 2).mean() for slope in slopes])  # strokes lie across slopes
    return np.angle(mean), np.abs(mean)


def test_strokes_lie_as_they_should():
    for direction, expected in (("across", 0.0), ("upright", np.pi), ("slant", 1.4)):
        angle, common = turned(direction)
        assert abs(np.angle(np.exp(1j * (angle - expected)))) < 0.3 and common > 0.35, direction
    for direction in ("crossed", "swirl"):
        assert turned(direction)[1] < 0.25, direction


@pytest.mark.parametrize("size", [32, 33, 100, 512])
def test_any_size(size):
    hand = drawing.style(0, 1)
    picture = drawing.paint(np.random.default_rng(0), "town", hand, size)
    assert picture.shape == (size, size, 3) and picture.dtype == np.uint8 and picture.std() > 15
    small = cv2.resize(picture, (16, 16), interpolation=cv2.INTER_AREA).astype(float)
    usual = cv2.resize(
        drawing.paint(np.random.default_rng(0), "town", hand, 64), (16, 16), interpolation=cv2.INTER_AREA
    )
    assert np.corrcoef(small.ravel(), usual.ravel())[0, 1] > 0.5  # the same scene


def files(root):
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*.*") if file.name[0] != "."}


def test_the_seed_decides_and_other_painters_do_not_matter(tmp_path):
    def written(name, artists=3, **options):
        return files(painters.write_painters(tmp_path / name, artists=artists, images=5, progress=False, **options))

    first = written("a")
    assert len(first) == 3 * 5 + 1 and first == written("b")
    other = written("c", seed=1)
    assert first.keys() == other.keys() and not [name for name in first if first[name] == other[name]]
    more = written("d", artists=5)
    assert all(more[name] == first[name] for name in first if name != painters.TRUTH)
    (tmp_path / "a/truth.csv").unlink()
    assert written("a") == first  # a run that was stopped before its table was written
    assert json.loads((tmp_path / "a" / standin.MARKER).read_text())["name"] == "painters"
    with pytest.raises(UserError, match="different parameters, items"):
        written("a", close=1)


def test_a_folder_of_someone_s_data_is_left_alone(tmp_path):
    (tmp_path / "monet").mkdir()
    with pytest.raises(UserError, match="no stand-in"):
        painters.write_painters(tmp_path, artists=2, images=1, progress=False)
    with pytest.raises(UserError, match=r"truth\.csv: no such file; only drawn paintings"):
        painters.true_kinds(tmp_path)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"artists": 1}, "artists 1 is too small; give at least 2"),
        ({"images": 0}, "images 0 is too small; give at least 1"),
        ({"size": 31}, "size 31 cannot be painted; give 32 to 512 pixels"),
        ({"size": 513}, "size 513 cannot be painted"),
        ({"artists": 5, "close": 3}, "close 3 is no number of pairs; of 5 painters there are 2"),
        ({"close": -1}, "close -1 is no number of pairs"),
    ],
)
def test_what_cannot_be_painted_is_refused(tmp_path, options, line):
    with pytest.raises(UserError, match=line):
        painters.write_painters(tmp_path / "p", **options)
    assert list(tmp_path.iterdir()) == []
