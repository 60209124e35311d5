"""A small stand-in in the general layout: noisy gratings, `<client>/<split>/<class>/*.png`.

A class is a direction and a band of frequencies; the bands of neighbours overlap. The phase is random, so the
mean image of every class is flat and a linear model on pixels learns next to nothing, while a small
convolutional network does well. A client has its own tint, brightness and noise.
"""

import math
from pathlib import Path

import cv2
import numpy as np

from tffapps.data.standin import Item, write
from tffapps.errors import UserError

_DIRECTION_SPREAD = 0.2  # of the distance between two classes
_PERIODS = (3.0, 7.0)  # pixels for one wave: the finest class and the coarsest
_PERIOD_SPREAD = 0.25  # relative


def write_textures(
    folder: Path,
    *,
    clients: int = 3,
    per_class: int = 40,
    size: int = 64,
    classes: int = 3,
    seed: int = 0,
    progress: bool = True,
) -> Path:
    """Draws `per_class` images of each class for each client, 70 % train, 10 % val, 20 % test."""
    for name, value, least in (
        ("clients", clients, 1),
        ("per_class", per_class, 3),
        ("size", size, 16),
        ("classes", classes, 2),
    ):
        if value < least:
            raise UserError(f"textures: {name} {value} is too small; give at least {least}")
    items = [
        Item(
            f"client_{client}/{split}/class_{label}/{number:04d}.png",
            {"client": client, "label": label, "classes": classes, "size": size, "seed": seed},
        )
        for client in range(clients)
        for label in range(classes)
        for number, split in enumerate(_splits(per_class))
    ]
    parameters = {"clients": clients, "per_class": per_class, "size": size, "classes": classes}
    return write(folder, items, _draw, seed, "textures", parameters=parameters, progress=progress)


def _splits(count: int) -> list[str]:
    val, test = max(1, round(0.1 * count)), max(1, round(0.2 * count))
    return ["train"] * (count - val - test) + ["val"] * val + ["test"] * test


def _draw(rng: np.random.Generator, item: Item) -> np.ndarray:
    size, label, classes = (item.fields[name] for name in ("size", "label", "classes"))
    tint, brightness, noise = _look(item.fields["seed"], item.fields["client"])
    angle = math.pi / classes * (label + rng.normal(0, _DIRECTION_SPREAD))
    fine, coarse = _PERIODS
    period = fine * (coarse / fine) ** (label / (classes - 1)) * (1 + _PERIOD_SPREAD * rng.uniform(-1, 1))
    y, x = np.mgrid[:size, :size]
    wave = np.sin(2 * math.pi * (x * math.cos(angle) + y * math.sin(angle)) / period + rng.uniform(0, 2 * math.pi))
    wave = cv2.GaussianBlur(wave, (0, 0), rng.uniform(0.3, 0.8))
    grey = brightness + rng.uniform(0.12, 0.3) * wave + rng.normal(0, noise, (size, size))
    return (255 * np.clip(grey[..., None] * tint, 0, 1)).round().astype(np.uint8)


def _look(seed: int, client: int) -> tuple[np.ndarray, float, float]:
    """A client's tint, brightness and noise."""
    rng = np.random.default_rng([seed, client, 1])  # three numbers: never the same as an item's two
    return rng.uniform(0.75, 1.0, 3), rng.uniform(0.35, 0.65), rng.uniform(0.05, 0.12)
