"""Heat maps of what a classifier's answers rest on, by either method, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tffapps.use import EXPLANATIONS

if TYPE_CHECKING:
    import tensorflow as tf


def explain(model: tf.keras.Model, images: np.ndarray, class_indices: Sequence[int], method: str) -> np.ndarray:
    """Where in each image the evidence for a class is: float32 (n, height, width) in [0,1], 1 at each image's peak.

    An image in which nothing speaks for the class has zeros everywhere.

    Args:
      model: a functional classifier, image → probabilities.
      images: float32 (n, height, width, channels), as the model takes them.
      class_indices: the class of each image to be explained.
      method: one of EXPLANATIONS.
    """
    if method not in EXPLANATIONS:
        raise ValueError(f"explanation {method}: unknown; choose one of {', '.join(EXPLANATIONS)}")
    if len(model.output_shape) != 2:
        raise ValueError(f"model {model.name}: its output {model.output_shape} is not one probability a class")
    if len(class_indices) != len(images):
        raise ValueError(f"{len(class_indices)} classes for {len(images)} images")
    classes = int(model.output_shape[-1])
    if any(not 0 <= index < classes for index in class_indices):
        raise ValueError(f"class indices {min(class_indices)} … {max(class_indices)}: the model has {classes} classes")
    from tffapps.use import gradcam, occlusion

    maps = (gradcam if method == "gradcam" else occlusion).heat_maps(model, images, class_indices)
    peaks = maps.max(axis=(1, 2), keepdims=True, initial=0)
    return np.divide(maps, peaks, out=np.zeros_like(maps), where=peaks > 0)
