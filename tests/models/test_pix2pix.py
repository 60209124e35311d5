"""Shapes, seeds, instance norm and dropout, and the losses on hand-computed numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from models import pix2pix, pix2pix_discriminator, pix2pix_losses
from models.names import GENERATORS
from models.pix2pix import Architecture, InstanceNorm, SeededDropout
from models.pix2pix_weights import Weight, name_of, weights_of


def labels(architecture, count=2, seed=0):
    drawn = np.random.default_rng(seed).integers(0, 2, (count, *architecture.size, 1))
    return (2 * drawn - 1).astype(np.float32)


@pytest.fixture(scope="module", params=[("unet", (20, 33), 2, 3), ("hd", (45, 64), 1, 1)], ids=GENERATORS)
def architecture(request):
    return Architecture(*request.param)


@pytest.fixture(scope="module")
def generator(architecture):
    return pix2pix.build(architecture, seed=3)


def test_any_size(architecture, generator):
    made = generator(labels(architecture)).numpy()
    assert made.shape == (2, *architecture.size, architecture.channels)
    assert np.abs(made).max() <= 1 and made.std() > 0
    assert pix2pix.architecture_of(generator) == architecture


def test_weights_depend_on_the_seed_alone(architecture, generator):
    again, other = (pix2pix.build(architecture, seed) for seed in (3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(generator.get_weights(), again.get_weights()))
    assert not np.array_equal(generator.get_weights()[0], other.get_weights()[0])


def test_weights_known_without_a_model(architecture, generator):
    expected = {name_of(variable): tuple(variable.shape) for variable in generator.weights}
    found = weights_of(architecture)
    assert {name: weight.shape for name, weight in found.items()} == expected
    assert list(found) == list(expected)
    for layer in generator.layers:
        if isinstance(layer, tf.keras.layers.Conv2D):  # transposed ones are of this kind too
            name = f"{layer.name}.kernel"
            assert found[name].shape[found[name].output_axis] == layer.filters


def test_the_papers_sizes():
    """Millions of weights at width 64: five of pix2pix's eight levels, and pix2pixHD's 182 million."""

    def millions(name):
        weights = weights_of(Architecture(name, (400, 400)))
        return sum(math.prod(weight.shape) for weight in weights.values()) / 1e6

    assert millions("unet") == pytest.approx(16.66, abs=0.01)
    assert millions("hd") == pytest.approx(182.4, abs=0.1)
    assert weights_of(Architecture("unet", (400, 400)))["up4.kernel"] == Weight((4, 4, 512, 512), 2)


def test_an_image_does_not_depend_on_its_batch(architecture, generator):
    both = generator(labels(architecture)).numpy()
    np.testing.assert_allclose(both[1:], generator(labels(architecture)[1:]), atol=1e-5)


def test_a_label_pixel_matters_where_it_is():
    """By the skip connections: through the deepest layer alone, a pixel's place would be lost."""
    architecture = Architecture("unet", (32, 32), 4)
    generator = pix2pix.build(architecture)
    first = labels(architecture, 1)
    second = first.copy()
    second[0, 16, 16] *= -1
    changed = np.abs(generator(second) - generator(first))[0].sum(axis=-1)
    near = changed[13:20, 13:20].mean()
    assert near > 2 * (changed.sum() - 49 * near) / (32**2 - 49)


def test_instance_norm_by_hand():
    layer = InstanceNorm()
    x = tf.constant([[[[1.0], [3.0]]], [[[5.0], [5.0]]]])  # two images of two places
    layer(x)
    layer.set_weights([np.array([2.0]), np.array([0.5])])
    np.testing.assert_allclose(layer(x)[:, 0, :, 0], [[-1.5, 2.5], [0.5, 0.5]], atol=1e-4)


def test_dropout_is_a_function_of_seed_and_number():
    architecture = Architecture("unet", (32, 32), 2)
    generator = pix2pix.build(architecture)
    assert sum(isinstance(layer, SeededDropout) for layer in generator.layers) == 2
    x = labels(architecture)
    run = tf.function(lambda x: generator(x, training=True))

    def drawn(seed, number):
        pix2pix.set_dropout(generator, seed, number)
        return run(x).numpy(), run(x).numpy()

    first, second = drawn(0, 1)
    again, _ = drawn(0, 1)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, drawn(0, 2)[0]) and not np.array_equal(first, drawn(1, 1)[0])
    np.testing.assert_array_equal(generator(x), generator(x))  # off, where nothing is trained


def test_dropout_keeps_the_mean():
    values = SeededDropout(0.5)(tf.ones([4, 50, 50, 1]), training=True).numpy()
    assert set(np.unique(values)) == {0.0, 2.0} and values.mean() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("name", "sides"), [("unet", [[(9, 12), 5]]), ("hd", [[(9, 12), 5], [(5, 6), 5]])])
def test_discriminators(name, sides):
    architecture = Architecture(name, (70, 90), 1)
    judge = pix2pix_discriminator.build(architecture)
    x, image = labels(architecture), tf.random.stateless_uniform([2, 70, 90, 3], [0, 0])
    scales = judge([x, image])
    assert [[tuple(scale[-1].shape[1:3]), len(scale)] for scale in scales] == sides
    assert all(scale[-1].shape[3] == 1 for scale in scales)
    assert not np.allclose(scales[0][-1], judge([-x, image])[0][-1])  # the label is judged with the image


def test_generator_and_discriminator_start_apart():
    architecture = Architecture("unet", (32, 32), 2, 1)
    kernels = pix2pix.build(architecture).get_weights()[0], pix2pix_discriminator.build(architecture).get_weights()[0]
    assert not np.array_equal(kernels[0].ravel()[:8], kernels[1].ravel()[:8])


REAL = [[tf.constant([[1.0, 2.0]]), tf.constant([0.0, 0.0])], [tf.constant([3.0]), tf.constant([2.0])]]
MADE = [[tf.constant([[2.0, 5.0]]), tf.constant([0.0, 0.0])], [tf.constant([7.0]), tf.constant([1.0])]]


def test_equations_5_and_6():
    """D is a half everywhere at logit 0: log 2 each. Scale by scale, then summed."""
    entropy = pix2pix_losses.ADVERSARIAL["unet"]
    assert float(pix2pix_losses.discriminator_loss(entropy, REAL[:1], MADE[:1])) == pytest.approx(math.log(2))
    assert float(pix2pix_losses.deception_loss(entropy, MADE[:1])) == pytest.approx(math.log(2))
    at_one = -math.log(1 / (1 + math.exp(-1)))  # −log D at logit 1
    assert float(pix2pix_losses.deception_loss(entropy, MADE)) == pytest.approx(math.log(2) + at_one)
    assert float(entropy(tf.constant([1.0]), False)) == pytest.approx(at_one + 1)  # −log(1 − D)


def test_least_squares():
    squares = pix2pix_losses.ADVERSARIAL["hd"]
    # first scale: ((0 − 1)² + 0²) / 2; second: ((2 − 1)² + 1²) / 2
    assert float(pix2pix_losses.discriminator_loss(squares, REAL, MADE)) == pytest.approx(0.5 + 1.0)
    assert float(pix2pix_losses.deception_loss(squares, MADE)) == pytest.approx(1.0 + 0.0)


def test_equation_7_and_feature_matching():
    assert float(pix2pix_losses.l1_loss(tf.constant([1.0, -1.0]), tf.constant([0.5, 1.0]))) == pytest.approx(1.25)
    # (1 + 3) / 2 and 4, mean over two scales; logits do not count
    with tf.GradientTape() as tape:
        tape.watch([REAL[0][0], MADE[0][0]])
        loss = pix2pix_losses.feature_matching_loss(REAL, MADE)
    assert float(loss) == pytest.approx(3.0)
    real, made = tape.gradient(loss, [REAL[0][0], MADE[0][0]])
    assert real is None
    np.testing.assert_allclose(made, [[0.25, 0.25]])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("vae", (8, 8)), "generator vae: unknown; choose one of unet, hd"),
        (("unet", (8, 8), 4, 2), "channels 2: images have 1 or 3"),
        (("unet", (8, 0), 4), "must be above 0"),
    ],
)
def test_architectures_that_make_no_sense(arguments, line):
    with pytest.raises(ValueError, match=line):
        Architecture(*arguments)
