"""Gradients of single examples, clipped and summed, at about the price of a batch's.

    Σᵢ gᵢ · min(1, C / ‖gᵢ‖),   gᵢ: the gradient of example i's loss, all trained weights being one vector

No gᵢ is made where it need not be. Of a layer with the weights W, whose output before its activation is a · W, the
gradient of example i is aᵢᵀ eᵢ, where a goes into the layer and e is the gradient that comes back to that output. One
backward pass gives e of all layers; norms are made of a and e (Goodfellow 2015; for convolutions, whose a are patches,
Bu et al. 2022), and the clipped sum is the usual gradient of e times each example's factor. Known are dense layers,
convolutions, depthwise convolutions and group normalisation. A network with another kind of trained layer, or one that
is used twice, is differentiated example by example: the same numbers, many times slower.

What mixes the examples of a batch has no such gradients: `check` refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from models.flattened import is_functional, written_out
from models.norms import GroupNorm
from tffapps.errors import UserError
from tffapps.federated.task import batch_norms

layers = tf.keras.layers
Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def check(model: tf.keras.Model) -> None:
    """Refuses a network whose examples have no gradients of their own."""
    norms = batch_norms(model)
    if norms:
        raise UserError(
            f"--record-dp: BatchNorm ({norms[0].name}) mixes the images of a batch, so that no image has a gradient of"
            " its own; use --norm group, or --norm frozen above a cut"
        )
    if model.losses:
        raise UserError(f"--record-dp: network {model.name} adds losses of its own, which may mix images; remove them")


def clipped_sum(
    model: tf.keras.Model, loss: Loss, images: tf.Tensor, labels: tf.Tensor, clip: float
) -> list[tf.Tensor]:
    """Of the trainable variables, in their order; the model is in training mode."""
    way = _by_layers if _known(model) else _one_by_one
    return way(model, loss, images, labels, clip)


class _Part(NamedTuple):
    """One variable's share in the gradients of a batch."""

    variable: tf.Variable
    squares: tf.Tensor  # (batch): ‖gᵢ‖² of this variable
    weighted: Callable[[tf.Tensor], tf.Tensor]  # factors (batch) → Σ gᵢ · factor


class _Seen(NamedTuple):
    layer: Any
    given: tf.Tensor
    made: tf.Tensor  # before the activation


@tf.autograph.experimental.do_not_convert
def _known(model: tf.keras.Model) -> bool:
    """Whether every trained variable belongs to exactly one layer of a known kind that is used once."""
    if not is_functional(model):
        return False
    found: list[int] = []

    def note(layer: Any, given: Any) -> None:
        if _kind(layer) is not None:
            found.extend(id(variable) for variable in layer.trainable_variables)

    written_out(model, note, training=True)
    return sorted(found) == sorted(id(variable) for variable in model.trainable_variables)


def _kind(layer: Any) -> Callable[[_Seen, tf.Tensor], list[_Part]] | None:
    """How the gradients of a layer are made; exact types: a subclass may compute something else."""
    if not layer.trainable_variables:
        return None
    if type(layer) is layers.Dense and layer.input_spec.axes is not None:
        return _of_dense
    last = getattr(layer, "data_format", "channels_last") == "channels_last"
    if type(layer) is layers.Conv2D and layer.groups == 1 and last:
        return _of_conv
    if type(layer) is layers.DepthwiseConv2D and layer.depth_multiplier == 1 and last:
        return _of_depthwise
    return _of_group_norm if type(layer) is GroupNorm else None


def _by_layers(model: tf.keras.Model, loss: Loss, images: tf.Tensor, labels: tf.Tensor, clip: float) -> list[tf.Tensor]:
    seen: list[_Seen] = []

    def instead(layer: Any, given: Any) -> Any:
        if _kind(layer) is None:
            return None
        made = _before_activation(layer, given)
        seen.append(_Seen(layer, given, made))
        activation = getattr(layer, "activation", None)
        return made if activation is None else activation(made)

    with tf.GradientTape() as tape:
        total = tf.reduce_sum(_of_examples(loss(labels, written_out(model, instead, images, training=True))))
    back = tape.gradient(total, [each.made for each in seen], unconnected_gradients=tf.UnconnectedGradients.ZERO)
    parts: list[_Part] = []
    for each, error in zip(seen, back):
        kind = _kind(each.layer)
        assert kind is not None
        parts += kind(each, error)
    squares = tf.maximum(tf.add_n([part.squares for part in parts]), 0.0)  # rounding may take one below
    factors = _factors(squares, clip)
    sums = {id(part.variable): part.weighted(factors) for part in parts}
    return [tf.reshape(sums[id(variable)], variable.shape) for variable in model.trainable_variables]


def _one_by_one(
    model: tf.keras.Model, loss: Loss, images: tf.Tensor, labels: tf.Tensor, clip: float
) -> list[tf.Tensor]:
    variables = model.trainable_variables

    def add_one(index: tf.Tensor, sums: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            outputs = model(images[index : index + 1], training=True)
            total = tf.reduce_sum(_of_examples(loss(labels[index : index + 1], outputs)))
        gradients = tape.gradient(total, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        factor = _factors(tf.linalg.global_norm(gradients) ** 2, clip)
        return index + 1, [so_far + factor * gradient for so_far, gradient in zip(sums, gradients)]

    count, zeros = tf.shape(labels)[0], [tf.zeros_like(variable) for variable in variables]
    return tf.while_loop(lambda index, _: index < count, add_one, (tf.constant(0), zeros))[1]


def _of_examples(losses: tf.Tensor) -> tf.Tensor:
    """(batch): a loss that is not one value an example, such as one a pixel, is averaged over the rest."""
    if losses.shape.rank == 0:
        raise UserError("--record-dp: this loss is one number for a whole batch; use a method whose loss is an image's")
    return losses if losses.shape.rank == 1 else tf.reduce_mean(losses, axis=list(range(1, losses.shape.rank)))


def _factors(squares: tf.Tensor, clip: float) -> tf.Tensor:
    """min(1, C / ‖g‖)."""
    return tf.minimum(1.0, tf.math.divide_no_nan(clip, tf.sqrt(squares)) + tf.cast(squares == 0, tf.float32))


def _before_activation(layer: Any, given: tf.Tensor) -> tf.Tensor:
    if type(layer) is GroupNorm:
        return layer(given)
    if type(layer) is layers.Dense:
        made = tf.tensordot(given, layer.kernel, 1)
    elif type(layer) is layers.DepthwiseConv2D:
        made = tf.keras.backend.depthwise_conv2d(
            given, layer.depthwise_kernel, strides=layer.strides, padding=layer.padding,
            dilation_rate=layer.dilation_rate,
        )  # fmt: skip
    else:
        made = layer.convolution_op(given, layer.kernel)
    return tf.nn.bias_add(made, layer.bias) if layer.use_bias else made


def _of_dense(seen: _Seen, error: tf.Tensor) -> list[_Part]:
    return [_of_products(seen.layer.kernel, _places(seen.given), _places(error)), *_of_bias(seen.layer, error)]


def _of_conv(seen: _Seen, error: tf.Tensor) -> list[_Part]:
    layer = seen.layer

    def whole(errors: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(layer.kernel)
            made = layer.convolution_op(seen.given, layer.kernel)
        return tape.gradient(made, layer.kernel, errors)

    def weighted(factors: tf.Tensor) -> tf.Tensor:
        return whole(error * tf.reshape(factors, [-1, 1, 1, 1]))

    part = _of_products(layer.kernel, _patches(layer, seen.given), _places(error))
    return [part if layer.kernel_size == (1, 1) else part._replace(weighted=weighted), *_of_bias(layer, error)]


def _of_depthwise(seen: _Seen, error: tf.Tensor) -> list[_Part]:
    layer, channels = seen.layer, error.shape[-1]
    taps = layer.kernel_size[0] * layer.kernel_size[1]
    patches, errors = _patches(layer, seen.given), _places(error)
    patches = tf.reshape(patches, [tf.shape(patches)[0], tf.shape(patches)[1], taps, channels])
    each = tf.reduce_sum(patches * errors[:, :, tf.newaxis, :], axis=1)  # (batch, taps, channels)
    return [_of_each(layer.depthwise_kernel, each), *_of_bias(layer, error)]


def _of_group_norm(seen: _Seen, error: tf.Tensor) -> list[_Part]:
    scaled = tf.reduce_sum(seen.layer.normalised(seen.given) * error, axis=[1, 2])
    shifted = tf.reduce_sum(error, axis=[1, 2])
    return [_of_each(seen.layer.gamma, scaled), _of_each(seen.layer.beta, shifted)]


def _of_bias(layer: Any, error: tf.Tensor) -> list[_Part]:
    return [_of_each(layer.bias, tf.reduce_sum(_places(error), axis=1))] if layer.use_bias else []


def _of_each(variable: tf.Variable, each: tf.Tensor) -> _Part:
    """Of the examples' gradients (batch, …) themselves."""
    flat = tf.reshape(each, [tf.shape(each)[0], variable.shape.num_elements()])
    return _Part(
        variable, tf.reduce_sum(flat**2, axis=1), lambda factors: tf.linalg.matvec(flat, factors, transpose_a=True)
    )


def _of_products(variable: tf.Variable, given: tf.Tensor, error: tf.Tensor) -> _Part:
    """Of gᵢ = aᵢᵀ eᵢ with a (batch, places, d) and e (batch, places, m)."""
    if given.shape[1] == 1:  # ‖a eᵀ‖ = ‖a‖ ‖e‖
        squares = tf.reduce_sum(given**2, axis=[1, 2]) * tf.reduce_sum(error**2, axis=[1, 2])
    elif given.shape[1] is not None and given.shape[1] ** 2 <= variable.shape.num_elements():
        # ‖aᵀe‖² = Σ over pairs of places of (a aᵀ) (e eᵀ): no gradient is made
        squares = tf.reduce_sum(
            tf.matmul(given, given, transpose_b=True) * tf.matmul(error, error, transpose_b=True), axis=[1, 2]
        )
    else:
        squares = tf.reduce_sum(tf.matmul(given, error, transpose_a=True) ** 2, axis=[1, 2])

    def weighted(factors: tf.Tensor) -> tf.Tensor:
        errors = error * factors[:, tf.newaxis, tf.newaxis]
        flat = tf.reshape(given, [-1, given.shape[-1]]), tf.reshape(errors, [-1, errors.shape[-1]])
        return tf.matmul(*flat, transpose_a=True)

    return _Part(variable, squares, weighted)


def _places(values: tf.Tensor) -> tf.Tensor:
    """(batch, …, d) as (batch, places, d)."""
    places = values.shape[1:-1].num_elements()
    return tf.reshape(values, [tf.shape(values)[0], -1 if places is None else places, values.shape[-1]])


def _patches(layer: Any, given: tf.Tensor) -> tf.Tensor:
    """(batch, places, kernel · channels): what each output of a convolution is made of."""
    if layer.kernel_size == (1, 1) and layer.strides == (1, 1):
        return _places(given)
    return _places(
        tf.image.extract_patches(
            given, [1, *layer.kernel_size, 1], [1, *layer.strides, 1], [1, *layer.dilation_rate, 1],
            layer.padding.upper(),
        )
    )  # fmt: skip
