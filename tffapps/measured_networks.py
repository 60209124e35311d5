"""Networks as `tffapps.estimate` measures them: classifiers of whole images or above stored activations, VGG-19."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from models import vgg
from preprocessing.style_settings import LAYERS
from tffapps.app import Common
from tffapps.estimate import Cost, Steps, Work
from tffapps.home import cache_folder
from tffapps.inputs import PLAIN, Inputs
from tffapps.network import CutSettings, Network
from tffapps.settings import Flags

PNG_BYTES = 2.0  # of a pixel in colour, about
_IMAGES = 8  # in a call; a pass of one image in a larger batch takes about as long
_LARGE = 2**15  # pixels of an image of which two are enough


def inputs_of(flags: Flags, classes: int, channels: int = 3) -> Inputs:
    """The network of a system with the flags model, size, head and weights."""
    values = flags.as_dict()
    network = Network(
        values["model"], values["size"], channels, values["head"], flags[Common].weights, flags[CutSettings],
        flags[Common].precision,
    )  # fmt: skip
    views = values.get("stored_views", 0)
    augmented = values.get("augment", "none") != "none"
    return Inputs(
        network, classes=classes, formats=("png",), cache=cache_folder() / "features", augmentations={},
        training_view="augmented" if augmented else PLAIN, store_training=bool(views),
    )  # fmt: skip


def classifiers(inputs: Inputs, *, training: float, inference: float, runs: float, images: float) -> list[Cost]:
    """Of runs of one network.

    Args:
      inputs: the network, and what its rounds train.
      training: images in all training steps of all runs.
      inference: images that are predicted, in all rounds of all runs.
      runs: how many: each leaves a checkpoint.
      images: of which activations are stored, a view counting as one, where they are.
    """
    name, shape = inputs.name, "x".join(map(str, inputs.model.input_shape[1:]))
    trained = Work(f"{name} of {shape}", lambda: keras_steps(inputs.model))
    costs = [Cost("classifiers", trained, training, inference, checkpoints=runs)]
    if inputs.on_features:
        whole = Work(f"whole {name}", lambda: keras_steps(inputs.network))
        stored = 2 * math.prod(inputs.model.input_shape[1:])  # half precision
        costs.append(Cost("activations", whole, inference=images, bytes=images * stored))
    return costs


def keras_steps(
    model: tf.keras.Model, loss: Callable[[Any], Any] | None = None, inputs: list[np.ndarray] | None = None
) -> Steps:
    """A Keras model under plain SGD; `loss` is of its outputs, `inputs` are what it is given. Both can be made up."""
    count = _images_of(model.input_shape) if inputs is None else len(inputs[0])
    arrays = [_noise(count, model.input_shape)] if inputs is None else list(map(tf.constant, inputs))
    given = arrays[0] if len(arrays) == 1 else arrays
    judge = loss or (lambda outputs: -tf.reduce_mean(tf.math.log(outputs[..., 0] + 1e-7)))

    @tf.function
    def train() -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = judge(model(given, training=True))
        variables = model.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(value, variables)):
            if gradient is not None:
                variable.assign_sub(1e-6 * tf.convert_to_tensor(gradient))  # an embedding's is sparse
        return value

    @tf.function
    def infer() -> Any:
        return model(given, training=False)

    weights = 4 * sum(math.prod(variable.shape) for variable in model.weights)
    return Steps(count, lambda: train().numpy(), lambda: tf.nest.map_structure(lambda x: x.numpy(), infer()), weights)


def style_steps(width: int, size: int) -> Work:
    """A step of style transfer, of a cloak or of the attack: gradients of Gram losses with respect to an image."""

    def make() -> Steps:
        count = _images_of((None, size, size, 3))
        taps = vgg.taps(vgg.build(LAYERS[-1], width), LAYERS)
        image = tf.constant(np.random.default_rng(0).random((count, size, size, 3), np.float32))

        @tf.function
        def step() -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(image)
                flat = [tf.reshape(level, (count, -1, level.shape[-1])) for level in taps(image)]
                loss = tf.add_n([tf.reduce_mean(tf.square(tf.matmul(f, f, transpose_a=True))) for f in flat])
            return tape.gradient(loss, image)

        return Steps(count, lambda: step().numpy())

    return Work(f"VGG-19 of width {width}, {size} pixels", make)


def png_bytes(images: float, size: int) -> float:
    """Of images in colour that are kept."""
    return images * PNG_BYTES * size**2


def _images_of(shape: Any) -> int:
    return 2 if len(shape) == 4 and shape[1] * shape[2] > _LARGE else _IMAGES


def _noise(count: int, shape: Any) -> tf.Tensor:
    return tf.constant(np.random.default_rng(0).random((count, *shape[1:]), np.float32))
