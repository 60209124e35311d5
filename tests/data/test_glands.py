import json

import cv2
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tffapps.data import chaoyang, glands, glands_drawing, standin
from tffapps.data import manifest as manifests
from tffapps.errors import UserError

TRAIN, TEST, NOISE = 100, 60, 0.1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("glands") / "g"
    return glands.write_glands(root, train=TRAIN, test=TEST, noise=NOISE, progress=False)


@pytest.fixture(scope="module")
def table(folder):
    return chaoyang.read(folder)


@pytest.fixture(scope="module")
def truth(folder, table):
    return glands.true_labels(folder).loc[table.path].reset_index().assign(split=table.split)


@pytest.fixture(scope="module")
def images(table):
    images = np.stack([cv2.imread(path, cv2.IMREAD_UNCHANGED)[..., ::-1] for path in table.path])
    assert images.shape == (4 * (TRAIN + TEST), 96, 96, 3) and images.dtype == np.uint8
    return images


def accuracy(features, table, answers):
    """On the test images, of a linear model that was fitted to the training images."""
    train = (table.split == "train").to_numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(features[train], answers[train])
    return model.score(features[train], answers[train]), model.score(features[~train], answers[~train])


def test_the_real_loader_reads_it_back(folder, table, truth):
    assert standin.is_standin(folder)
    manifests.check(table, labels=chaoyang.CLASSES)
    assert table.split.value_counts().to_dict() == {"train": 4 * TRAIN, "test": 4 * TEST}
    assert (truth.groupby(["split", "label"]).size().unstack(0) == [TEST, TRAIN]).all(axis=None)
    first = json.loads((folder / "train.json").read_text())[0]
    assert list(first) == ["name", "label_A", "label_B", "label_C"]
    divided = chaoyang.imbalanced(table, 10)
    assert set(divided.client) == {*chaoyang.CLIENTS, chaoyang.SERVER}


def test_the_order_of_the_images_does_not_tell_the_class(truth):
    start = truth.label[: 2 * TRAIN].value_counts(normalize=True)
    assert len(start) == 4 and start.between(0.15, 0.35).all()


def said(folder, split):
    """What the annotators say, (images, 3), and the true labels, (images, 1)."""
    entries = json.loads((folder / f"{split}.json").read_text())
    labels = glands.true_labels(folder).loc[[str(folder / entry["name"]) for entry in entries]].label
    right = np.array([chaoyang.CODES.index(label) for label in labels])[:, None]
    return np.array([[entry[name] for name in chaoyang.ANNOTATORS] for entry in entries]), right


def test_annotators_err_as_often_as_they_should(folder):
    labels, right = said(folder, "train")
    wrong = labels != right
    assert np.abs(wrong.mean(axis=0) - NOISE).max() < 4 * np.sqrt(NOISE * (1 - NOISE) / len(labels))
    assert (wrong.sum(axis=1) == 1).mean() > 4 * (wrong.sum(axis=1) > 1).mean()  # each by himself
    assert set(((labels - right) % 4)[wrong]) == {1, 2, 3}  # any other class
    labels, right = said(folder, "test")
    assert (labels == right).all()


def test_the_loader_sees_the_annotators_errors(table, truth):
    wrong = (table.label != truth.label).groupby(table.split).mean()
    assert wrong["test"] == 0 and 0.04 < wrong["train"] < 0.17


def test_a_class_has_a_source_of_its_own_to_train_with_only(truth):
    counts = truth.groupby(["split", "label", "source"]).size().unstack(fill_value=0)
    for number, label in enumerate(chaoyang.CLASSES):
        train, test = counts.loc[("train", label)], counts.loc[("test", label)]
        assert train[number] == 0.85 * TRAIN and train.drop(number).tolist() == [5, 5, 5]
        assert test.tolist() == [TEST // 4] * 4


@pytest.mark.parametrize(("own", "expected"), [(0.25, [2, 2, 2, 2]), (1.0, [8, 0, 0, 0]), (0.0, [0, 3, 3, 2])])
def test_how_much_style_follows_the_class_can_be_chosen(tmp_path, own, expected):
    root = glands.write_glands(tmp_path / "g", train=8, test=4, size=32, own=own, progress=False)
    found = glands.true_labels(root)
    found = found[found.index.str.contains("/train/") & (found.label == "normal")].source
    first, *others = [int((found == source).sum()) for source in range(4)]
    assert [first, *sorted(others, reverse=True)] == expected


def lumen_shapes(images):
    """How round, how convex and how long the bright holes are, and how large."""
    features = []
    for image in images:
        light = cv2.GaussianBlur(image.min(axis=-1).astype(np.float32), (0, 0), 0.8)
        bright = (light > 0.82 * np.percentile(light, 99.5)).astype(np.uint8)
        found, _ = cv2.findContours(bright, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        whole = [edge for edge in found if cv2.contourArea(edge) > 25 and edge.min() > 0 and edge.max() < 95]
        rows = []
        for edge in whole:
            area, sides = cv2.contourArea(edge), sorted(cv2.minAreaRect(edge)[1])
            round_, convex = (
                4 * np.pi * area / cv2.arcLength(edge, True) ** 2,
                area / cv2.contourArea(cv2.convexHull(edge)),
            )
            rows.append((round_, convex, sides[0] / sides[1], np.sqrt(area)))
        features.append([*(np.mean(rows, axis=0) if rows else np.zeros(4)), len(rows)])
    return np.array(features)


def test_structure_tells_the_class_and_colour_does_not(images, table):
    labels = table.label.to_numpy()
    colour_train, colour = accuracy(images.mean(axis=(1, 2)), table, labels)
    _, structure = accuracy(lumen_shapes(images), table, labels)
    assert colour_train > 0.5  # a shortcut lies there
    assert 0.15 < colour < 0.36  # and leads nowhere: chance is 0.25
    assert structure > 0.8


def test_colour_says_nothing_even_without_the_shortcut(images, table):
    """Fitted to half of the test images, where every class comes from all sources, and tried on the others."""
    test = (table.split == "test").to_numpy()
    half = pd.DataFrame({"split": np.where(np.arange(test.sum()) % 2, "train", "test")})
    _, found = accuracy(images[test].mean(axis=(1, 2)), half, table.label[test].to_numpy())
    assert found < 0.42


def test_colour_tells_the_source(images, table, truth):
    features = np.concatenate([images.mean(axis=(1, 2)), images.std(axis=(1, 2))], axis=1)
    assert accuracy(features, table, truth.source.to_numpy())[1] > 0.75


def test_the_amounts_of_dye_are_drawn_alike():
    amounts = {
        label: np.array(
            [glands_drawing.densities(np.random.default_rng(n), label).mean(axis=(1, 2)) for n in range(60)]
        )
        for label in chaoyang.CLASSES
    }
    everything = np.log(np.concatenate(list(amounts.values())))
    assert everything.std(axis=0).min() > 0.1 and everything.std(axis=0).max() < 0.2
    means = np.stack([np.log(found).mean(axis=0) for found in amounts.values()])
    assert np.ptp(means, axis=0).max() < 5 * 0.15 / np.sqrt(60)


def test_sources_differ_in_light_and_focus():
    amounts = glands_drawing.densities(np.random.default_rng(0), "normal")
    stain = np.array([[0.65, 0.1], [0.7, 0.95], [0.3, 0.3]])

    def seen(**options):
        source = glands.Source(**{"light": 1.0, "uneven": 0.0, "blur": 0.0, **options})
        return glands.develop(amounts, stain, source, np.random.default_rng(0)).astype(float)

    plain = seen()
    assert np.median(seen(light=0.8) / plain) == pytest.approx(0.8, abs=0.02)
    assert np.abs(np.diff(seen(blur=1.5), axis=0)).mean() < 0.7 * np.abs(np.diff(plain, axis=0)).mean()
    shade = seen(uneven=0.5) / np.maximum(plain, 1)
    corners = [shade[:8, :8], shade[:8, -8:], shade[-8:, :8], shade[-8:, -8:]]
    assert max(map(np.median, corners)) < np.median(shade[40:56, 40:56])


def test_the_seed_decides_and_the_size_is_kept(tmp_path):
    def files(name, **options):
        root = glands.write_glands(tmp_path / name, train=5, test=4, size=48, progress=False, **options)
        return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*.*") if file.name[0] != "."}

    first = files("a")
    assert len(first) == 4 * 9 + 3 and first == files("b")
    other = files("c", seed=1)
    assert first.keys() == other.keys() and not [name for name in first if first[name] == other[name]]
    assert cv2.imread(str(tmp_path / "a/train/00000.png"), cv2.IMREAD_UNCHANGED).shape == (48, 48, 3)
    (tmp_path / "a/truth.csv").unlink()
    (tmp_path / "a/train.json").write_text("")
    assert files("a") == first  # a run that was stopped before its tables were written
    assert json.loads((tmp_path / "a" / standin.MARKER).read_text())["name"] == "glands"


def test_without_noise_all_annotators_are_right(tmp_path):
    root = glands.write_glands(tmp_path / "g", train=8, test=4, size=32, noise=0, progress=False)
    labels, right = said(root, "train")
    assert (labels == right).all()
    with pytest.raises(UserError, match="different parameters"):
        glands.write_glands(tmp_path / "g", train=8, test=4, size=32, noise=0.5, progress=False)


def test_a_folder_of_someone_s_data_is_left_alone(tmp_path):
    (tmp_path / "train.json").write_text("mine")
    with pytest.raises(UserError, match="no stand-in"):
        glands.write_glands(tmp_path, train=4, test=4, progress=False)
    assert [file.name for file in tmp_path.iterdir()] == ["train.json"]
    with pytest.raises(UserError, match=r"truth\.csv: no such file; only drawn glands"):
        glands.true_labels(tmp_path)


@pytest.mark.parametrize(
    "option", [{"train": 3}, {"test": 3}, {"size": 31}, {"noise": -0.1}, {"noise": 1.0}, {"own": 1.1}]
)
def test_what_cannot_be_drawn_is_refused(tmp_path, option):
    with pytest.raises(UserError, match=f"{next(iter(option))} .* is (too small|no error rate|no share)"):
        glands.write_glands(tmp_path / "g", **option)
    assert list(tmp_path.iterdir()) == []
