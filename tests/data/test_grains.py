import dataclasses
import json

import cv2
import numpy as np
import pytest
from scipy import ndimage

from tffapps.data import grains, grains_drawing, micrographs, standin
from tffapps.data import manifest as manifests
from tffapps.errors import UserError
from tffapps.evaluation import segmentation

IMAGES = 16


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    root = tmp_path_factory.mktemp("grains")
    folder = grains.write_grains(root / "g", images=IMAGES, progress=False)
    return micrographs.load(folder, root / "tiles", tile=96, progress=False)


@pytest.fixture(scope="module")
def pairs(loaded):
    """For each client, its images and its boundary masks (n, 96, 96)."""
    table = loaded[0]
    read = {
        client: [np.stack([cv2.imread(path, cv2.IMREAD_UNCHANGED) for path in part[name]]) for name in ("path", "mask")]
        for client, part in table.groupby("client")
    }
    return {client: (images, masks > 0) for client, (images, masks) in read.items()}


def structures(count=20, size=96):
    for seed in range(count):
        yield grains_drawing.structure(np.random.default_rng(seed), size, 5)


def test_the_real_loader_reads_it(loaded):
    table, codings = loaded
    manifests.check(table)
    assert {name: coding.boundary for name, coding in codings.items()} == {"austenite": "dark", "iron": "light"}
    assert all(0.1 < coding.share < 0.3 for coding in codings.values())
    assert table.client.value_counts().to_dict() == dict.fromkeys(grains.CLIENTS, IMAGES)
    assert table.subject.nunique() == 2 * IMAGES / grains.TILES
    assert table.groupby("client").split.nunique().eq(3).all()
    assert len(micrographs.folds(table, 5)) == 5


def test_labels_divide_exactly_the_grains_drawn():
    for found in structures():
        pieces = segmentation.grains(found.grains == 0)
        assert found.grains.max() == pieces.max() > 12
        # One piece, one grain, and one point of the diagram.
        for first, second in ((pieces, found.grains), (found.grains, pieces), (pieces, found.cells)):
            low, high = (
                choose(second, first, range(1, first.max() + 1)) for choose in (ndimage.minimum, ndimage.maximum)
            )
            np.testing.assert_array_equal(low, high)
        assert np.bincount(pieces.ravel())[1:].min() >= 5  # no slivers


def test_boundaries_are_thin_lines_between_cells():
    for found in structures():
        edge = np.zeros(found.cells.shape, bool)
        edge[:, :-1] |= found.cells[:, :-1] != found.cells[:, 1:]
        edge[:-1] |= found.cells[:-1] != found.cells[1:]
        boundary = found.grains == 0
        assert boundary[edge].all()
        far = ndimage.distance_transform_edt(~edge)[boundary]
        assert np.mean(far <= 1.5) > 0.9
        assert 0.08 < boundary.mean() < 0.32


def test_the_same_boundaries_at_every_size():
    """A larger image shows the same sort of structure in more pixels."""
    small, large = (np.mean([(found.grains == 0).mean() for found in structures(4, size)]) for size in (64, 200))
    assert large == pytest.approx(small, rel=0.35)


def test_images_and_labels_are_of_the_same_grains(pairs):
    for images, masks in pairs.values():
        grown = np.stack([ndimage.binary_dilation(mask, iterations=2) for mask in masks])
        inside, on = images[~grown].mean(), images[masks].mean()
        assert on < inside - 12  # grey levels
        moved = np.roll(masks, 5, axis=(1, 2))
        assert images[moved].mean() > on + 10


@pytest.mark.parametrize(("client", "plain_enough"), [("austenite", 0.7), ("iron", 0.4)])
def test_no_threshold_on_grey_finds_the_grains(client, plain_enough):
    """Not even the best of all for each image, chosen by the truth; but it does where nothing else is drawn."""

    def best(image, mask):
        smooth = cv2.GaussianBlur(image, (0, 0), 0.8)
        levels = np.quantile(image, np.linspace(0.03, 0.5, 16))
        return max(segmentation.map_score(mask, grey < level) for grey in (image, smooth) for level in levels)

    real, plain = [], []
    for seed in range(6):
        rng = np.random.default_rng([1, seed])
        look = grains_drawing.look(rng, client)
        bare = dataclasses.replace(look, twinned=0.0, uneven=0.0, contrast=0.0, pits=0.0, scratches=0.0)
        found = grains_drawing.structure(rng, 96, look.across)
        for scores, each in ((real, look), (plain, bare)):
            scores.append(best(grains_drawing.micrograph(rng, each, found), found.grains == 0))
    assert np.mean(real) < 0.3 and np.mean(plain) > plain_enough


def test_edges_of_twins_are_as_dark_as_boundaries_and_not_labelled():
    look = grains_drawing.look(np.random.default_rng(0), grains_drawing.AUSTENITE)
    plain = dataclasses.replace(look, twinned=0.0, noise=0.0, uneven=0.0, pits=0.0, scratches=0.0)
    twinned = dataclasses.replace(plain, twinned=1.0)
    found = next(structures(1))
    inside = ndimage.distance_transform_edt(found.grains > 0) > 3
    without, with_twins = (
        grains_drawing.micrograph(np.random.default_rng(3), each, found).astype(int) for each in (plain, twinned)
    )
    on = without[found.grains == 0].mean()
    assert without[inside].min() > on + 10
    assert np.mean(with_twins[inside] < on) > 0.02


def test_materials_differ_in_look(pairs):
    light = {client: images.mean() for client, (images, _) in pairs.items()}
    assert light["austenite"] > light["iron"] + 30

    def contrast(images, masks):
        """Spread of the grains' means within an image."""
        spreads = []
        for image, mask in zip(images, masks):
            pieces = segmentation.grains(mask)
            spreads.append(np.std(ndimage.mean(image, pieces, range(1, pieces.max() + 1))))
        return np.mean(spreads)

    assert contrast(*pairs["iron"]) > 1.2 * contrast(*pairs["austenite"])


def test_the_seed_decides_and_the_size_is_kept(tmp_path):
    def files(name, **options):
        root = grains.write_grains(tmp_path / name, images=6, size=70, progress=False, **options)
        return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*.png")}

    first = files("a")
    assert len(first) == 2 * 2 * 6 and first == files("b")
    other = files("c", seed=1)
    assert first.keys() == other.keys() and not [name for name in first if first[name] == other[name]]
    assert len(set(first.values())) == len(first)
    image = cv2.imread(str(tmp_path / "a/iron/images/m002_1.png"), cv2.IMREAD_UNCHANGED)
    assert image.shape == (70, 70) and image.dtype == np.uint8
    label = cv2.imread(str(tmp_path / "a/iron/labels/m002_1.png"), cv2.IMREAD_UNCHANGED)
    assert set(np.unique(label)) == {0, 255}
    assert json.loads((tmp_path / "a" / standin.MARKER).read_text())["name"] == "grains"


@pytest.mark.parametrize("option", [{"images": 5}, {"size": 63}])
def test_what_cannot_be_drawn_is_refused(tmp_path, option):
    with pytest.raises(UserError, match=f"grains: {next(iter(option))} .* is too small"):
        grains.write_grains(tmp_path / "g", **option)
    assert list(tmp_path.iterdir()) == []
