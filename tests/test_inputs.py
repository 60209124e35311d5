"""Inputs for an application with augmentations of its own: whole images and stored features."""

from __future__ import annotations

import dataclasses
import os
import shutil
import types

import cv2
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tffapps.errors import UserError
from tffapps.evaluation import stored
from tffapps.evaluation.evaluator import PredictionEvaluator, Trained
from tffapps.evaluation.predictions import TestImages
from tffapps.inputs import Inputs
from tffapps.network import CutSettings, Network

SIDE = 8
TINY = Network("tiny", SIDE, 3, "gap", "random", CutSettings("head"))


def darker(image, seed):
    return image * tf.random.stateless_uniform([], seed, 0.2, 0.8)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    files = [str(folder / f"{number}.png") for number in range(5)]
    for file in files:
        cv2.imwrite(file, rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8))
    return files


def inputs_of(folder, network=TINY, **options):
    options = {"augmentations": {"darker": darker}, **options}
    result = Inputs(network, classes=2, formats=("png",), cache=folder, **options)
    result.initial(0)
    return result


def seen(inputs, paths, view, **options):
    """What an epoch after another gives of every image: (epochs, images, …)."""
    options = {"batch": len(paths), "shuffle": False, **options}
    batches = inputs.batches(paths, range(len(paths)), view, **options).as_numpy_iterator()
    return np.stack([images for images, _ in batches])


@pytest.mark.parametrize(
    ("name", "head", "weights", "cut", "expected"),
    [
        ("mobilenetv2", "auto", "random", CutSettings(), ("all", "gap", "batch", 64)),
        ("mobilenetv2", "auto", "imagenet", CutSettings(), ("block_15_add", "conv", "batch", 224)),
        ("resnet18", "gap", "some.pth", CutSettings(), ("layer3", "gap", "frozen", 224)),
        ("resnet18", "auto", "some.pth", CutSettings("head"), ("head", "gap", "batch", 224)),
        ("tiny", "auto", "random", CutSettings("block1_pool", "group"), ("block1_pool", "conv", "group", 64)),
        ("mobilenetv2", "auto", "imagenet", CutSettings("all", "batch"), ("all", "gap", "batch", 224)),
    ],
)
def test_what_the_flags_of_a_network_come_to(name, head, weights, cut, expected):
    network = Network(name, 0, 3, head, weights, cut)
    assert (network.cut, network.chosen_head, network.norm, network.side) == expected


def test_an_unknown_stage_is_refused():
    with pytest.raises(UserError, match="--train-from: cut layer9: resnet18 has none of that name; choose one of head"):
        Network("resnet18", 32, 3, "auto", "random", CutSettings("layer9"))


def test_features_are_stored_only_of_a_frozen_base_that_is_trained_on_plain_images(tmp_path):
    trained = dataclasses.replace(TINY, cut_settings=CutSettings("all"))
    assert inputs_of(tmp_path).on_features
    assert not inputs_of(tmp_path, trained).on_features
    assert not inputs_of(tmp_path, training_view="darker").on_features
    assert not inputs_of(tmp_path, whole=True).on_features
    assert inputs_of(tmp_path).weights == "random, base frozen"
    assert inputs_of(tmp_path, trained).weights == "random, base trained"


def test_views_of_whole_images(paths, tmp_path):
    inputs = inputs_of(tmp_path, training_view="darker")
    plain = seen(inputs, paths, "plain", epochs=2)
    assert plain.shape == (2, 5, SIDE, SIDE, 3) and np.array_equal(plain[0], plain[1])
    dark = seen(inputs, paths, "training", epochs=2)
    assert np.array_equal(dark, seen(inputs, paths, "darker", epochs=2)) and not np.array_equal(dark[0], dark[1])
    assert (dark <= 0.8 * plain + 1e-6).all()
    assert inputs.augments("training") and inputs.augments("darker") and not inputs.augments("plain")
    assert not list(tmp_path.iterdir())


def test_views_of_stored_features(paths, tmp_path):
    inputs = inputs_of(tmp_path, views={"darker": 3})
    inputs.prepare(paths, "plain", "training", "darker")
    stored = list(tmp_path.rglob("*.f16"))
    assert len(stored) == 2 * len(paths)  # training images are plain ones
    plain = seen(inputs, paths, "training", epochs=2)
    assert plain.shape[2:] == inputs.model.input_shape[1:] and np.array_equal(plain[0], plain[1])
    dark = seen(inputs, paths, "darker", epochs=40)
    assert [len(np.unique(dark[:, image], axis=0)) for image in range(len(paths))] == [3] * len(paths)
    assert not inputs.augments("training") and inputs.augments("darker")
    assert sorted(tmp_path.rglob("*.f16")) == sorted(stored)


def test_stored_predictions_are_the_whole_networks_on_the_pixels(tmp_path, monkeypatch):
    """Training above a cut sees activations in half precision; what is stored in the end must not show it."""
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path))
    paths = [str(tmp_path / f"{number}.png") for number in range(5)]
    for number, path in enumerate(paths):  # the later, the brighter
        image = np.random.default_rng(0).integers(0, 50 * (number + 1), (SIDE, SIDE, 3), dtype=np.uint8)
        cv2.imwrite(path, image)
    network = dataclasses.replace(TINY, cut_settings=CutSettings("block1_pool"))
    inputs = inputs_of(tmp_path / "features", network)
    rng = np.random.default_rng(1)
    # Not the initial ones; the biases keep answers apart, where half precision would show.
    trained = [value * rng.uniform(0.5, 1.5, value.shape).astype(np.float32) for value in inputs.model.get_weights()]
    trained[-1] = np.array([-4, 4], np.float32)
    rows = pd.DataFrame({"path": paths, "client": "a"})
    codes = np.arange(len(paths)) % 2
    tested = TestImages(
        types.SimpleNamespace(sites={}), inputs.model, inputs.spec, rows,
        lambda part: inputs.batches(list(part.path), codes, batch=2, shuffle=False),
        exact=lambda part: inputs.exact(list(part.path), codes, batch=2),
    )  # fmt: skip
    evaluator = PredictionEvaluator({"": tested}, lambda predictions: {}, (), ["no", "yes"])
    after = Trained(trained, None, 1, True, lambda position: None)
    stored.write(tmp_path, {stored.LAST: evaluator.predicted(after)})
    found = stored.read_classifier(tmp_path)
    inputs.model.set_weights(trained)  # the whole network has them too
    pixels = seen(inputs_of(tmp_path, network, whole=True), paths, "plain")[0]
    whole = inputs.network(pixels, training=False).numpy()
    np.testing.assert_allclose(found.probabilities, whole, atol=1e-6)
    assert found.labels.tolist() == codes.tolist() and np.ptp(whole[:, 0]) > 0.01
    halved = tested.predict(trained, last=True).probabilities
    assert np.abs(halved - whole).max() > 3e-6  # else this test could not fail


def test_features_that_somebody_removed_are_made_anew(paths, tmp_path):
    inputs = inputs_of(tmp_path)
    before = seen(inputs, paths, "plain")
    times = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.f16")}
    gone, *others = times
    gone.unlink()
    assert np.array_equal(seen(inputs, paths, "plain"), before) and gone.exists()
    assert [file.stat().st_mtime_ns for file in others] == [times[file] for file in others]
    shutil.rmtree(tmp_path)
    assert np.array_equal(seen(inputs, paths, "plain"), before)


def test_one_view_is_stored_where_nothing_is_said(paths, tmp_path):
    dark = seen(inputs_of(tmp_path), paths, "darker", epochs=5)
    assert (dark == dark[0]).all()


TRAINED = dataclasses.replace(TINY, cut_settings=CutSettings("all"))
IMAGE = 4 * 3 * SIDE**2  # bytes of a decoded one


def copied(paths, folder):
    """The images under other names, to be changed at will."""
    return [shutil.copyfile(path, str(folder / os.path.basename(path))) for path in paths]


def rows(inputs, paths, **options):
    """(label, image) after another, and the sizes of the batches."""
    batches = list(inputs.batches(paths, range(len(paths)), **options).as_numpy_iterator())
    pairs = [(int(label), image) for images, labels in batches for image, label in zip(images, labels)]
    return pairs, [len(labels) for _, labels in batches]


def spoil(path):
    cv2.imwrite(path, np.zeros((SIDE, SIDE, 3), np.uint8))


@pytest.mark.parametrize("shuffle", [True, False])
def test_held_images_come_in_the_same_batches_as_files(paths, tmp_path, shuffle):
    options = {"batch": 2, "epochs": 3, "seed": 7, "shuffle": shuffle}
    doubled = [*paths, *paths[:2]]  # an image may be there twice
    held, files = (rows(inputs_of(tmp_path, TRAINED, held_bytes=room), doubled, **options) for room in (5 * IMAGE, 0))
    assert held[1] == files[1] == [2, 2, 2, 1] * 3
    for (label, image), (expected_label, expected_image) in zip(held[0], files[0]):
        assert label == expected_label and image.dtype == np.float32 and np.array_equal(image, expected_image)


@pytest.mark.parametrize("shuffle", [True, False])
def test_held_views_come_as_those_that_are_read(paths, tmp_path, shuffle):
    options = {"batch": 2, "epochs": 3, "seed": 7, "shuffle": shuffle, "view": "darker"}
    stored = {"training_view": "darker", "store_training": True, "views": {"darker": 3}}
    doubled = [*paths, *paths[:2]]
    held, files = (inputs_of(tmp_path, held_bytes=room, **stored) for room in (2**20, 0))
    ours, theirs = rows(held, doubled, **options), rows(files, doubled, **options)
    assert len(held._held) == 5 and not files._held and ours[1] == theirs[1] == [2, 2, 2, 1] * 3
    for (label, features), (expected_label, expected) in zip(ours[0], theirs[0]):
        assert label == expected_label and features.dtype == np.float32 and np.array_equal(features, expected)


def test_images_are_held_only_if_there_is_room_for_all(paths, tmp_path):
    files = copied(paths, tmp_path)
    roomy, cramped = (inputs_of(tmp_path, TRAINED, held_bytes=room) for room in (5 * IMAGE, 5 * IMAGE - 1))
    before = [rows(inputs, files, batch=5, shuffle=False)[0] for inputs in (roomy, cramped)]
    spoil(files[3])
    after = [rows(inputs, files, batch=5, shuffle=False)[0] for inputs in (roomy, cramped)]
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(before[0], after[0]))  # not read again
    assert [np.array_equal(a[1], b[1]) for a, b in zip(before[1], after[1])] == [True] * 3 + [False, True]
    assert after[1][3][1].max() == 0


def test_augmented_images_and_features_are_not_held(paths, tmp_path):
    files = copied(paths, tmp_path)
    inputs = inputs_of(tmp_path / "cache", training_view="darker", held_bytes=100 * IMAGE)
    seen(inputs, files, "training")
    spoil(files[0])
    assert seen(inputs, files, "training")[0, 0].max() == 0
    frozen = inputs_of(tmp_path / "cache", held_bytes=100 * IMAGE)
    assert seen(frozen, paths, "plain").shape[2:] == frozen.model.input_shape[1:]


def test_the_oldest_images_make_room_for_others(paths, tmp_path):
    files = copied(paths, tmp_path)
    inputs = inputs_of(tmp_path, TRAINED, held_bytes=3 * IMAGE)
    for some in (files[:2], files[2:4]):  # of the first two one is forgotten
        rows(inputs, some, batch=5)
    for file in files:
        spoil(file)
    assert rows(inputs, files[2:4], batch=5, shuffle=False)[0][0][1].max() > 0
    assert rows(inputs, files[:1], batch=5)[0][0][1].max() == 0


def test_no_more_images_are_held_than_there_is_room_for(paths, tmp_path):
    inputs = inputs_of(tmp_path, TRAINED, held_bytes=3 * IMAGE)
    rng = np.random.default_rng(0)
    for _ in range(30):
        some = list(rng.choice(paths, rng.integers(1, 4), replace=False))
        assert len(rows(inputs, some, batch=5)[0]) == len(some)
        assert len(inputs._held) <= 3


def test_a_file_that_is_gone_is_left_out_and_the_others_are_not(paths, tmp_path):
    files = copied(paths, tmp_path)
    inputs, usual = (inputs_of(tmp_path, TRAINED, held_bytes=room) for room in (5 * IMAGE, 0))
    os.unlink(files[2])
    for _ in range(3):
        found, sizes = rows(inputs, files, batch=2, shuffle=False)
        expected, _ = rows(usual, files, batch=2, shuffle=False)
        assert [label for label, _ in found] == [0, 1, 3, 4] and sizes == [2, 2]
        assert all(np.array_equal(a[1], b[1]) for a, b in zip(found, expected))


def test_no_images_are_no_batches(tmp_path):
    for room in (0, 5 * IMAGE):
        assert rows(inputs_of(tmp_path, TRAINED, held_bytes=room), [], batch=2) == ([], [])


def test_an_unknown_view_is_not_taken_for_plain(paths, tmp_path):
    for inputs in (inputs_of(tmp_path), inputs_of(tmp_path, training_view="darker")):
        with pytest.raises(KeyError, match="brighter"):
            inputs.batches(paths, range(5), "brighter", batch=5)


def test_what_a_user_chose_wrongly(tmp_path):
    with pytest.raises(UserError, match="vgg"):
        inputs_of(tmp_path, dataclasses.replace(TINY, name="vgg"))
    with pytest.raises(UserError, match=r"--weights: .*none\.h5: no such file"):
        inputs_of(tmp_path, dataclasses.replace(TINY, weights=str(tmp_path / "none.h5")))
