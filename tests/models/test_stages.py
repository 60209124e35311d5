"""Stages: where they end in every network, and that a network cut there is still the same network."""

import numpy as np
import pytest
import tensorflow as tf

from models import classifiers
from models.cut import split
from models.names import NAMES
from models.stages import STAGES, segments, stages_of

CHANNELS = {
    "mobilenetv2": (16, 24, 32, 96, 1280),
    "densenet121": (256, 512, 1024, 1024),  # what enters a dense block plus 32 for each of its layers
    "densenet169": (256, 512, 1280, 1664),
    "densenet201": (256, 512, 1792, 1920),
    "resnet18": (64, 128, 256, 512),
    "tiny": (8, 16, 32),
}


def test_every_classifier_has_stages():
    assert set(STAGES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_are_the_whole(name):
    model = classifiers.build(name, input_shape=(32, 32, 3), classes=3)
    parts = segments(model, stages_of(model))
    assert tuple(part.output_shape[-1] for part in parts[:-1]) == CHANNELS[name]
    sizes = [part.output_shape[1] for part in parts[:-1]]
    assert sorted(set(sizes), reverse=True) == sizes  # one stage a resolution
    shared = [id(weight) for part in parts for weight in part.weights]
    assert sorted(shared) == sorted(map(id, model.weights)) and len(set(shared)) == len(shared)
    images = x = tf.constant(np.random.default_rng(0).random((2, 32, 32, 3), dtype=np.float32))
    for part in parts:
        x = part(x, training=False)
    np.testing.assert_allclose(x, model(images, training=False), atol=1e-6)


def test_batchnorm_is_updated_through_the_parts():
    whole, cut = (classifiers.build("tiny", input_shape=(8, 8, 3), classes=3) for _ in range(2))
    images = x = tf.constant(np.random.default_rng(0).random((4, 8, 8, 3), dtype=np.float32))
    before = whole.get_weights()
    whole(images, training=True)
    for part in segments(cut, stages_of(cut)):
        x = part(x, training=True)
    assert any((old != new).any() for old, new in zip(before, whole.get_weights()))
    for expected, found in zip(whole.get_weights(), cut.get_weights()):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_head_on_stored_feature_maps_is_cut_at_its_input():
    _, head = split(classifiers.build("tiny", input_shape=(16, 16, 3), classes=3), "head")
    first, second = segments(head, stages_of(head))
    features = tf.random.stateless_normal([2, 2, 2, 32], [0, 0])
    np.testing.assert_array_equal(first(features), features)
    np.testing.assert_allclose(second(features), head(features), atol=1e-6)


def test_models_without_stages_are_refused():
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(2)], name="flat")
    with pytest.raises(ValueError, match=r"model flat: it has no feature map.*, so it has no stages"):
        stages_of(model)
    with pytest.raises(ValueError, match="No such layer: nowhere"):
        segments(model, ("nowhere",))


def test_a_layer_that_is_passed_by_is_refused():
    model = classifiers.build("resnet18", input_shape=(32, 32, 3), classes=3)
    with pytest.raises(ValueError, match="cannot be reached"):
        segments(model, ("stage2_block1_1_relu",))  # the shortcut goes round it
