"""Occlusion maps (Zeiler and Fergus 2014): how far a class's probability falls where a part of the image is covered.

Needs no gradient and looks at no layer, only at what the network answers: slow, and a check of what Grad-CAM says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

PATCHES = 6  # of the default size along a side


def heat_maps(
    model: tf.keras.Model,
    images: np.ndarray,
    class_indices: Sequence[int],
    *,
    patch: int = 0,
    stride: int = 0,
    batch: int = 32,
) -> np.ndarray:
    """How much each place of each image speaks for a class: float32 (n, height, width), not yet scaled.

    A place's value is the mean fall of the probability over all patches that cover it; where covering helps the class
    it is 0. A patch has the image's mean colour.

    Args:
      model: any classifier, image → probabilities.
      images: float32 (n, height, width, channels), as the model takes them.
      class_indices: the class of each image to be explained.
      patch: pixels on a side of what is covered; 0: a sixth of the image's shorter side.
      stride: pixels from one patch to the next; 0: half a patch.
      batch: covered images at a time.
    """
    height, width = images.shape[1:3]
    patch = patch or max(1, min(height, width) // PATCHES)
    stride = stride or max(1, patch // 2)
    corners = [(top, left) for top in _starts(height, patch, stride) for left in _starts(width, patch, stride)]
    predict = tf.function(lambda covered: model(covered, training=False), reduce_retracing=True)
    maps = np.zeros(images.shape[:3], np.float32)
    for image, index, total in zip(images, class_indices, maps):
        plain = float(predict(tf.constant(image[None], tf.float32))[0, index])
        times = np.zeros_like(total)
        for start in range(0, len(corners), batch):
            places = corners[start : start + batch]
            covered = np.repeat(image[None].astype(np.float32), len(places), axis=0)
            for each, (top, left) in zip(covered, places):
                each[top : top + patch, left : left + patch] = image.mean(axis=(0, 1))
            falls = plain - predict(tf.constant(covered)).numpy()[:, index]
            for fall, (top, left) in zip(falls, places):
                total[top : top + patch, left : left + patch] += fall
                times[top : top + patch, left : left + patch] += 1
        np.divide(total, times, out=total)
    return np.maximum(maps, 0)


def _starts(length: int, patch: int, stride: int) -> list[int]:
    """Where patches begin: every `stride` pixels, and one that ends with the image."""
    last = max(0, length - patch)
    return sorted({*range(0, last + 1, stride), last})
