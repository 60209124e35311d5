"""Which of torchvision's tensors is which of our variables: ResNet-18, DenseNet-121, -169, -201 and VGG-19.

torchvision's own MobileNetV2 is refused. It is another network than Keras's, which is the one built here: it pads every
side of an image before a stride where Keras pads the right and the bottom, its BatchNorm has another epsilon (1e-5 and
not 1e-3), and its input is scaled otherwise. Its weights would fit in size, and give other features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from models.named_arrays import Shape, keras_shape, take
from models.stored import Stored, WeightsError

_BATCH_NORM = ("weight", "bias", "running_mean", "running_var")
_IGNORED = "num_batches_tracked"  # a counter beside every BatchNorm
_HEAD = "classifier"  # our name of the last layer
# Places among VGG-19's "features": of the first convolution of each block, and of all. Each is followed by its ReLU.
_VGG_BLOCKS = (0, 5, 10, 19, 28)
_VGG_CONVOLUTIONS = (0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34)
_VGG_HEAD = ("classifier.0", "classifier.3", "classifier.6")
# DenseNets of before 2018, which torchvision still distributes: denselayer1.norm.1.weight for denselayer1.norm1.weight
_OLD_DENSE = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)")
# our layer → torchvision's module; the first pattern that fits
_PATTERNS: dict[str, list[tuple[str, str]]] = {
    "resnet18": [
        (r"stem_conv", "conv1"),
        (r"stem_bn", "bn1"),
        (r"stage(\d)_block(\d)_shortcut_conv", "layer{0}.{1}.downsample.0"),
        (r"stage(\d)_block(\d)_shortcut_bn", "layer{0}.{1}.downsample.1"),
        (r"stage(\d)_block(\d)_(\d)_(conv|bn)", "layer{0}.{1}.{3}{2}"),
        (_HEAD, "fc"),
    ],
    "densenet": [
        (r"conv1/conv", "features.conv0"),
        (r"conv1/bn", "features.norm0"),
        (r"conv(\d)_block(\d+)_0_bn", "features.denseblock{0}.denselayer{1}.norm1"),
        (r"conv(\d)_block(\d+)_1_bn", "features.denseblock{0}.denselayer{1}.norm2"),
        (r"conv(\d)_block(\d+)_([12])_conv", "features.denseblock{0}.denselayer{1}.conv{2}"),
        (r"pool(\d)_bn", "features.transition{0}.norm"),
        (r"pool(\d)_conv", "features.transition{0}.conv"),
        (r"bn", "features.norm5"),
        (_HEAD, "classifier"),
    ],
}


def ordered(path: Path, state: Mapping[str, Stored], model: tf.keras.Model, *, torch_order: bool) -> list[np.ndarray]:
    """The tensors in the order of `model.weights`, as Keras has them; a last dense layer, if there is one, at the end.

    `torch_order` says how kernels lie in the file (`models.named_arrays`). Every tensor of the network must be there,
    and no other network's.
    """
    _check_known(path, model)
    renamed = {_OLD_DENSE.sub(r"\1\2", name): stored for name, stored in state.items()}
    tensors = {name: stored for name, stored in renamed.items() if not name.endswith(_IGNORED)}
    wanted = [*_backbone(model), *_head(path, tensors, model, torch_order)]
    return take(path, model.name, tensors, wanted, torch_order=torch_order, optional=set(_optional(model)))


def _check_known(path: Path, model: tf.keras.Model) -> None:
    if model.name == "mobilenetv2":
        raise WeightsError(
            f"{path}: torchvision's MobileNetV2 pads, scales and normalises otherwise than Keras's, the one built"
            " here, and would give other features; take --weights imagenet or Keras's .h5 file"
        )
    if model.name != "vgg19" and _family(model.name) not in _PATTERNS:
        raise WeightsError(
            f"{path}: not a list of weights but named arrays, which are not known for {model.name};"
            " expected its own .h5 or .npz"
        )


def _family(name: str) -> str:
    return "densenet" if name.startswith("densenet") else name


def _backbone(model: tf.keras.Model) -> Iterator[tuple[str, Shape]]:
    """(name, shape) of every tensor of the network without its head, in the order of the model's weights."""
    for layer in model.layers:
        if layer.name == "features":  # what follows is the head
            return
        variables = layer.weights
        parts = _BATCH_NORM if isinstance(layer, tf.keras.layers.BatchNormalization) else ("weight", "bias")
        for variable, part in zip(variables, parts):
            yield f"{_module(model.name, layer.name)}.{part}", tuple(variable.shape)


def _module(model: str, layer: str) -> str:
    if model == "vgg19":  # conv3_2: the second of the third block
        block, number = map(int, layer[len("conv") :].split("_"))
        return f"features.{_VGG_BLOCKS[block - 1] + 2 * (number - 1)}"
    for pattern, module in _PATTERNS[_family(model)]:
        if match := re.fullmatch(pattern, layer):
            groups = list(match.groups())
            if model == "resnet18" and len(groups) > 1:
                groups[1] = str(int(groups[1]) - 1)  # blocks are counted from 0 there
            elif groups:
                groups[0] = str(int(groups[0]) - 1)  # our conv2 is the first dense block
            return module.format(*groups)
    raise KeyError(layer)


def _head(
    path: Path, tensors: Mapping[str, Stored], model: tf.keras.Model, torch_order: bool
) -> Iterator[tuple[str, Shape]]:
    """(name, shape) of the last dense layer's tensors if the file has them, of any number of classes."""
    if model.name == "vgg19":
        return
    for part, rank in (("weight", 2), ("bias", 1)):
        key = f"{_module(model.name, _HEAD)}.{part}"
        if key in tensors:
            if len(tensors[key].shape) != rank:
                raise WeightsError(f"{path}: not the weights of {model.name}; {key} is no dense layer's")
            yield key, keras_shape(tensors[key].shape, torch_order)


def _optional(model: tf.keras.Model) -> Iterator[str]:
    """Tensors that a whole network has and this model may lack."""
    if model.name == "vgg19":  # it may have been built up to an earlier layer
        modules: tuple[str, ...] = (*(f"features.{place}" for place in _VGG_CONVOLUTIONS), *_VGG_HEAD)
    else:
        modules = (_module(model.name, _HEAD),)
    for module in modules:
        yield f"{module}.weight"
        yield f"{module}.bias"
