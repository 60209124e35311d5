"""A training of pix2pix in a folder: what it leaves there, and how it goes on after it was stopped.

    checkpoint.npz          the last one: all that changes in training, and the fingerprint of pairs and settings
    losses.csv              epoch and `Losses`, a row for each epoch
    samples/epoch-0005.png  label, real and made image side by side, for the same few pairs each time

No random state is stored: it is a function of the seed and the epoch. More epochs than before continue a training.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import cv2
import numpy as np

from preprocessing.errors import UserError
from preprocessing.files import write
from preprocessing.npz import DAMAGE
from preprocessing.pix2pix import Losses, Pix2PixSettings, Training, generate
from preprocessing.whole_files import replacing

CHECKPOINT, TABLE, SAMPLES = "checkpoint.npz", "losses.csv", "samples"
_ROWS = 4  # of a sheet
_GAP = 4  # pixels between its pictures


def train_in(
    folder: Path,
    images: np.ndarray,
    labels: np.ndarray,
    settings: Pix2PixSettings,
    *,
    fresh: bool = False,
    show: bool = True,
    title: str = "",
) -> Training:
    """Trains to the end of `settings.epochs`, from the folder's checkpoint if there is one."""
    training = Training(images, labels, settings)
    checkpoint = folder / CHECKPOINT
    if checkpoint.exists() and not fresh:
        _restore(training, checkpoint)
        if training.epoch > settings.epochs:
            raise UserError(
                f"{checkpoint}: {training.epoch} epochs are done, --epochs is {settings.epochs}; choose another OUT"
            )
    own = training.fingerprint()

    def after_epoch(training: Training) -> None:
        if training.epoch % settings.every == 0 or training.epoch == settings.epochs:
            _save(training, checkpoint, own)
            write(folder / SAMPLES / f"epoch-{training.epoch:04}.png", _png(sheet(training)))
            write(folder / TABLE, _table(training).encode())

    training.run(after_epoch, show, title)
    return training


def sheet(training: Training) -> np.ndarray:
    """uint8 RGB (height, width, 3): label | real | made, for pairs evenly chosen among all."""
    count = min(_ROWS, len(training.images))
    rows = np.linspace(0, len(training.images) - 1, count).astype(int)
    made = generate(training.generator, training.labels[rows])
    columns = training.labels[rows][..., None] * np.uint8(255), training.images[rows], made
    framed = [
        np.pad(np.broadcast_to(part, (*part.shape[:3], 3)), [(0, 0), (0, _GAP), (0, _GAP), (0, 0)], constant_values=255)
        for part in columns
    ]
    return np.concatenate([np.concatenate(pictures, axis=1) for pictures in zip(*framed)])[:-_GAP, :-_GAP]


def _save(training: Training, path: Path, fingerprint: str) -> None:
    with replacing(path, "wb") as file:  # not by way of memory: optimisers make it three times the networks
        np.savez(file, *training.state(), fingerprint=np.array(fingerprint))


def _restore(training: Training, path: Path) -> None:
    try:
        with np.load(path, allow_pickle=False) as file:
            if str(file["fingerprint"]) != training.fingerprint():
                raise UserError(f"{path}: of other images, labels or settings; choose another OUT, or use --fresh")
            training.restore([file[f"arr_{index}"] for index in range(len(file.files) - 1)])
    except DAMAGE:
        raise UserError(f"{path}: damaged, or not a checkpoint; remove it, or use --fresh, to start over") from None


def _table(training: Training) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["epoch", *Losses._fields])
    for number, row in enumerate(training.record, 1):
        writer.writerow([number, *(f"{value:.6g}" for value in row)])
    return text.getvalue()


def _png(image: np.ndarray) -> bytes:
    return cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes()
