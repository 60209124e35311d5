"""The names and shapes of a generator's weights, known without building it: what a received file must hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from models.pix2pix import HD_BLOCKS, HD_LEVELS, UNET_LEVELS, Architecture


class Weight(NamedTuple):
    shape: tuple[int, ...]
    output_axis: int | None  # of a kernel: the axis of the filters; None for biases, scales and shifts


class _Layer(NamedTuple):
    name: str
    kernel: int
    inputs: int
    outputs: int
    norm: bool = True
    up: bool = False  # a transposed convolution: its kernel has outputs before inputs


def weights_of(architecture: Architecture) -> dict[str, Weight]:
    """By name, such as "down0.kernel", in the order of the model's weights."""
    found = {}
    for layer in (_unet if architecture.name == "unet" else _hd)(architecture):
        channels = (layer.outputs, layer.inputs) if layer.up else (layer.inputs, layer.outputs)
        found[f"{layer.name}.kernel"] = Weight((layer.kernel, layer.kernel, *channels), 2 if layer.up else 3)
        for name in (f"{layer.name}_norm.gamma", f"{layer.name}_norm.beta") if layer.norm else (f"{layer.name}.bias",):
            found[name] = Weight((layer.outputs,), None)
    return found


def name_of(variable: tf.Variable) -> str:
    return variable.name.split(":")[0].replace("/", ".")


def _unet(architecture: Architecture) -> Iterator[_Layer]:
    filters, deepest = [multiple * architecture.width for multiple in UNET_LEVELS], len(UNET_LEVELS) - 1
    for level, outputs in enumerate(filters):
        yield _Layer(f"down{level}", 4, filters[level - 1] if level else 1, outputs, 0 < level < deepest)
    for level in range(deepest, 0, -1):
        joined = 1 if level == deepest else 2  # what came up, and what lay beside it
        yield _Layer(f"up{level}", 4, joined * filters[level], filters[level - 1], up=True)
    yield _Layer("up0", 4, 2 * filters[0], architecture.channels, norm=False, up=True)


def _hd(architecture: Architecture) -> Iterator[_Layer]:
    filters = [multiple * architecture.width for multiple in HD_LEVELS]
    yield _Layer("first", 7, 1, filters[0])
    for level in range(1, len(filters)):
        yield _Layer(f"down{level}", 3, filters[level - 1], filters[level])
    for block in range(HD_BLOCKS):
        for number in (1, 2):
            yield _Layer(f"block{block}_{number}", 3, filters[-1], filters[-1])
    for level in range(len(filters) - 1, 0, -1):
        yield _Layer(f"up{level}", 3, filters[level], filters[level - 1], up=True)
    yield _Layer("last", 7, filters[0], architecture.channels, norm=False)
