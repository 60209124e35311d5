"""A client's part before the federation, here or at its site: a generator of its own, and images painted by others'."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from models.pix2pix import Architecture
from preprocessing import generator_files, pix2pix
from preprocessing.errors import UserError as PreprocessingError
from preprocessing.pix2pix_folder import CHECKPOINT, train_in
from preprocessing.pix2pix_settings import Pix2PixSettings, settings_for
from tffapps.data import made
from tffapps.errors import UserError
from tffapps.fedtransfer import GeneratorFlags
from tffapps.fedtransfer.data import CACHE, images_of, masks_of
from tffapps.files import as_name
from tffapps.runs import key_of

FILE = "generator.npz"


class Painter:
    def __init__(self, flags: GeneratorFlags, channels: int, fresh: bool = False) -> None:
        self._flags, self._channels, self._fresh = flags, channels, fresh

    def architecture(self, size: tuple[int, int]) -> Architecture:
        return Architecture(self._flags.generator, size, self._flags.generator_width, self._channels)

    def trained(self, client: str, rows: pd.DataFrame, seed: int) -> pathlib.Path:
        """The folder in which a generator of these tiles, its losses and samples are; trained where it is not yet."""
        settings = self._settings(seed)
        pairs = [[pathlib.Path(path).name for path in rows[column]] for column in ("path", "mask")]
        known = {**dataclasses.asdict(settings), "pairs": pairs, "channels": self._channels}
        folder = CACHE / "generators" / f"{as_name(client)}-{key_of(known)}"
        if not (folder / FILE).exists():
            folder.mkdir(parents=True, exist_ok=True)
            try:
                pairs_read = images_of(rows, self._channels), masks_of(rows)
                training = train_in(folder, *pairs_read, settings, fresh=self._fresh, title=f"generator of {client}")
                generator_files.save(folder / FILE, training.generator)
            except generator_files.GeneratorRejected as rejected:
                raise UserError(f"{rejected}; lower --generator-learning-rate and run with --fresh") from None
            except PreprocessingError as error:
                raise UserError(str(error)) from None
            (folder / CHECKPOINT).unlink(missing_ok=True)  # three times the generator, and it is finished
        return folder

    def _settings(self, seed: int) -> Pix2PixSettings:
        flags = self._flags
        l1 = {"l1": flags.l1_weight} if flags.l1_weight >= 0 else {}
        return settings_for(
            flags.generator, width=flags.generator_width, epochs=flags.generator_epochs, batch=flags.generator_batch,
            learning_rate=flags.generator_learning_rate, seed=seed, **l1,
        )  # fmt: skip

    def paint(
        self, rows: pd.DataFrame, file: pathlib.Path, architecture: Architecture, precision: str, title: str
    ) -> list[str]:
        """An image in the sender's look for each of the labels; what is received is a stranger's, and checked."""
        try:
            generator = generator_files.load(file, architecture, precision)
        except generator_files.GeneratorRejected as rejected:
            raise UserError(str(rejected)) from None
        digest = hashlib.sha256(file.read_bytes()).hexdigest()

        def painted(masks: np.ndarray, places: Sequence[int]) -> np.ndarray:
            del places
            return in_colour(pix2pix.generate(generator, (masks[..., 0] > 127).astype(np.uint8)))

        return made.made_paths(
            list(rows["mask"]), [digest] * len(rows), painted, {"made": "fedtransfer", "version": 1},
            CACHE / "painted", title,
        )  # fmt: skip


def in_colour(images: np.ndarray) -> np.ndarray:
    return np.repeat(images, 3, axis=-1) if images.shape[-1] == 1 else images


def send(source: pathlib.Path, target: pathlib.Path, precision: str) -> None:
    """A client's generator as it is handed in."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        generator_files.save(target, generator_files.load(source), precision)
    except generator_files.GeneratorRejected as rejected:
        raise UserError(f"{rejected}; remove {source.parent} and run the command again") from None
