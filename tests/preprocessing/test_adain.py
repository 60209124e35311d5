"""Styles of clients, images in other styles, and a decoder that learns to make them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models import vgg
from models.adain import adain, decoder, moments, scale_of
from preprocessing import adain as module
from preprocessing.adain import losses, reconstruction, style_of, training_model, transfer
from tests.preprocessing.stains import patches


@pytest.fixture(scope="module")
def encoder():
    return vgg.build(width=4)


@pytest.fixture(scope="module")
def images():
    return patches(8, size=32)[0]


@pytest.fixture
def new_decoder(encoder):
    return decoder(4, scale=scale_of(encoder))


def as_float(images):
    return tf.constant(images, tf.float32) / 255


def test_a_style_is_the_same_however_the_images_come(encoder, images):
    features = encoder(as_float(images)).numpy()
    mean = features.mean(axis=(0, 1, 2))
    std = features.std(axis=(0, 1, 2))
    for batches in ([images], [images[:1], images[1:6], images[6:]], iter(np.split(images, 8))):
        style = style_of(encoder, batches)
        np.testing.assert_allclose(style.mean, mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(style.std, np.sqrt(std**2 + 1e-5), rtol=1e-4)
        assert style.mean.dtype == style.std.dtype == np.float32


def test_a_style_counts_places_not_images(encoder, images):
    """Of images of two sizes the larger have more places, hence more weight."""
    large, small = images[:2], images[2:4, :16, :16]
    both = np.concatenate([np.reshape(encoder(as_float(part)), (-1, 32)) for part in (large, small)])
    np.testing.assert_allclose(style_of(encoder, [large, small]).mean, both.mean(axis=0), rtol=1e-4, atol=1e-6)


def test_a_client_without_images_has_no_style(encoder):
    with pytest.raises(ValueError, match="no images"):
        style_of(encoder, [])


@pytest.mark.parametrize("size", [(32, 32), (30, 25), (9, 5)])
def test_images_keep_their_size(size, encoder, images, new_decoder):
    cut = images[:3, : size[0], : size[1]]
    result = transfer(encoder, new_decoder, cut, np.ones(32), np.ones(32))
    assert result.shape == cut.shape and result.dtype == np.uint8 and result.std() > 0


def test_sizes_the_decoder_cannot_give_are_reflected_and_cut_off_again(encoder, images, new_decoder):
    cut = images[:2, :30, :25]
    padded = np.pad(cut, [(0, 0), (0, 2), (0, 7), (0, 0)], mode="reflect")
    mean, std = np.full((2, 32), 0.3), np.full((2, 32), 0.5)
    whole = transfer(encoder, new_decoder, padded, mean, std)
    np.testing.assert_array_equal(transfer(encoder, new_decoder, cut, mean, std), whole[:, :30, :25])


def test_every_image_gets_its_own_style(encoder, images, new_decoder, monkeypatch):
    generator = np.random.default_rng(0)
    mean, std = generator.random((8, 32)), generator.random((8, 32))
    together = transfer(encoder, new_decoder, images, mean, std)
    for row in (0, 5):
        alone = transfer(encoder, new_decoder, images[row : row + 1], mean[row], std[row])[0]
        np.testing.assert_allclose(together[row], alone.astype(int), atol=1)  # rounding
    monkeypatch.setattr(module, "_PIXELS", 3 * 32 * 32)  # three images at a time
    np.testing.assert_allclose(transfer(encoder, new_decoder, images, mean, std), together.astype(int), atol=1)
    assert not np.array_equal(transfer(encoder, new_decoder, images, mean[0], std[0])[5], together[5])


def test_alpha_goes_from_the_image_itself_to_the_style(encoder, images, new_decoder):
    features = encoder(as_float(images))
    own = np.rint(255 * np.asarray(new_decoder(features))).astype(int)
    np.testing.assert_allclose(transfer(encoder, new_decoder, images, *moments(features)), own, atol=1)
    styles = np.full(32, 2.0), np.full(32, 0.1)
    np.testing.assert_allclose(transfer(encoder, new_decoder, images, *styles, alpha=0), own, atol=1)
    half = 0.5 * features + 0.5 * adain(features, *(np.tile(part, (8, 1)).astype(np.float32) for part in styles))
    expected = np.rint(255 * np.asarray(new_decoder(half))).astype(int)
    np.testing.assert_allclose(transfer(encoder, new_decoder, images, *styles, alpha=0.5), expected, atol=1)
    assert np.abs(expected - own).max() > 5


def test_wrong_images_are_refused(encoder, images, new_decoder):
    for wrong in (images / 255, images[0], images[..., :1]):
        with pytest.raises(TypeError, match="uint8 images of shape"):
            transfer(encoder, new_decoder, wrong, np.ones(32), np.ones(32))


def test_losses_by_hand():
    """Networks that do nothing make no error; a decoder that doubles is wrong by what it was to give."""
    activations = tf.constant(np.random.default_rng(0).random((3, 4, 4, 2)), tf.float32)
    style = tf.constant([[1.0, 2.0]] * 3), tf.constant([[2.0, 3.0]] * 3)
    nothing, double = (lambda x: x), (lambda x: 2 * x)
    np.testing.assert_allclose(losses(nothing, nothing, activations, *style), 0, atol=1e-6)
    # content ‖2t − t‖² / ‖t‖² = 1, style the same of the moments
    np.testing.assert_allclose(losses(nothing, double, activations, *style), 1 + 10, rtol=1e-3)
    np.testing.assert_allclose(losses(nothing, double, activations, *style, style_weight=0.5), 1.5, rtol=1e-3)


def test_reconstruction_by_hand():
    images = tf.constant([0.0, 1.0])[:, None, None, None] * tf.ones((2, 4, 4, 3))
    errors = reconstruction(lambda x: x + 0.5, images, images * [0.0, 1.0, 1.0])
    np.testing.assert_allclose(errors, [0.25, (1.5**2 + 2 * 0.5**2) / 3], rtol=1e-6)


def test_only_the_decoder_is_trained_and_sent(encoder, new_decoder, images):
    model = training_model(encoder, new_decoder)
    model(as_float(images), training=True)
    assert [id(weight) for weight in model.weights] == [id(weight) for weight in new_decoder.weights]
    assert len(model.trainable_weights) == len(new_decoder.weights) == 18


def test_the_output_is_each_images_loss(encoder, new_decoder, images):
    x = as_float(images[:4])
    model = training_model(encoder, new_decoder, style_weight=0.0, reconstruction_weight=3.0)
    features = encoder(x)
    content = losses(encoder, new_decoder, x, *(tf.roll(part, -1, 0) for part in moments(features)), style_weight=0.0)
    expected = content + 3 * reconstruction(new_decoder, features, x)
    np.testing.assert_allclose(model(x, training=True), expected, rtol=1e-4)
    assert module.loss_is_output(tf.zeros(4), expected) is expected


def test_each_image_takes_the_next_ones_style_at_every_level(encoder, new_decoder, images):
    model = training_model(encoder, new_decoder)
    before = model(as_float(images[:4])).numpy()
    after = model(as_float(images[[0, 1, 6, 3]])).numpy()
    assert (np.abs(after - before) > 1e-3).tolist() == [False, True, True, False]
    # The style's part is the sum over four levels of errors that each begin well above zero.
    without = training_model(encoder, new_decoder, style_weight=0.0)(as_float(images[:4])).numpy()
    levels = model.encoder(as_float(images[:4]))
    styles = [tuple(tf.roll(part, -1, 0) for part in moments(level)) for level in levels]
    made = model.encoder(new_decoder(adain(levels[-1], *styles[-1])))
    style = 0.0
    for level, (mean, std) in zip(made, styles):
        found_mean, found_std = (part.numpy() for part in moments(level))
        error = ((found_mean - mean) ** 2 + (found_std - std) ** 2).numpy().sum(axis=1)
        style += error / (mean**2 + std**2).numpy().sum(axis=1)
    np.testing.assert_allclose(before - without, 10 * style, rtol=1e-3)


def test_sizes_not_divisible_by_eight_and_batches_of_one_can_be_trained_on(encoder, new_decoder, images):
    model = training_model(encoder, new_decoder)
    np.testing.assert_allclose(model(as_float(images[:1, :30, :27])), model(as_float(images[:1, :24, :24])), rtol=1e-5)


def test_thirty_steps_halve_the_loss(encoder, new_decoder, images):
    model, optimizer = training_model(encoder, new_decoder), tf.keras.optimizers.Adam(3e-3)
    before = encoder.get_weights()

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
        return loss

    seen = [float(step(as_float(images))) for _ in range(30)]
    assert seen[-1] < seen[0] / 2
    assert all(np.array_equal(old, new) for old, new in zip(before, encoder.get_weights()))
