"""One micrograph: read, given to the network tile by tile, and drawn with the grains that were found in it."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from preprocessing import files
from tffapps.data import made
from tffapps.evaluation.grain_size import whole_grains
from tffapps.use import tiling

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # as `data.images` makes grey of colour when a network is trained
_LINE = (255, 80, 0)  # of the overlay, RGB
_DIMMED = 0.55  # brightness of what the rim cuts
_MOST_16_BIT = 2**16 - 1
_LARGE = 1500  # pixels: shrunk to a screen, lines of one pixel would be lost


def read(path: Path) -> np.ndarray:
    """A micrograph's pixels: uint8 (height, width, 3). Raises `Rejected`."""
    return made.decode(files.read_image(path))


def network(model: Any, channels: int, boundary: int) -> tiling.Predict:
    """A Keras network as `tiling` wants it: uint8 RGB tiles to how likely each pixel is of the class `boundary`."""
    import tensorflow as tf

    @tf.function(autograph=False, reduce_retracing=True)
    def boundaries(images: tf.Tensor) -> tf.Tensor:
        return model(images, training=False)[..., boundary : boundary + 1]

    def predict(tiles: np.ndarray) -> np.ndarray:
        images = tiles.astype(np.float32) / np.float32(255)
        return boundaries(tf.constant(images if channels == 3 else images @ _LUMA[:, None])).numpy()

    return predict


def boundary_map(image: np.ndarray, predict: tiling.Predict, tile: tuple[int, int], scale: float = 1.0) -> np.ndarray:
    """How likely each pixel is on a boundary: float32 (height, width).

    Args:
      image: uint8 (height, width, 3).
      predict: the network.
      tile: what it takes.
      scale: the picture is brought to this part of its size for the network, and its answer back.
    """
    high, wide = image.shape[:2]
    if scale != 1:
        size = max(round(wide * scale), 1), max(round(high * scale), 1)
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    found = tiling.predicted(image, predict, tile)[..., 0]
    return found if scale == 1 else cv2.resize(found, (wide, high), interpolation=cv2.INTER_LINEAR)


def overlay(image: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The micrograph with the lines between its grains; grains that the rim cuts are dimmed, as they have no size."""
    inside = (labels == 0) | (whole_grains(labels) != 0)
    lines = labels == 0
    if min(labels.shape) >= _LARGE:
        lines = cv2.dilate(lines.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    drawn = np.where(inside[..., None], image, (image * _DIMMED).astype(np.uint8))
    drawn[lines] = _LINE
    return drawn


def write(base: Path, image: np.ndarray, labels: np.ndarray) -> None:
    """Writes `<base>_boundary.png`, `_overlay.png` `_grains.png` of 16 bits, or `.tif` of 32 if those are too few."""
    few = labels.max() <= _MOST_16_BIT
    pictures = {
        "boundary.png": np.where(labels == 0, 255, 0).astype(np.uint8),
        "overlay.png": overlay(image, labels)[..., ::-1],
        "grains.png" if few else "grains.tif": labels.astype(np.uint16 if few else np.int32),
    }
    for end, picture in pictures.items():
        files.write(base.with_name(f"{base.name}_{end}"), _encoded(picture, end))


def _encoded(picture: np.ndarray, name: str) -> bytes:
    done, contents = cv2.imencode(Path(name).suffix, picture)
    if not done:
        raise ValueError(f"picture {picture.dtype} {picture.shape}: OpenCV cannot write it as {name}")
    return contents.tobytes()
