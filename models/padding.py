"""Images of any size for networks that halve them several times: made larger first, cut back at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

layers = tf.keras.layers


def padded(x: Any, multiple: int) -> Any:
    """(n, height, width, c) with both sides a multiple of this number: mirrored at the right and at the bottom."""
    return MirrorTo(multiple, name="pad")(x) if any(side % multiple for side in x.shape[1:3]) else x


def cropped(x: Any, height: int, width: int) -> Any:
    """What `padded` had added is gone again."""
    more = x.shape[1] - height, x.shape[2] - width
    return layers.Cropping2D(((0, more[0]), (0, more[1])), name="crop")(x) if any(more) else x


class MirrorTo(tf.keras.layers.Layer):
    """Looks pixels up one by one: `tf.pad` mirrors an image only once, which is too little for tiny ones."""

    def __init__(self, multiple: int, **options: Any) -> None:
        super().__init__(**options)
        self.multiple = multiple

    def call(self, x: tf.Tensor) -> tf.Tensor:
        for axis in (1, 2):
            side = x.shape[axis]
            if side % self.multiple:
                x = tf.gather(x, np.pad(np.arange(side), (0, -side % self.multiple), mode="reflect"), axis=axis)
        return x
