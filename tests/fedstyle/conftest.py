"""A small bundle, made without training, and pictures of artists who differ in colour."""

from __future__ import annotations

import pathlib

import cv2
import numpy as np
import pytest

SIDE = 32
COLOURS = {"Ada": (200, 40, 40), "Bo": (40, 200, 40), "Cy": (40, 40, 200), "Dee": (200, 200, 30), "Eve": (30, 190, 190)}


def paint(path: pathlib.Path, artist: str, seed: int) -> pathlib.Path:
    rng = np.random.default_rng([seed, len(artist)])
    image = np.clip(np.array(COLOURS[artist]) + rng.integers(-40, 40, (48, 40, 3)), 0, 255)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), image.astype(np.uint8))
    return path


@pytest.fixture(scope="session")
def bundle(tmp_path_factory) -> pathlib.Path:
    from tffapps.use import write
    from tffapps.use.bundle import Preprocess
    from tffapps.use.decision import Decision
    from tffapps.use.network import CLASSIFIER, Description
    from tffapps.use.recipe import Halves, Recipe

    values = {"model": "tiny", "head": "conv", "cut": "block1_pool", "norm": "group"}
    network = Description(CLASSIFIER, values, (SIDE, SIDE, 3), 2)
    parts = network.build()
    recipe = Recipe(
        network, ("one", "two"), Preprocess((SIDE, SIDE), 3),
        lambda weights: Halves(parts.base.get_weights(), list(weights)), "drawn", "random",
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("platform")
    weights = {"last": parts.trained.get_weights()}
    return write.write(
        folder, recipe, weights, system="fedstyle", decisions={"last": Decision()}, scores={}, provenance={}
    )


@pytest.fixture(scope="session")
def paintings(tmp_path_factory) -> pathlib.Path:
    """gallery/<artist> and queries/<artist>."""
    folder = tmp_path_factory.mktemp("paintings")
    for artist in COLOURS:
        for number in range(6):
            paint(folder / "gallery" / artist / f"{number}.png", artist, number)
            paint(folder / "queries" / artist / f"{number}.png", artist, 100 + number)
    return folder
