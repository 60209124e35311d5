"""A network of the user's own: `package.module:function`, a function (input_shape, classes) → Keras model.

The model is functional (or sequential with an input), takes images in [0,1] and gives probabilities. It is checked
against all that a federation needs of it before it is used; dropout is replaced by one that a run can repeat. The
function may have an attribute `stages`, the names of layers at which the network may be cut.

Its code is run: a name must come from the user's own command line, never from a file.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from models.dropout import ImageDropout, SeedOfImages, in_place_of
from models.flattened import is_functional, written_out
from models.initialise import seed_weights
from models.names import ALL, OWN

_LONGEST = 160  # characters of what another's code says
# What may have a state in a training step: variables, and what only calls or orders other things.
_HARMLESS = {"Assert", "If", "StatefulPartitionedCall", "While"}


def function_of(name: str) -> Callable[..., Any]:
    """The function that a name means. Raises `ValueError`, as everything here does."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # something that it imports
            raise ValueError(f"{name}: {module} cannot be imported ({_said(error)})") from error
        raise ValueError(f"{name}: no module {error.name} is found; set PYTHONPATH to its folder") from None
    except Exception as error:
        raise ValueError(f"{name}: {module} cannot be imported ({_said(error)})") from error
    if not inspect.isfunction(found):
        raise ValueError(f"{name}: {module} has no function {attribute}")
    return found


def identity(name: str) -> str:
    """The SHA-256 of the file that the function is in: what tells versions of a network apart in a run's key."""
    file = inspect.getsourcefile(function_of(name))
    if file is None:
        raise ValueError(f"{name}: its source file is not found; put the function into a file of its own")
    return hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()


def stages_of(name: str) -> tuple[str, ...]:
    """Where the network may be cut beside "all", from the first place to the last."""
    stages = getattr(function_of(name), "stages", ())
    if not isinstance(stages, (tuple, list)) or not all(isinstance(stage, str) for stage in stages):
        raise ValueError(f"{name}: its stages must be a tuple of layers' names")
    return tuple(stages)


def build(name: str, *, input_shape: Sequence[int], classes: int) -> tf.keras.Model:
    """The network as one flat graph, checked; its weights are of the seed 0."""
    shape = tuple(input_shape)
    function = function_of(name)
    try:
        model = function(shape, classes)
    except Exception as error:
        raise ValueError(f"{name}: it failed for input_shape={shape}, classes={classes} ({_said(error)})") from error
    for problem in _problems(model, shape, classes):
        raise ValueError(f"{name}: {problem}")
    model = _repeatable(model, f"{OWN}{function.__name__}")
    for problem in (*_state(model), *_answers(model, shape)):
        raise ValueError(f"{name}: {problem}")
    return model


def check_cut(model: tf.keras.Model, name: str, cut: str) -> None:
    """That a network of `build` has the layer to be cut at, and no dropout, whose masks follow from whole images."""
    names = {layer.name: layer for layer in model.layers}
    if cut != ALL and cut not in names:
        raise ValueError(f"{name}: it names the stage {cut}, and its model has no layer of that name")
    if cut != ALL and any(isinstance(layer, ImageDropout) for layer in names.values()):
        raise ValueError(f"{name}: with dropout it cannot be cut; leave its dropout out, or give --train-from {ALL}")


def _problems(model: Any, shape: tuple[int, ...], classes: int) -> Iterator[str]:
    """What is wrong with what the function returned."""
    if not isinstance(model, tf.keras.Model):
        yield f"it returns {_said(type(model).__name__)} and not a Keras model"
    elif not is_functional(model):
        yield "its model is not a functional one; make it of keras.Input and layers, tf.keras.Model(inputs, outputs)"
    elif len(model.inputs) != 1 or tuple(model.input_shape) != (None, *shape):
        yield f"its model takes {_shown(model.input_shape)} and not {_shown((None, *shape))}"
    elif len(model.outputs) != 1 or tuple(model.output_shape) != (None, classes):
        yield f"its model gives {_shown(model.output_shape)} and not {_shown((None, classes))}, one probability a class"
    elif not model.trainable_weights:
        yield "its model has nothing to train"


def _repeatable(model: tf.keras.Model, name: str) -> tf.keras.Model:
    """Flat, and with masks of dropout that follow from the images."""
    seed: list[Any] = []  # made once, where there is dropout
    made: dict[int, Any] = {}

    def instead(layer: tf.keras.layers.Layer, given: Any) -> Any:
        other = made.get(id(layer)) or in_place_of(layer, len(made))
        if other is None:
            return None
        made[id(layer)] = other
        if not seed:
            seed.append(SeedOfImages(name="seed_of_images")(model.input))
        return other([given, seed[0]])

    return tf.keras.Model(model.input, written_out(model, instead), name=name)


def _state(model: tf.keras.Model) -> Iterator[str]:
    """What a federation could not hand from round to round."""
    for layer in model.layers:
        if getattr(layer, "stateful", False):
            yield f"layer {layer.name} keeps a state from batch to batch; make it with stateful=False"
    for variable in model.weights:
        if variable.dtype != tf.float32:
            yield f"its variable {variable.name} is {variable.dtype.name}; a federation averages float32 alone"
    spec = tf.TensorSpec(model.input_shape, tf.float32)
    traced = tf.function(lambda images: model(images, training=True)).get_concrete_function(spec)
    known = {id(variable.handle) for variable in model.variables}
    if any(tensor.dtype == tf.resource and id(tensor) not in known for tensor in traced.captured_inputs):
        yield "it uses a variable or a table that is no layer's, which a federation cannot hand round"
    drawn = sorted({kind for kind in _stateful(traced.graph) if kind not in _HARMLESS and "Variable" not in kind})
    if drawn:
        yield (
            f"it draws random numbers or keeps a state ({', '.join(drawn)}), so that a resumed run would end in other "
            "numbers; leave such layers out (Dropout and SpatialDropout2D are taken care of, --augment changes images)"
        )


def _stateful(graph: Any) -> Iterator[str]:
    definition = graph.as_graph_def()
    for node in (*definition.node, *(node for function in definition.library.function for node in function.node_def)):
        kind = op_def_registry.get(node.op)
        if kind is not None and kind.is_stateful:  # None: a function, whose own nodes are in the library
            yield node.op


def _answers(model: tf.keras.Model, shape: tuple[int, ...]) -> Iterator[str]:
    """Initial weights must follow from a seed, and answers be probabilities."""
    try:
        seed_weights(model, 0)
    except TypeError as error:
        yield f"{error}; its initial values must follow from a seed"
        return
    outputs = model(np.random.default_rng(0).random((2, *shape), np.float32), training=False).numpy()
    if not np.isfinite(outputs).all():
        yield "its answer to an image of noise is not finite"
    elif outputs.min() < 0 or np.abs(outputs.sum(axis=-1) - 1).max() > 1e-3:
        yield f"its outputs are no probabilities (they add up to {outputs.sum(axis=-1)[0]:.4g}); end it in a softmax"


def _shown(shape: Any) -> str:
    return str(shape).replace("None", "batch")[:_LONGEST]


def _said(error: Any) -> str:
    """The first line of what another's code says, with its kind."""
    text = (str(error).splitlines() or [""])[0][:_LONGEST]
    return f"{type(error).__name__}: {text}" if isinstance(error, Exception) else text
