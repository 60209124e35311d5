"""The classifiers: published sizes, seeding, pre-processing, and the parts they can be cut into."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from models import classifiers
from models.classifiers import NAMES, base_of, build, check_name
from models.cut import split
from models.embedding import embedding_of


def count(variables) -> int:
    return sum(int(np.prod(variable.shape)) for variable in variables)


def digest(model: tf.keras.Model) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in model.get_weights())).hexdigest()


def pictures(channels: int = 3, size: int = 32, number: int = 2) -> np.ndarray:
    return np.random.default_rng(0).random((number, size, size, channels), dtype=np.float32)


@pytest.mark.parametrize(
    ("name", "trainable", "frozen"),
    [
        ("mobilenetv2", 16_057_347, 2_257_984),
        ("densenet169", 20_874_243, 12_642_880),
        ("densenet201", 24_085_507, 18_321_984),
    ],
)
def test_parameters_with_a_frozen_base(name, trainable, frozen):
    model = build(name, input_shape=(224, 224, 3), classes=3, head="flatten256", trainable_base=False)
    assert count(model.trainable_weights) == trainable
    assert count(model.non_trainable_weights) == frozen
    assert model.count_params() == trainable + frozen


def test_resnet18_has_the_published_size():
    model = build("resnet18", input_shape=(224, 224, 3), classes=1000)
    assert count(model.trainable_weights) == 11_689_512
    assert base_of(model).output_shape == (None, 7, 7, 512)


@pytest.mark.parametrize(("name", "channels"), [("resnet18", 1), ("mobilenetv2", 1), ("tiny", 1), ("tiny", 3)])
def test_small_images_give_probabilities(name, channels):
    model = build(name, input_shape=(48, 40, channels), classes=4)
    images = np.random.default_rng(0).random((3, 48, 40, channels), dtype=np.float32)
    # In training mode: before any training, a deep network's stored batch statistics level out all images.
    probabilities = model(images, training=True).numpy()
    assert probabilities.shape == (3, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert len(np.unique(probabilities.round(6), axis=0)) == 3  # the output depends on the image
    assert model.weights[0].shape[2] == (channels if name == "tiny" else 3)  # as ImageNet weights have it


def test_tiny_is_tiny():
    assert build("tiny", input_shape=(32, 32, 3), classes=10).count_params() < 10_000


def test_same_seed_same_weights_in_another_process():
    script = """
import hashlib, sys
from models.classifiers import build
build("tiny", input_shape=(16, 16, 1), classes=7)  # must not shift what comes after
for name in ("tiny", "mobilenetv2"):
    arrays = build(name, input_shape=(32, 32, 3), classes=3, seed=5).get_weights()
    print(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest())
"""
    there = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    names = ("tiny", "mobilenetv2")
    assert there == [digest(build(name, input_shape=(32, 32, 3), classes=3, seed=5)) for name in names]


def test_another_seed_changes_every_kernel():
    one, two = (build("tiny", input_shape=(16, 16, 3), classes=3, seed=seed) for seed in (0, 1))
    for a, b in zip(one.weights, two.weights):
        assert ("kernel" in a.name) == bool((a.numpy() != b.numpy()).any()), a.name


def test_heads_share_the_seeded_backbone():
    gap, flat = (build("tiny", input_shape=(16, 16, 3), classes=3, head=head, seed=3) for head in ("gap", "flatten256"))
    for a, b in zip(base_of(gap).get_weights(), base_of(flat).get_weights()):
        np.testing.assert_array_equal(a, b)


def preprocessing(name: str, channels: int) -> tf.keras.Model:
    images = tf.keras.Input((32, 32, channels))
    return tf.keras.Model(images, classifiers._preprocess(name, images))


@pytest.mark.parametrize(
    ("name", "keras_module"),
    [
        ("mobilenetv2", "mobilenet_v2"),
        ("densenet121", "densenet"),
        ("densenet169", "densenet"),
        ("densenet201", "densenet"),
        ("resnet18", "densenet"),  # the same ImageNet mean and deviation
    ],
)
def test_rescaling_is_that_of_keras_applications(name, keras_module):
    expected = getattr(tf.keras.applications, keras_module).preprocess_input(pictures() * 255)
    model = preprocessing(name, channels=3)
    np.testing.assert_allclose(model(pictures()), expected, atol=1e-5)
    assert not model.weights

    grey = pictures(channels=1)
    np.testing.assert_array_equal(preprocessing(name, channels=1)(grey), model(np.repeat(grey, 3, axis=-1)))


def test_tiny_centres_its_input():
    np.testing.assert_allclose(preprocessing("tiny", channels=1)(pictures(channels=1)), 2 * pictures(channels=1) - 1)


@pytest.mark.parametrize("head", ["gap", "flatten256"])
def test_split_and_embedding_share_the_model(head):
    model = build("tiny", input_shape=(32, 32, 3), classes=3, head=head, dropout=0.5)
    base, top = split(model, "head")
    images = pictures()
    np.testing.assert_array_equal(top(base(images)), model(images))
    assert [id(v) for v in base.weights + top.weights] == [id(v) for v in model.weights]

    embedding = embedding_of(model)(images)
    assert embedding.shape == (2, {"gap": 32, "flatten256": 256}[head])
    np.testing.assert_array_equal(model.get_layer("classifier")(embedding), model(images))
    assert split(model, "head")[1].output_shape == (None, 3)  # cutting twice is no different from cutting once


def test_dropout_acts_in_training_only():
    model = build("tiny", input_shape=(32, 32, 3), classes=3, dropout=0.5)
    base_of(model).trainable = False  # leaves dropout as the only difference between the two modes
    assert (model(pictures(), training=True).numpy() != model(pictures()).numpy()).any()


def test_a_frozen_base_keeps_its_batch_statistics():
    for trainable_base in (True, False):
        model = build("tiny", input_shape=(32, 32, 3), classes=3, trainable_base=trainable_base)
        before = base_of(model).get_weights()
        model(pictures(), training=True)
        changed = [bool((a != b).any()) for a, b in zip(before, base_of(model).get_weights())]
        assert any(changed) == trainable_base
        assert [v.name for v in model.trainable_weights[-2:]] == ["classifier/kernel:0", "classifier/bias:0"]
        assert (len(model.trainable_weights) == 2) == (not trainable_base)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(name="vgg", input_shape=(32, 32, 3), classes=2), ["vgg", *NAMES]),
        (dict(name="tiny", input_shape=(32, 32, 3), classes=2, head="mlp"), ["mlp", "gap", "flatten256"]),
        (dict(name="tiny", input_shape=(32, 32, 4), classes=2), ["(32, 32, 4)", "1 or 3"]),
        (dict(name="tiny", input_shape=(32, 32), classes=2), ["(32, 32)", "channels"]),
        (dict(name="resnet18", input_shape=(16, 32, 3), classes=2), ["(16, 32, 3)", "resnet18", "32x32"]),
        (dict(name="tiny", input_shape=(32, 32, 3), classes=1), ["classes 1", "at least 2"]),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(ValueError) as caught:
        build(arguments.pop("name"), **arguments)
    assert all(word in str(caught.value) for word in words)


def test_names_are_checked_without_tensorflow():
    check_name("tiny")
    script = "import sys, models.names; models.names.check_name('tiny'); print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
