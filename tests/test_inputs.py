"""Inputs for an application with augmentations of its own: whole images and stored features."""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np
import pytest
import tensorflow as tf

from tffapps.errors import UserError
from tffapps.inputs import Inputs, Network

SIDE = 8
TINY = Network("tiny", SIDE, 3, "gap", "yes", "random")


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
    ("freeze", "weights", "frozen"),
    [
        ("yes", "random", True),
        ("no", "imagenet", False),
        ("auto", "random", False),
        ("auto", "imagenet", True),
        ("auto", "some.h5", True),
    ],
)
def test_auto_freezes_what_is_pretrained(freeze, weights, frozen):
    assert dataclasses.replace(TINY, freeze=freeze, weights=weights).frozen == frozen


def test_features_are_stored_only_of_a_frozen_base_that_is_trained_on_plain_images(tmp_path):
    trained = dataclasses.replace(TINY, freeze="no")
    assert inputs_of(tmp_path).on_features
    assert not inputs_of(tmp_path, trained).on_features
    assert not inputs_of(tmp_path, training_view="darker").on_features
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


def test_one_view_is_stored_where_nothing_is_said(paths, tmp_path):
    dark = seen(inputs_of(tmp_path), paths, "darker", epochs=5)
    assert (dark == dark[0]).all()


def test_an_unknown_view_is_not_taken_for_plain(paths, tmp_path):
    for inputs in (inputs_of(tmp_path), inputs_of(tmp_path, training_view="darker")):
        with pytest.raises(KeyError, match="brighter"):
            inputs.batches(paths, range(5), "brighter", batch=5)


def test_what_a_user_chose_wrongly(tmp_path):
    with pytest.raises(UserError, match="vgg"):
        inputs_of(tmp_path, dataclasses.replace(TINY, name="vgg"))
    with pytest.raises(UserError, match=r"--weights: .*none\.h5: no such file"):
        inputs_of(tmp_path, dataclasses.replace(TINY, weights=str(tmp_path / "none.h5")))
