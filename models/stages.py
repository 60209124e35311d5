"""Where the stages of a classifier end, and the classifier cut there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from models.graph import output_of, tensors
from models.names import OWN

_DENSE_BLOCKS = {"densenet121": (6, 12, 24, 16), "densenet169": (6, 12, 32, 32), "densenet201": (6, 12, 48, 32)}

# name → the layer that each stage ends with: dense blocks, and elsewhere all that has one resolution
STAGES: dict[str, tuple[str, ...]] = {
    "mobilenetv2": ("expanded_conv_project_BN", "block_2_add", "block_5_add", "block_12_add", "out_relu"),
    **{
        name: tuple(f"conv{stage}_block{count}_concat" for stage, count in enumerate(counts, start=2))
        for name, counts in _DENSE_BLOCKS.items()
    },
    "resnet18": tuple(f"stage{stage}_block2_relu" for stage in range(1, 5)),
    "tiny": tuple(f"block{block}_pool" for block in range(1, 4)),
}


def stages_of(model: tf.keras.Model) -> tuple[str, ...]:
    """The layers that the model's stages end with; of what stands on stored feature maps, its input layer first."""
    known = [name for name in STAGES if model.name == name or model.name.startswith(f"{name}_")]
    there = {layer.name for layer in model.layers}
    ends = tuple(stage for name in known[:1] for stage in STAGES[name] if stage in there)
    whole = bool(known) or model.name.startswith(OWN)
    on_maps = "_above_" in model.name or not whole  # `models.cut.split` calls it so
    if on_maps and len(model.inputs) == 1 and model.inputs[0].shape.rank == 4:
        return (*model.input_names, *ends)
    ends = ends or _by_resolution(model)
    if not ends:
        raise ValueError(f"model {model.name}: it has no feature map that all of it goes through, so it has no stages")
    return ends


def _by_resolution(model: tf.keras.Model) -> tuple[str, ...]:
    """Of any other network: the last layer of each resolution that nothing goes round."""
    ends: dict[Any, str] = {}
    for tensor in reversed(tensors(model)):
        if tensor.shape.rank == 4 and tensor.shape[1:3] not in ends and _is_passed_by_all(model, tensor):
            ends[tensor.shape[1:3]] = tensor.node.layer.name
    return tuple(reversed(ends.values()))


def _is_passed_by_all(model: tf.keras.Model, tensor: Any) -> bool:
    try:
        return bool(tensors(model, tensor))
    except ValueError:
        return False


def outputs(model: tf.keras.Model, names: Sequence[str]) -> list[Any]:
    """The Keras tensors that the named layers end in."""
    # By hand for an input: Sequential models do not list it among their layers.
    return [model.input if name in model.input_names else output_of(model, name) for name in names]


def segments(model: tf.keras.Model, names: Sequence[str]) -> list[tf.keras.Model]:
    """The model as a chain of models that share its layers: up to each named layer in turn, and on to the outputs."""
    ends = outputs(model, names)
    return [tf.keras.Model(start, end) for start, end in zip([model.input, *ends], [*ends, model.output])]
