"""A client's look as a network: pix2pix learns to paint its images from their labels (FedTransfer, Eqs 5 to 7).

`train` fits a generator (`models.pix2pix`) to a client's own pairs; `generate` paints images for labels, such as
another client's. The generator is what travels (`preprocessing.generator_files`), images and labels stay.

A step is one compiled function: generator and discriminator see a batch once, and each is moved along the gradient of
its own loss, as pix2pixHD does it (pix2pix moves the discriminator first and looks again). The order of the pairs and
what dropout draws are functions of the seed and the epoch, so that a training that goes on from `Training.state` ends
as one that was never stopped. Not done: pix2pix's random cropping and mirroring, which FedTransfer does not mention.

    python -m preprocessing.pix2pix --images FOLDER --labels FOLDER -o OUT [--generator unet|hd] [--epochs 50]
"""

from __future__ import annotations

if __name__ == "__main__":  # before NumPy and TensorFlow are imported: --help needs neither
    from preprocessing.pix2pix_command import main

    raise SystemExit(main())

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models import pix2pix, pix2pix_discriminator
from models import pix2pix_losses as losses
from preprocessing.adam import Adam
from preprocessing.pix2pix_settings import Pix2PixSettings, settings_for
from preprocessing.progress import track

__all__ = ["Losses", "Pix2PixSettings", "Training", "generate", "settings_for", "train"]

_DEFAULT = Pix2PixSettings()
_ACTIVATIONS = 2**25  # of the first layer, at once: about 1 GB with what follows it


class Losses(NamedTuple):
    """Of one epoch: means over its pairs, unweighted."""

    discriminator: float
    deception: float  # the generator's part in the game
    l1: float  # of pixels in [−1, 1]
    feature_matching: float  # 0 where it has no weight


def train(images: np.ndarray, labels: np.ndarray, settings: Pix2PixSettings = _DEFAULT) -> tf.keras.Model:
    """A generator for uint8 images (n, height, width, 1 or 3) and labels (n, height, width), 1 at boundaries or 0."""
    training = Training(images, labels, settings)
    training.run()
    return training.generator


def generate(generator: tf.keras.Model, labels: np.ndarray) -> np.ndarray:
    """uint8 images (n, height, width, channels) for labels like those of `train`, of the size it was trained at."""
    architecture = pix2pix.architecture_of(generator)
    _check_labels(labels)
    if labels.shape[1:] != architecture.size:
        height, width = architecture.size
        raise ValueError(f"labels are of {labels.shape[1:]} pixels, the generator is for ({height}, {width})")
    step = max(1, _ACTIVATIONS // (labels[0].size * architecture.width)) if len(labels) else 1
    made = np.empty((*labels.shape, architecture.channels), np.uint8)
    for part in (slice(start, start + step) for start in range(0, len(labels), step)):
        made[part] = np.rint((generator(_signs(labels[part])).numpy() + 1) * 127.5).astype(np.uint8)
    return made


class Training:
    """A generator, its discriminator and their optimisers, after some number of epochs."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, settings: Pix2PixSettings = _DEFAULT) -> None:
        _check_pairs(images, labels)
        self.images, self.labels, self.settings = images, labels, settings
        _, height, width, channels = images.shape
        architecture = pix2pix.Architecture(settings.generator, (height, width), settings.width, channels)
        self.generator = pix2pix.build(architecture, settings.seed)
        self.discriminator = pix2pix_discriminator.build(architecture, settings.seed)
        self.optimizers = [
            Adam(model.trainable_variables, settings.learning_rate, settings.beta_1, settings.beta_2)
            for model in (self.generator, self.discriminator)
        ]
        self.record: list[Losses] = []  # of the epochs so far
        self._step = self._compiled((height, width), channels)

    @property
    def epoch(self) -> int:
        """How many are done."""
        return len(self.record)

    def run(self, after_epoch: Callable[[Training], None] | None = None, show: bool = False, title: str = "") -> None:
        """Goes on until all epochs are done, and shows progress on stderr, under that title, if asked to."""
        left = self.settings.epochs - self.epoch
        batches = -(-len(self.images) // self.settings.batch)
        name = title or f"pix2pix {self.settings.generator}"
        for _ in track(self._steps(after_epoch), max(left, 0) * batches, name, show, "step"):
            pass

    def state(self) -> list[np.ndarray]:
        """All that changes in an epoch: weights, the optimisers' variables and the record."""
        record = np.array(self.record, np.float64).reshape(-1, len(Losses._fields))
        return [*(variable.numpy() for variable in self._variables()), record]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        """Back to a `state` of a training of the same pairs and settings. Raises `ValueError` if it is another's."""
        *arrays, record = state
        variables = self._variables()
        kinds = [(tuple(variable.shape), variable.dtype.as_numpy_dtype) for variable in variables]
        same = [(array.shape, array.dtype.type) for array in arrays] == kinds
        if not same or record.shape[1:] != (len(Losses._fields),) or record.dtype != np.float64:
            raise ValueError("the state is another training's: its shapes are not those of these networks")
        for variable, array in zip(variables, arrays):
            variable.assign(array)
        self.record = [Losses(*row) for row in record.tolist()]

    def fingerprint(self) -> str:
        """SHA-256 of all that the outcome of an epoch depends on: the pairs and the settings, not how many epochs."""
        fixed = {name: value for name, value in vars(self.settings).items() if name not in ("epochs", "every")}
        known = hashlib.sha256(f"{sorted(fixed.items())} {self.images.shape}".encode())
        for array in (self.images, self.labels):
            known.update(array.tobytes())
        return known.hexdigest()

    def _variables(self) -> list[tf.Variable]:
        kept = [self.generator.weights, self.discriminator.weights, *(one.variables for one in self.optimizers)]
        return [variable for part in kept for variable in part]

    def _steps(self, after_epoch: Callable[[Training], None] | None) -> Iterator[None]:
        count, batch, seed = len(self.images), self.settings.batch, self.settings.seed
        while self.epoch < self.settings.epochs:
            pix2pix.set_dropout(self.generator, seed, self.epoch)
            order = np.random.default_rng([seed, self.epoch]).permutation(count)
            total = np.zeros(len(Losses._fields))
            for start in range(0, count, batch):
                rows = order[start : start + batch]
                total += len(rows) * self._step(self.labels[rows], self.images[rows]).numpy()
                if start + batch < count:
                    yield
            self.record.append(Losses(*(total / count).tolist()))
            if after_epoch:
                after_epoch(self)
            yield

    def _compiled(self, size: tuple[int, int], channels: int) -> Callable[..., tf.Tensor]:
        adversarial = losses.ADVERSARIAL[self.settings.generator]
        generator, discriminator, adams = self.generator, self.discriminator, self.optimizers
        l1_weight, matching_weight = self.settings.l1, self.settings.feature_matching

        @tf.function(
            input_signature=[tf.TensorSpec([None, *size], tf.uint8), tf.TensorSpec([None, *size, channels], tf.uint8)],
            autograph=False,
        )
        def step(labels: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
            """One batch; `Losses` as (4,)."""
            x, y = _signs(labels), tf.cast(images, tf.float32) / 127.5 - 1.0
            with tf.GradientTape(persistent=True) as tape:
                made = generator(x, training=True)
                # Judged together: no image's judgement depends on another's.
                scales = discriminator([tf.concat([x, x], 0), tf.concat([y, made], 0)], training=True)
                halves = [[tf.split(level, 2) for level in scale] for scale in scales]
                real, false = ([[pair[side] for pair in scale] for scale in halves] for side in (0, 1))
                judging = losses.discriminator_loss(adversarial, real, false)
                deceiving = losses.deception_loss(adversarial, false)
                pixels = losses.l1_loss(y, made)
                matching = losses.feature_matching_loss(real, false) if matching_weight else tf.constant(0.0)
                making = deceiving + l1_weight * pixels + matching_weight * matching
            # Both gradients before either network moves.
            gradients = [tape.gradient(loss, adam.trained) for loss, adam in zip((making, judging), adams)]
            for adam, gradient in zip(adams, gradients):
                adam.move(gradient)
            return tf.stack([judging, deceiving, pixels, matching])

        return step


def _signs(labels: tf.Tensor | np.ndarray) -> tf.Tensor:
    """Classes 0 and 1 as the generator's −1 and 1 (n, height, width, 1)."""
    return 2.0 * tf.cast(labels, tf.float32)[..., tf.newaxis] - 1.0


def _check_labels(labels: np.ndarray) -> None:
    if labels.dtype != np.uint8 or labels.ndim != 3 or 0 in labels.shape[1:]:
        raise TypeError(f"uint8 labels of shape (n, height, width) are needed, not {labels.dtype} {labels.shape}")
    if labels.size and labels.max() > 1:
        raise ValueError(f"labels hold {labels.max()}; they must be 1 at boundaries and 0 elsewhere")


def _check_pairs(images: np.ndarray, labels: np.ndarray) -> None:
    _check_labels(labels)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        raise TypeError(
            f"uint8 images of shape (n, height, width, 1 or 3) are needed, not {images.dtype} {images.shape}"
        )
    if images.shape[:3] != labels.shape or not len(images):
        raise ValueError(f"images are {images.shape}, labels {labels.shape}; one label for each image is needed")
