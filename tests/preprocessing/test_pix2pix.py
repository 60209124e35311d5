"""Training lowers the losses, goes on exactly where it was stopped, and depends on the seed alone."""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np
import pytest
import tensorflow as tf

from models import pix2pix as networks
from models.names import GENERATORS
from preprocessing import pix2pix as module
from preprocessing.adam import Adam
from preprocessing.errors import UserError
from preprocessing.pix2pix import Training, generate, settings_for, train
from preprocessing.pix2pix_folder import sheet, train_in
from preprocessing.pix2pix_settings import Pix2PixSettings
from tests.models.grains import grains

TINY = settings_for("unet", width=2, epochs=3, batch=3, every=1)


@pytest.fixture(scope="module")
def pairs():
    return grains(8, 32, channels=1)


@pytest.fixture(scope="module")
def trained(pairs):
    """Eight pairs in batches of three: the last one is smaller."""
    training = Training(*pairs, TINY)
    training.run()
    return training


def same(first, second):
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second))


def test_two_epochs_lower_l1(pairs):
    images, labels = pairs
    before = generate(networks.build(networks.Architecture("unet", (32, 32), 8, 1)), labels)
    after = generate(
        train(images, labels, settings_for("unet", width=8, epochs=2, batch=1, learning_rate=2e-3)), labels
    )
    errors = [np.abs(made.astype(int) - images).mean() for made in (before, after)]
    assert errors[1] < 0.7 * errors[0]
    assert after[labels == 1].mean() + 10 < after[labels == 0].mean()  # boundaries are dark in the images


def test_the_record(trained):
    first, _, last = trained.record
    assert last.l1 < first.l1 and last.feature_matching == 0


def losses_by_hand(name, y, made, real, false):
    """The generator's and the discriminator's, from activations of both."""
    if name == "unet":  # one scale, Eqs 5 to 7
        real, false = real[0][-1], false[0][-1]
        judging = (
            -tf.reduce_mean(tf.math.log(tf.sigmoid(real))) / 2 - tf.reduce_mean(tf.math.log(1 - tf.sigmoid(false))) / 2
        )
        return -tf.reduce_mean(tf.math.log(tf.sigmoid(false))) + 100 * tf.reduce_mean(tf.abs(y - made)), judging
    making, judging = 0.0, 0.0
    for r, f in zip(real, false):
        judging += tf.reduce_mean((r[-1] - 1) ** 2) / 2 + tf.reduce_mean(f[-1] ** 2) / 2
        making += tf.reduce_mean((f[-1] - 1) ** 2)
        making += 10 / 2 * sum(tf.reduce_mean(tf.abs(f[level] - tf.stop_gradient(r[level]))) for level in range(4))
    return making, judging


@pytest.mark.parametrize("name", GENERATORS)
def test_a_step_by_hand(name):
    """Adam's first step is the learning rate against the gradient's sign; both networks move from where they were."""
    images, labels = grains(3, 32, channels=1)
    settings = settings_for(name, width=2 if name == "unet" else 1, epochs=1, batch=3)
    training, other = (Training(images, labels, settings) for _ in range(2))
    tf.config.run_functions_eagerly(name == "hd")  # which takes long to trace
    try:
        training.run()
    finally:
        tf.config.run_functions_eagerly(False)
    networks.set_dropout(other.generator, 0, 0)
    rows = np.random.default_rng([0, 0]).permutation(3)
    x, y = tf.constant(labels[rows][..., None] * 2.0 - 1, tf.float32), tf.constant(images[rows] / 127.5 - 1, tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        made = other.generator(x, training=True)
        real, false = (other.discriminator([x, image], training=True) for image in (y, made))
        making, judging = losses_by_hand(name, y, made, real, false)
    (found,) = training.record
    assert found.discriminator == pytest.approx(float(judging), rel=1e-4)
    assert found.l1 == pytest.approx(float(tf.reduce_mean(tf.abs(y - made))), rel=1e-4)
    for loss, moved, start in (
        (making, training.generator, other.generator),
        (judging, training.discriminator, other.discriminator),
    ):
        gradients = [np.ravel(part) for part in tape.gradient(loss, start.trainable_variables)]
        steps = [np.ravel(a - b) for a, b in zip(moved.trainable_variables, start.trainable_variables)]
        gradients, steps = np.concatenate(gradients), np.concatenate(steps)
        clear = np.abs(gradients) > 1e-3
        assert clear.mean() > 0.2
        np.testing.assert_allclose(steps[clear], -2e-4 * np.sign(gradients[clear]), rtol=5e-3)


def test_adam_is_kerass():
    one, other = tf.Variable([1.0, -2.0]), tf.Variable([1.0, -2.0])
    adam, keras = Adam([one], 0.1, 0.5, 0.999), tf.keras.optimizers.Adam(0.1, 0.5, 0.999, epsilon=1e-8)
    move = tf.function(adam.move)
    for gradient in ([1.0, 2.0], [-0.5, 3.0], [0.1, 0.0]):
        move([tf.constant(gradient)])
        keras.apply_gradients([(tf.constant(gradient), other)])
    np.testing.assert_allclose(one, other, rtol=1e-5)


class Stopped(Exception):
    pass


def test_stopped_and_gone_on(pairs, trained, tmp_path, monkeypatch):
    """In the middle of an epoch, which is done again; with more epochs than before. The same seed, the same weights."""
    left = iter(range(3 + 1))  # steps
    compiled = Training._compiled

    def stopping(self, *arguments):
        inner = compiled(self, *arguments)

        def step(*batch):
            if next(left, None) is None:
                raise Stopped
            return inner(*batch)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Training, "_compiled", stopping)
        with pytest.raises(Stopped):
            train_in(tmp_path, *pairs, dataclasses.replace(TINY, epochs=2), show=False)
    assert [path.name for path in (tmp_path / "samples").iterdir()] == ["epoch-0001.png"]
    training = train_in(tmp_path, *pairs, TINY, show=False)
    assert same(training.state(), trained.state()) and training.record == trained.record
    assert len((tmp_path / "losses.csv").read_text().splitlines()) == 1 + 3
    assert cv2.imread(str(tmp_path / "samples" / "epoch-0003.png")).shape == sheet(training).shape

    finished = train_in(tmp_path, *pairs, TINY, show=False)  # nothing is left to do
    assert same(finished.state(), trained.state())
    with pytest.raises(UserError, match=r"3 epochs are done, --epochs is 2; choose another OUT"):
        train_in(tmp_path, *pairs, dataclasses.replace(TINY, epochs=2), show=False)
    for images, settings in ((255 - pairs[0], TINY), (pairs[0], dataclasses.replace(TINY, seed=1))):
        with pytest.raises(UserError, match="of other images, labels or settings; choose another OUT, or use --fresh"):
            train_in(tmp_path, images, pairs[1], settings, show=False)
    checkpoint = tmp_path / "checkpoint.npz"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(UserError, match="damaged, or not a checkpoint"):
        train_in(tmp_path, *pairs, TINY, show=False)


def test_a_fresh_start(pairs, tmp_path, monkeypatch):
    (tmp_path / "checkpoint.npz").write_bytes(b"something else")
    monkeypatch.setattr(Training, "run", lambda training, *_: training.record.append("ran"))
    assert train_in(tmp_path, *pairs, TINY, fresh=True, show=False).record == ["ran"]


def test_another_seed_is_another_training(pairs, trained):
    other = Training(*pairs, dataclasses.replace(TINY, seed=1))
    again = Training(*pairs, TINY)
    assert not same(other.generator.get_weights(), again.generator.get_weights())
    assert other.fingerprint() != again.fingerprint() == trained.fingerprint()
    with pytest.raises(ValueError, match="the state is another training's"):
        other.restore(trained.state()[1:])


def test_the_sheet(trained, pairs):
    picture = sheet(trained)
    assert picture.shape == (4 * 32 + 3 * 4, 3 * 32 + 2 * 4, 3)
    np.testing.assert_array_equal(picture[:32, :32, 0], pairs[1][0] * 255)
    np.testing.assert_array_equal(picture[-32:, 36:68, 1], pairs[0][-1, ..., 0])
    np.testing.assert_array_equal(picture[-32:, 72:, 2], generate(trained.generator, pairs[1][-1:])[0, ..., 0])


def test_generating_in_parts(trained, pairs, monkeypatch):
    together = generate(trained.generator, pairs[1])
    monkeypatch.setattr(module, "_ACTIVATIONS", 3 * 32 * 32 * 2)  # three images at a time
    np.testing.assert_allclose(generate(trained.generator, pairs[1]), together.astype(int), atol=1)
    assert generate(trained.generator, pairs[1][:0]).shape == (0, 32, 32, 1)


@pytest.mark.parametrize(
    ("labels", "error", "line"),
    [
        (np.zeros((1, 32, 32), int), TypeError, "uint8 labels of shape"),
        (np.zeros((32, 32), np.uint8), TypeError, "uint8 labels of shape"),
        (np.full((1, 32, 32), 255, np.uint8), ValueError, "labels hold 255; they must be 1 at boundaries"),
        (
            np.zeros((1, 32, 16), np.uint8),
            ValueError,
            r"labels are of \(32, 16\) pixels, the generator is for \(32, 32\)",
        ),
    ],
)
def test_labels_that_are_none(labels, error, line, trained):
    with pytest.raises(error, match=line):
        generate(trained.generator, labels)


def test_pairs_that_are_none(pairs):
    with pytest.raises(ValueError, match="one label for each image is needed"):
        Training(pairs[0], pairs[1][:-1], TINY)
    with pytest.raises(TypeError, match="uint8 images of shape"):
        Training(pairs[0][..., 0], pairs[1], TINY)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"generator": "vae"}, "generator is 'vae'; choose one of unet, hd"),
        ({"batch": 0}, "batch is 0; it must be above 0"),
        ({"beta_1": 1.0}, r"beta_1 is 1\.0; it must be 0 or more and below 1"),
        ({"l1": -1.0}, r"l1 is -1\.0; it must be 0 or more"),
    ],
)
def test_settings_that_make_no_sense(changes, line):
    with pytest.raises(ValueError, match=line):
        Pix2PixSettings(**changes)
