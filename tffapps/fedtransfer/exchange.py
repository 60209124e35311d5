"""Before the federation: clients train generators, the server passes them on, clients paint their labels with them.

    client                              server                      every other client
    images, labels ── pix2pix ── generator ──► checks, passes on ──► checks ── with its own labels ── paints
                                                                      └► (image, own label), kept on disk

No image and no label leaves a client, real or painted. Generators are files, as they would be between laboratories.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from models.pix2pix import Architecture
from preprocessing import generator_files, pix2pix
from preprocessing.files import UserError as PreprocessingError
from preprocessing.pix2pix_folder import CHECKPOINT, train_in
from preprocessing.pix2pix_settings import Pix2PixSettings, settings_for
from tffapps.data import made
from tffapps.errors import UserError
from tffapps.federated.cohort import stream
from tffapps.fedtransfer import GeneratorFlags
from tffapps.fedtransfer.data import CACHE, Pool, images_of, masks_of
from tffapps.fedtransfer.dispatch import Delivery, dispatch
from tffapps.files import as_name, from_name
from tffapps.runs import key_of
from tffapps.settings import pick

_FILE = "generator.npz"


@dataclasses.dataclass(frozen=True)
class Made:
    """The images that the clients painted for themselves."""

    table: pd.DataFrame  # path, mask, client, sender
    deliveries: list[Delivery]
    key: str  # changes with any of the images


class Exchange:
    def __init__(self, values: dict[str, Any]) -> None:
        self._flags: GeneratorFlags = pick(GeneratorFlags, values)
        self.channels: int = values["channels"]
        self._fresh: bool = values["fresh"]

    def make(self, pool: Pool, precision: str, seed: int) -> Made:
        """What every client adds to its training images."""
        trained = {client: self.trained(pool, client, seed) for client in pool.clients}
        chosen = {client: str(folder) for client, folder in trained.items()}
        folder = CACHE / "generators" / "exchanges" / key_of({"generators": chosen, "precision": precision})
        for client, source in trained.items():
            send(source / _FILE, folder / "sent" / f"{as_name(client)}.npz", precision)
        names = [as_name(client) for client in pool.clients]
        deliveries = dispatch(folder, names, self.architecture(pool), precision)
        tables = [self.paint(pool.of("train", from_name(each.receiver)), each) for each in deliveries]
        table = pd.concat(tables, ignore_index=True)
        painted = "\n".join(pathlib.Path(path).name for path in table.path)  # hashes of all that each depends on
        return Made(table, deliveries, hashlib.sha256(painted.encode()).hexdigest()[:16])

    def architecture(self, pool: Pool) -> Architecture:
        return Architecture(self._flags.generator, pool.size, self._flags.generator_width, self.channels)

    def trained(self, pool: Pool, client: str, seed: int) -> pathlib.Path:
        """A client's part: the folder in which its generator, losses and samples are; trained where it is not yet."""
        rows = pool.of("train", client)
        settings = self._settings(stream(seed, 0, pool.clients.index(client)))
        pairs = [[pathlib.Path(path).name for path in rows[column]] for column in ("path", "mask")]
        known = {**dataclasses.asdict(settings), "pairs": pairs, "channels": self.channels}
        folder = CACHE / "generators" / f"{as_name(client)}-{key_of(known)}"
        if not (folder / _FILE).exists():
            folder.mkdir(parents=True, exist_ok=True)
            try:
                pairs_read = images_of(rows, self.channels), masks_of(rows)
                training = train_in(folder, *pairs_read, settings, fresh=self._fresh, title=f"generator of {client}")
                generator_files.save(folder / _FILE, training.generator)
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

    def paint(self, rows: pd.DataFrame, delivery: Delivery) -> pd.DataFrame:
        """A receiving client's part: an image in the sender's look for each of its labels."""
        try:
            generator = generator_files.load(delivery.file)
        except generator_files.GeneratorRejected as rejected:
            raise UserError(str(rejected)) from None
        sender, receiver = (from_name(name) for name in (delivery.sender, delivery.receiver))
        digest = hashlib.sha256(delivery.file.read_bytes()).hexdigest()

        def painted(masks: np.ndarray, places: Sequence[int]) -> np.ndarray:
            del places
            return in_colour(pix2pix.generate(generator, (masks[..., 0] > 127).astype(np.uint8)))

        paths = made.made_paths(
            list(rows["mask"]), [digest] * len(rows), painted, {"made": "fedtransfer", "version": 1},
            CACHE / "painted", f"{receiver} as {sender}",
        )  # fmt: skip
        return pd.DataFrame({"path": paths, "mask": list(rows["mask"]), "client": receiver, "sender": sender})


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
