"""Styles in one pass: what Gram matrices and means say is what the decoder's own encoder would have measured."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models import adain_published, vgg
from models.adain import LAYER
from models.vgg import NAMES, WIDTH, WIDTHS
from preprocessing import gram, style_moments

SIZE = 32


@pytest.fixture(scope="module")
def networks():
    """A pair with random weights, and the VGG-19 that it would have been normalised from: channels times `scales`."""
    encoder, decoder = adain_published.build_encoder(), adain_published.build_decoder()
    original = vgg.build("relu5_1")
    generator, before = np.random.default_rng(0), np.ones(3)
    for name in NAMES[: NAMES.index(LAYER)]:
        if name.startswith("conv"):
            scales = generator.uniform(0.5, 50, WIDTH * WIDTHS[int(name[4]) - 1])
            kernel, bias = original.get_layer(name).get_weights()
            encoder.get_layer(name).set_weights([kernel, bias])
            original.get_layer(name).set_weights([kernel * scales / before[:, None], bias * scales])
            before = scales
    return adain_published.Pair(encoder, decoder, "sha"), original, before


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(1).integers(0, 256, (3, SIZE, SIZE, 3), np.uint8)


def test_scales_are_told_by_the_kernels_and_another_network_is_refused(networks):
    pair, original, scales = networks
    np.testing.assert_allclose(style_moments.channel_scales(pair.encoder, original), scales, rtol=1e-5)
    with pytest.raises(ValueError, match="this is another"):
        style_moments.channel_scales(pair.encoder, vgg.build("relu5_1", seed=1))


def test_moments_are_those_of_the_activations(networks, images):
    _, original, scales = networks
    level = gram.grams(gram.taps(original), images)[style_moments.LEVEL]
    places = gram.positions(SIZE, SIZE)[style_moments.LEVEL]
    found = style_moments.moments(networks[0], original, level, style_moments.means(original, images), places)
    activations = np.asarray(vgg.taps(original, [LAYER])(tf.constant(images, tf.float32) / 255), np.float64)
    flat = activations.reshape(len(images), -1, activations.shape[-1]) / scales
    np.testing.assert_allclose(found.mean, flat.mean(1), rtol=1e-4, atol=1e-6)
    expected = [np.cov(each.T, bias=True) for each in flat]
    np.testing.assert_allclose(found.covariance, expected, atol=1e-4 * np.max(expected))


def own_moments(pair, images):
    features = np.asarray(pair.encoder(tf.constant(images, tf.float32) / 255), np.float64)
    flat = features.reshape(len(images), -1, features.shape[-1])
    return style_moments.Moments(flat.mean(1), np.stack([np.cov(each.T, bias=True) for each in flat]))


@pytest.mark.parametrize("how", style_moments.HOW)
def test_an_image_in_its_own_style_is_itself_as_the_decoder_sees_it(how, networks, images):
    pair, pairs = networks[0], np.array([[0, 0], [1, 1], [1, 2]])
    styles = own_moments(pair, images)
    made = style_moments.transfer(pair, images, styles, pairs, how)
    plain = style_moments.transfer(pair, images, styles, pairs, how, strength=0.0)
    assert np.abs(made[:2].astype(int) - plain[:2]).max() <= 2
    assert np.abs(made[2].astype(int) - plain[2]).mean() > 0.1  # another's style changes it


@pytest.mark.parametrize("how", style_moments.HOW)
def test_activations_are_given_the_moments(how, networks, images):
    """Read where the decoder would: a decoder that gives activations back as they are."""
    pair, seen = networks[0], []

    def decoder(features):
        seen.append(features.numpy()[0])
        return np.zeros((1, SIZE, SIZE, 3))

    styles = own_moments(pair, images)
    style_moments.transfer(pair._replace(decoder=decoder), images[:1], styles, np.array([[0, 2]]), how)
    flat = seen[0].reshape(-1, seen[0].shape[-1])
    np.testing.assert_allclose(flat.mean(0), styles.mean[2], atol=1e-3)
    wanted = np.sqrt(np.diagonal(styles.covariance[2]))
    if how == "adain":  # whitening gives a covariance as far as the content's places have directions for it
        active = np.diagonal(styles.covariance[0]) > 1e-4  # a channel that the content never has stays without
        assert active.sum() > 50
        np.testing.assert_allclose(flat.std(0)[active], wanted[active], rtol=0.1, atol=1e-3)
    else:
        assert np.corrcoef(flat.std(0), wanted)[0, 1] > 0.3


def test_sides_that_are_no_multiple_of_eight(networks):
    images = np.random.default_rng(2).integers(0, 256, (1, 29, 35, 3), np.uint8)
    made = style_moments.transfer(networks[0], images, own_moments(networks[0], images), np.array([[0, 0]]), "adain")
    assert made.shape == images.shape
