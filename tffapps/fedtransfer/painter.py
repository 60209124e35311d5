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
from preprocessing.pix2pix_folder import CHECKPOINT, train_in
from preprocessing.pix2pix_settings import Pix2PixSettings, settings_for
from tffapps import Flags, UserError, as_name, cache_folder, key_of
from tffapps.data import made
from tffapps.fedtransfer import GeneratorSettings, TileSettings
from tffapps.fedtransfer.data import images_of, masks_of

FILE = "generator.npz"


@dataclasses.dataclass(frozen=True)
class Painter:
    settings: GeneratorSettings
    channels: int
    fresh: bool = False  # whether trainings start over

    @classmethod
    def of(cls, flags: Flags) -> Painter:
        return cls(flags[GeneratorSettings], flags[TileSettings].channels, flags.fresh)

    def architecture(self, size: tuple[int, int]) -> Architecture:
        """Of every client's generator, for tiles of this height and width."""
        return Architecture(self.settings.generator, size, self.settings.generator_width, self.channels)

    def trained(self, client: str, rows: pd.DataFrame, seed: int) -> pathlib.Path:
        """The folder in which a generator of these tiles, its losses and samples are; trained where it is not yet."""
        settings = self._training(seed)
        pairs = [[pathlib.Path(path).name for path in rows[column]] for column in ("path", "mask")]
        known = {**dataclasses.asdict(settings), "pairs": pairs, "channels": self.channels}
        folder = cache_folder() / "generators" / f"{as_name(client)}-{key_of(known)}"
        if not (folder / FILE).exists():
            folder.mkdir(parents=True, exist_ok=True)
            try:
                training = train_in(
                    folder, images_of(rows, self.channels), masks_of(rows), settings,
                    fresh=self.fresh, title=f"generator of {client}",
                )  # fmt: skip
                generator_files.save(folder / FILE, training.generator)
            except generator_files.GeneratorRejected as rejected:
                raise UserError(f"{rejected}; lower --generator-learning-rate and run with --fresh") from None
            (folder / CHECKPOINT).unlink(missing_ok=True)  # three times the generator, and it is finished
        return folder

    def _training(self, seed: int) -> Pix2PixSettings:
        chosen = self.settings
        l1 = {"l1": chosen.l1_weight} if chosen.l1_weight >= 0 else {}
        return settings_for(
            chosen.generator, width=chosen.generator_width, epochs=chosen.generator_epochs,
            batch=chosen.generator_batch, learning_rate=chosen.generator_learning_rate, seed=seed, **l1,
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

        def painted(masks: np.ndarray, rows: Sequence[int]) -> np.ndarray:
            images = pix2pix.generate(generator, (masks[..., 0] > 127).astype(np.uint8))
            return np.repeat(images, 3 // images.shape[-1], axis=-1)  # grey in three channels

        return made.made_paths(
            list(rows["mask"]), [digest] * len(rows), painted, {"made": "fedtransfer", "version": 1},
            cache_folder() / "painted", title,
        )  # fmt: skip


def exchange_folder(known: dict[str, object]) -> pathlib.Path:
    """Where generators travel, of one exchange."""
    return cache_folder() / "generators" / "exchanges" / key_of(known)


def send(source: pathlib.Path, target: pathlib.Path, precision: str) -> None:
    """A client's generator as it is handed in."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        generator_files.save(target, generator_files.load(source), precision)
    except generator_files.GeneratorRejected as rejected:
        raise UserError(f"{rejected}; remove {source.parent} and run the command again") from None
