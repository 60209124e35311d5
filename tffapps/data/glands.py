"""A stand-in for Chaoyang: drawn colon glands of four classes in the layout that `chaoyang.read` reads.

    <folder>/train.json, <folder>/test.json      name, label_A, label_B, label_C
    <folder>/train/00000.png, <folder>/test/00000.png
    <folder>/truth.csv                           path, label (a class name) and source (0 to 3)

A source is a laboratory: its stains, its lamp and its focus. To train with, most of a class comes from one source,
so that clients rich in one class differ in style; to test with, every class comes from all sources alike, so that
who learns the colour instead of the structure is found out. The annotators err independently, in training images
only: a test that errs would measure the annotators.
"""

import dataclasses
import json
import os
from pathlib import Path

import cv2
import numpy as np
import pandas as pd

from tffapps.data import glands_drawing, tissue_drawing
from tffapps.data.chaoyang import ANNOTATORS, CLASSES, CODES
from tffapps.data.standin import Item, write
from tffapps.data.tissue import centre_stains
from tffapps.errors import UserError
from tffapps.files import replacing

SIZE = glands_drawing.SIZE
TRUTH = "truth.csv"
OWN = 0.85  # share of a class's training images from the source of its number
_SIDES = ("train", "test")
_FEWEST = {"train": 4, "test": 4, "size": 32}


@dataclasses.dataclass(frozen=True)
class Source:
    """A laboratory; its stains are those of the centre of its number in `tissue`."""

    light: float  # of the lamp: 1 is white
    uneven: float  # how much darker than the middle a corner may be, as a share
    blur: float  # pixels


SOURCES = (Source(0.99, 0.04, 0.3), Source(0.90, 0.12, 0.7), Source(0.95, 0.06, 0.0), Source(0.84, 0.10, 0.5))


def write_glands(
    folder: Path,
    *,
    train: int = 200,
    test: int = 80,
    size: int = SIZE,
    seed: int = 0,
    noise: float = 0.1,
    own: float = OWN,
    progress: bool = True,
) -> Path:
    """Draws that many patches of each class to train and to test with; returns the folder.

    `noise` is how often an annotator names another class than the true one; `own` is the share of a class's
    training images that come from its own source, a quarter if style and class are to be independent.
    """
    for name, value in (("train", train), ("test", test), ("size", size)):
        if value < _FEWEST[name]:
            raise UserError(f"glands: {name} {value} is too small; give at least {_FEWEST[name]}")
    if not 0 <= noise < 1:
        raise UserError(f"glands: noise {noise} is no error rate; give a share from 0 to below 1")
    if not 0 <= own <= 1:
        raise UserError(f"glands: own {own} is no share; give one from 0 to 1")
    counts = {"train": (train, round(own * train)), "test": (test, None)}
    truth = pd.concat([_plan(split, *counts[split], seed) for split in _SIDES], ignore_index=True)
    stains = [centre_stains(source, len(truth), seed) for source in range(len(SOURCES))]
    items = [
        Item(path, {"label": label, "source": source, "size": size, "stain": stains[source][row].ravel().tolist()})
        for row, (path, label, source) in enumerate(truth.itertuples(index=False))
    ]
    parameters = {"train": train, "test": test, "size": size, "noise": noise, "own": own}
    folder = write(folder, items, _draw, seed, "glands", parameters=parameters, progress=progress)
    for number, split in enumerate(_SIDES):
        side = truth[truth.path.str.startswith(split)]
        _write(folder / f"{split}.json", _entries(side, noise * (split == "train"), [seed, number, 4]))
    _write(folder / TRUTH, truth.to_csv(index=False))
    return folder


def true_labels(root: Path) -> pd.DataFrame:
    """The true label and the source of every image of a stand-in, by absolute path."""
    root = Path(os.path.abspath(root))
    if not (root / TRUTH).is_file():
        raise UserError(f"{root / TRUTH}: no such file; only drawn glands have known labels, see write_glands")
    table = pd.read_csv(root / TRUTH)
    table["path"] = [str(root / path) for path in table["path"]]
    return table.set_index("path")


def _plan(split: str, each: int, own: int | None, seed: int) -> pd.DataFrame:
    """path, label and source of one side's images in random order; without `own`, sources are shared out evenly."""
    rng = np.random.default_rng([seed, _SIDES.index(split), 3])  # three numbers: never an item's two
    labels, sources = [], []
    for number, label in enumerate(CLASSES):
        others = [source for source in range(len(SOURCES)) if own is None or source != number]
        dealt = rng.permutation(others)[np.arange(each - (own or 0)) % len(others)]
        labels += [label] * each
        sources += [number] * (own or 0) + dealt.tolist()
    order = rng.permutation(len(labels))
    paths = [f"{split}/{number:05d}.png" for number in range(len(labels))]
    return pd.DataFrame({"path": paths, "label": np.array(labels)[order], "source": np.array(sources)[order]})


def _entries(truth: pd.DataFrame, noise: float, seed: list[int]) -> str:
    """A JSON file's text: what each annotator says of every image."""
    rng = np.random.default_rng(seed)
    right = np.array([CLASSES.index(label) for label in truth.label])[:, None]
    wrong = rng.random((len(truth), len(ANNOTATORS))) < noise
    said = (right + wrong * rng.integers(1, len(CLASSES), wrong.shape)) % len(CLASSES)
    codes = np.array([CODES.index(label) for label in CLASSES])[said]
    entries = [{"name": name, **dict(zip(ANNOTATORS, row))} for name, row in zip(truth.path, codes.tolist())]
    return json.dumps(entries, indent=1) + "\n"


def _draw(rng: np.random.Generator, item: Item) -> np.ndarray:
    fields = item.fields
    amounts = glands_drawing.densities(rng, fields["label"], fields["size"])
    return develop(amounts, np.reshape(fields["stain"], (3, 2)), SOURCES[fields["source"]], rng)


def develop(amounts: np.ndarray, stain: np.ndarray, source: Source, rng: np.random.Generator) -> np.ndarray:
    """The patch as a source shows it, uint8 (size, size, 3); a weak lamp counts as a third, grey stain."""
    size = amounts.shape[-1]
    blur = source.blur * size / SIZE * rng.uniform(0.7, 1.3)
    if blur > 0:
        amounts = np.stack([cv2.GaussianBlur(amount, (0, 0), blur) for amount in amounts])
    across = np.linspace(-1, 1, size, dtype=np.float32)
    x, y = rng.uniform(-0.3, 0.3, 2)  # where the lamp is brightest
    far = (across - np.float32(x)) ** 2 + (across[:, None] - np.float32(y)) ** 2
    light = source.light * rng.normal(1, 0.01) * (1 - source.uneven * rng.uniform(0.3, 1) * far / 2)
    grey = -np.log(light).astype(np.float32)
    return tissue_drawing.expose(np.column_stack([stain, np.ones(3)]), np.concatenate([amounts, grey[None]]), rng)


def _write(file: Path, text: str) -> None:
    if not file.is_file() or file.read_text() != text:
        with replacing(file) as stream:
            stream.write(text)
