"""Adaptive instance normalisation by hand, and the decoder's shape and scale."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models import vgg
from models.adain import adain, decoder, moments, scale_of


@pytest.fixture
def features():
    return tf.constant(np.random.default_rng(0).normal(2, 3, (3, 4, 5, 6)), tf.float32)


def test_moments_by_hand():
    channel = [[1.0, 1.0], [3.0, 7.0]]  # mean 3, variance (4 + 4 + 0 + 16) / 4 = 6
    other = [[5.0, 5.0], [5.0, 5.0]]
    mean, std = moments(tf.constant([np.stack([channel, other], axis=-1)], tf.float32))
    np.testing.assert_allclose(mean, [[3, 5]])
    np.testing.assert_allclose(std, [[np.sqrt(6), np.sqrt(1e-5)]], rtol=1e-5)


def test_with_its_own_moments_nothing_changes(features):
    np.testing.assert_allclose(adain(features, *moments(features)), features, atol=1e-5)


def test_every_image_and_channel_gets_the_moments_it_is_given(features):
    generator = np.random.default_rng(1)
    mean, std = generator.normal(0, 5, (3, 6)), generator.uniform(1, 4, (3, 6))
    changed = adain(features, tf.constant(mean, tf.float32), tf.constant(std, tf.float32)).numpy()
    np.testing.assert_allclose(changed.mean(axis=(1, 2)), mean, atol=1e-4)
    np.testing.assert_allclose(changed.std(axis=(1, 2)), std, rtol=1e-4)


def test_channels_that_are_zero_everywhere_do_no_harm():
    dead = tf.Variable(tf.zeros((1, 3, 3, 2)))
    with tf.GradientTape() as tape:
        changed = adain(dead, tf.constant([[1.0, 2.0]]), tf.constant([[3.0, 4.0]]))
        total = tf.reduce_sum(changed) + tf.reduce_sum(moments(dead)[1])
    np.testing.assert_allclose(changed[0, 0, 0], [1, 2])
    assert np.isfinite(tape.gradient(total, dead)).all()


def test_the_decoder_is_the_encoder_in_reverse():
    convolutions = [layer for layer in decoder(64).layers if isinstance(layer, tf.keras.layers.Conv2D)]
    filters = [(layer.kernel.shape[2], layer.filters) for layer in convolutions]
    encoder = [layer for layer in vgg.build("relu4_1").layers if isinstance(layer, tf.keras.layers.Conv2D)]
    assert filters == [(layer.filters, layer.kernel.shape[2]) for layer in reversed(encoder)]


def test_the_decoder_gives_images_of_the_encoders_size():
    images = tf.random.stateless_uniform((2, 32, 48, 3), (0, 0))
    encoder = vgg.build(width=4)
    decoded = decoder(4)(encoder(images)).numpy()
    assert decoded.shape == images.shape and decoded.std() > 0.01
    assert (decoded >= 0).all() and (decoded <= 1).all()


def test_the_decoder_depends_on_its_seed_alone():
    first, same, other = (decoder(4, seed).get_weights()[0] for seed in (1, 1, 2))
    assert np.array_equal(first, same) and not np.array_equal(first, other)


def test_reflection_keeps_a_plain_image_plain():
    """Zeros at the border would show in the outermost pixels."""
    plain = decoder(4)(tf.ones((1, 4, 4, 32))).numpy()
    np.testing.assert_allclose(plain, np.broadcast_to(plain[:, :1, :1], plain.shape), atol=1e-6)


def test_an_encoder_of_large_activations_is_scaled_to_one():
    encoder = vgg.build(width=4)
    small = scale_of(encoder)
    convolution = encoder.get_layer("conv4_1")
    convolution.set_weights([100 * array for array in convolution.get_weights()])
    assert scale_of(encoder) == pytest.approx(100 * small, rel=1e-4)
    activations = tf.random.stateless_uniform((1, 4, 4, 32), (0, 0))
    np.testing.assert_allclose(decoder(4, scale=100.0)(100 * activations), decoder(4)(activations), atol=1e-5)
