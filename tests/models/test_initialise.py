"""Seeded initial values follow the distribution each layer asks Keras for."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models.initialise import seed_weights

layers = tf.keras.layers


def seeded(layer: tf.keras.layers.Layer, shape: tuple[int, ...]) -> tf.keras.layers.Layer:
    model = tf.keras.Sequential([layers.Input(shape), layer])
    seed_weights(model, 0)
    return layer


def test_he_normal_by_hand():
    kernel = seeded(layers.Conv2D(128, 3, kernel_initializer="he_normal"), (8, 8, 64)).kernel.numpy()
    stddev = np.sqrt(2 / (3 * 3 * 64))
    assert kernel.std() == pytest.approx(stddev, rel=0.01)
    assert np.abs(kernel).max() == pytest.approx(2 * stddev / 0.8796, rel=0.01)  # cut off at two


def test_glorot_uniform_by_hand():
    kernel = seeded(layers.Dense(200), (300,)).kernel.numpy()
    limit = np.sqrt(6 / (300 + 200))
    assert np.abs(kernel).max() == pytest.approx(limit, rel=0.01)
    assert kernel.std() == pytest.approx(limit / np.sqrt(3), rel=0.01)
    assert kernel.mean() == pytest.approx(0, abs=0.002)


@pytest.mark.parametrize(
    ("make", "weight"),
    [
        (lambda: layers.DepthwiseConv2D(3), "depthwise_kernel"),
        (lambda: layers.Conv2DTranspose(64, 4), "kernel"),
        (
            lambda: layers.Conv2D(64, 4, kernel_initializer=tf.keras.initializers.RandomNormal(0.5, 0.02)),
            "kernel",
        ),
        (
            lambda: layers.Conv2D(64, 4, kernel_initializer=tf.keras.initializers.VarianceScaling(3.0)),
            "kernel",
        ),
    ],
)
def test_spread_is_that_of_keras(make, weight):
    tf.keras.utils.set_random_seed(1)
    keras_layer = make()
    keras_layer.build((None, 8, 8, 1024))
    theirs = getattr(keras_layer, weight).numpy()
    ours = getattr(seeded(make(), (8, 8, 1024)), weight).numpy()
    assert ours.std() == pytest.approx(theirs.std(), rel=0.02)
    assert ours.mean() == pytest.approx(theirs.mean(), abs=0.05 * theirs.std())
    assert (ours != theirs).any()


def test_batch_statistics_start_afresh():
    layer = layers.BatchNormalization()
    model = tf.keras.Sequential([layers.Input((4,)), layer])
    layer.set_weights([np.full(4, 7.0)] * 4)
    seed_weights(model, 0)
    for array, expected in zip(layer.get_weights(), (1, 0, 0, 1)):  # gamma, beta, mean, variance
        np.testing.assert_array_equal(array, np.full(4, expected))


def test_a_model_inside_a_model_is_seeded_too():
    inner = tf.keras.Sequential([layers.Input((4,)), layers.Dense(3)])
    outer = tf.keras.Sequential([layers.Input((4,)), inner])
    seed_weights(outer, 1)
    first = inner.get_weights()[0]
    inner.set_weights([np.zeros((4, 3)), np.ones(3)])
    seed_weights(outer, 1)
    np.testing.assert_array_equal(inner.get_weights()[0], first)
    np.testing.assert_array_equal(inner.get_weights()[1], np.zeros(3))


def test_an_unknown_initialiser_is_refused():
    class Mine(tf.keras.initializers.Initializer):
        def __call__(self, shape, dtype=None, **more):
            return tf.ones(shape)

    with pytest.raises(TypeError, match="Mine"):
        seeded(layers.Dense(3, kernel_initializer=Mine()), (4,))
