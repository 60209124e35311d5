"""What the commands about style read: a folder of images, and VGG-19."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from preprocessing import command
from preprocessing.errors import Rejected, UserError
from preprocessing.files import SUFFIXES, is_named_image, read_image
from preprocessing.progress import track
from preprocessing.style_settings import LAYERS, MIN_SIDE

if TYPE_CHECKING:
    import numpy as np

WIDTH = 64  # of VGG-19
SIZE = 224


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weights", default="random", metavar="random|imagenet|FILE", help="of VGG-19 (default random)"
    )
    parser.add_argument("--width", type=command.positive, default=WIDTH, help="of VGG-19 (default %(default)s)")
    parser.add_argument("--size", type=command.positive, default=SIZE, help="images' side, in pixels (default 224)")


def open_vgg(options: argparse.Namespace) -> tuple[Any, Any]:
    """The network as far as the last layer, and the `WeightsUsed`."""
    from models import vgg
    from models.weights import WeightsError

    if options.size < MIN_SIDE:
        raise UserError(f"--size {options.size}: images need at least {MIN_SIDE} pixels a side")
    model = vgg.build(LAYERS[-1], options.width)
    try:
        return model, vgg.load(model, options.weights)
    except WeightsError as error:
        raise UserError(str(error)) from None


def list_images(folder: Path) -> list[Path]:
    """The images in a folder itself, sorted."""
    try:
        files = sorted(path for path in folder.iterdir() if is_named_image(path))
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; give a folder that holds images") from None
    if not files:
        raise UserError(f"{folder}: no images in it; looked for {' '.join(SUFFIXES)}")
    return files


def read_images(files: list[Path], size: int, name: str) -> tuple[list[Path], np.ndarray | None]:
    """Those that can be read, as uint8 RGB (n, size, size, 3); None where there are none. Others get a line each."""
    import numpy as np

    found = []
    for file in track(files, len(files), f"{name}: read"):
        try:
            found.append((file, _decode(file, size)))
        except Rejected as rejected:
            print(f"preprocessing.{name}: left out: {file}: {rejected}", file=sys.stderr)
    return [file for file, _ in found], np.stack([image for _, image in found]) if found else None


def _decode(file: Path, size: int) -> np.ndarray:
    import cv2

    from preprocessing import image_bytes

    image = image_bytes.decode(read_image(file), cv2.IMREAD_COLOR)
    smaller = size < min(image.shape[:2])
    image = cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_CUBIC)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
