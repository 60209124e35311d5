import cv2
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tffapps.data import manifest as manifests
from tffapps.data.textures import write_textures
from tffapps.errors import UserError


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("textures") / "t"
    return manifests.load(write_textures(folder, per_class=60, size=32, progress=False))


@pytest.fixture(scope="module")
def pixels(table):
    return np.stack([cv2.imread(path)[..., ::-1] for path in table.path]) / 255


def accuracy(features, table):
    features = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-6)
    train, test = ((table.split == split).to_numpy() for split in ("train", "test"))
    model = LogisticRegression(max_iter=200).fit(features[train], table.label[train])
    return model.score(features[test], table.label[test])


def test_layout_and_counts(table):
    manifests.check(table)
    assert manifests.classes(table) == ["class_0", "class_1", "class_2"]
    counts = table.groupby(["client", "label", "split"]).size().unstack()
    assert len(counts) == 9
    assert (counts[["train", "val", "test"]] == [42, 6, 12]).all(axis=None)


def test_pixels_tell_a_linear_model_little(table, pixels):
    assert accuracy(pixels.mean(axis=-1).reshape(len(table), -1), table) < 0.6


def test_directions_and_frequencies_tell_much(table, pixels):
    grey = pixels.mean(axis=-1)
    spectrum = np.abs(np.fft.rfft2(grey - grey.mean(axis=(1, 2), keepdims=True)))
    assert accuracy(np.log1p(spectrum).reshape(len(table), -1), table) > 0.85


def test_clients_look_different(table, pixels):
    means = np.stack([pixels[(table.client == client).to_numpy()].mean(axis=(0, 1, 2)) for client in set(table.client)])
    assert np.ptp(means, axis=0).max() > 0.05
    within = pixels[(table.client == "client_0").to_numpy()].mean(axis=(1, 2)).std(axis=0)
    assert within.max() < 0.02


def test_the_seed_decides(tmp_path):
    def first(name, **options):
        folder = write_textures(tmp_path / name, clients=1, per_class=3, size=16, progress=False, **options)
        return (folder / "client_0/train/class_0/0000.png").read_bytes()

    assert first("a") == first("b")
    assert first("a") != first("c", seed=1)


@pytest.mark.parametrize("option", [{"clients": 0}, {"per_class": 2}, {"size": 8}, {"classes": 1}])
def test_too_small_is_refused(tmp_path, option):
    with pytest.raises(UserError, match=next(iter(option))):
        write_textures(tmp_path / "t", **option)
    assert list(tmp_path.iterdir()) == []
