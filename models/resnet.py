"""ResNet-18 for images of any size (He et al., Deep Residual Learning for Image Recognition, Table 1)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

layers = tf.keras.layers

STAGE_FILTERS = (64, 128, 256, 512)
BLOCKS_PER_STAGE = 2


def resnet18_features(x: Any) -> Any:
    """Image → feature map of 512 channels at 1/32 of the size."""
    x = _conv_bn(x, 64, size=7, stride=2, name="stem")
    x = layers.ReLU(name="stem_relu")(x)
    x = layers.ZeroPadding2D(1, name="stem_pool_pad")(x)  # zeros never win: the values are behind a ReLU
    x = layers.MaxPooling2D(3, strides=2, name="stem_pool")(x)
    for stage, filters in enumerate(STAGE_FILTERS, start=1):
        for block in range(1, BLOCKS_PER_STAGE + 1):
            stride = 2 if stage > 1 and block == 1 else 1
            x = _basic_block(x, filters, stride, name=f"stage{stage}_block{block}")
    return x


def _basic_block(x: Any, filters: int, stride: int, name: str) -> Any:
    shortcut = x
    if stride != 1 or x.shape[-1] != filters:
        shortcut = _conv_bn(x, filters, size=1, stride=stride, name=f"{name}_shortcut")
    x = _conv_bn(x, filters, size=3, stride=stride, name=f"{name}_1")
    x = layers.ReLU(name=f"{name}_1_relu")(x)
    x = _conv_bn(x, filters, size=3, stride=1, name=f"{name}_2")
    x = layers.Add(name=f"{name}_add")([x, shortcut])
    return layers.ReLU(name=f"{name}_relu")(x)


def _conv_bn(x: Any, filters: int, size: int, stride: int, name: str) -> Any:
    padding = "same"
    if stride > 1:
        # "same" would pad the right and bottom only; the original pads all four sides.
        padding = "valid"
        if size > 1:
            x = layers.ZeroPadding2D(size // 2, name=f"{name}_pad")(x)
    x = layers.Conv2D(
        filters,
        size,
        strides=stride,
        padding=padding,
        use_bias=False,
        kernel_initializer="he_normal",
        name=f"{name}_conv",
    )(x)
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=f"{name}_bn")(x)
