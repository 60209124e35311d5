"""A small bundle, made without training: a network of 16×16 pixels with a frozen base, and images of three colours."""

from __future__ import annotations

import json
import pathlib

import cv2
import numpy as np
import pytest

from tffapps.use import folder as folders

CLASSES = ("blue", "green", "red")
SIDE = 16


def draw(path: pathlib.Path, colour: int, seed: int) -> str:
    """A noisy image of one colour (of OpenCV's blue, green, red)."""
    noise = np.random.default_rng(seed).integers(0, 60, (SIDE, SIDE, 3))
    noise[..., colour] += 150
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), noise.astype(np.uint8))
    return str(path)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("pictures")
    return [draw(folder / f"{number:02d}.png", number % 3, number) for number in range(48)]


@pytest.fixture(scope="session")
def recipe(pictures):
    from tffapps.data import images
    from tffapps.use.bundle import Preprocess
    from tffapps.use.network import CLASSIFIER, Description
    from tffapps.use.recipe import Halves, Looks, Recipe

    values = {"model": "tiny", "head": "conv", "cut": "block1_pool", "norm": "group"}
    network = Description(CLASSIFIER, values, (SIDE, SIDE, 3), len(CLASSES))
    parts = network.build()

    def batch(weights, paths):
        parts.trained.set_weights(weights)
        return np.stack([images.load(path, (SIDE, SIDE), 3) for path in paths])

    return Recipe(
        network, CLASSES, Preprocess((SIDE, SIDE), 3),
        lambda weights: Halves(parts.base.get_weights(), list(weights)), "drawn", "random, frozen up to block1_pool",
        Looks(
            lambda weights, paths: parts.located()(batch(weights, paths))[0].numpy(),
            lambda weights, paths: parts.whole(batch(weights, paths)).numpy(),
            pictures[:24], pictures[24:], [number % 3 for number in range(24)],
        ),
    ), parts  # fmt: skip


@pytest.fixture(scope="session")
def kept_bundle(recipe, tmp_path_factory) -> pathlib.Path:
    """Not to be changed."""
    from tffapps.use import write
    from tffapps.use.decision import Decision

    how, parts = recipe
    last = parts.trained.get_weights()
    rows = [
        {"client": client, "metric": "accuracy", "images": 9, "subjects": 9, "score": score, "low": 0.1, "high": 0.9}
        for client, score in (("all", 0.5), ("north", 0.7), ("south <b>|x", 0.3))
    ]
    calibration = {"error": 0.2, "error_calibrated": 0.1, "brier": 0.5, "brier_calibrated": 0.4, "sure": 0.5}
    scores = {"rows": rows, "calibration": {**calibration, "images": 9, "right_of_sure": 0.8}}
    return write.write(
        tmp_path_factory.mktemp("runs") / "one",
        how,
        {"last": last, "chosen": [value * 1.5 for value in last]},
        system="classify",
        decisions={"last": Decision(), "chosen": Decision(2.0, 0.4, 24)},
        scores={"last": scores, "chosen": scores},
        provenance={
            "data": "drawn", "fingerprints": {"images": "abc"}, "labels": {"method": "fedavg", "seed": 0},
            "initial": {"label": "imagenet, base frozen"}, "settings": {"Aggregation": {"aggregator": "mean"}},
            "versions": {"tffapps": "0.2.0"}, "rounds": 3, "epsilon": None,
            "clients": [{"client": "north", "rounds": 3, "examples": 12}],
        },
    )  # fmt: skip


@pytest.fixture
def bundle_folder(kept_bundle, tmp_path) -> pathlib.Path:
    """A copy to be changed."""
    copy = tmp_path / "bundle"
    copy.mkdir()
    for file in kept_bundle.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def change_json(folder: pathlib.Path, change) -> None:
    """Changes what a bundle says, and its hashes with it, as somebody who means harm would."""
    about = json.loads((folder / "bundle.json").read_text())
    change(about)
    (folder / "bundle.json").write_text(json.dumps(about))
    folders.write_sums(folder)
