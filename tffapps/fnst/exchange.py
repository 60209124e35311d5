"""Before the federation: clients measure styles, the server passes them on, clients make images with them.

    client with many of a class           server                     client with few of it
    S images ── VGG-19 ── Gram matrices ──► checks, passes on ──► checks ── with its C images ── style transfer
                                                                             └► S · C images of the class, kept on disk

No image leaves a client, made or real. Gram matrices are files, as they would be between hospitals.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import pandas as pd

from models import vgg
from models.weights import WeightsError
from preprocessing import gram, gram_files, style_transfer
from preprocessing.style_settings import LAYERS, StyleSettings, settings_for
from tffapps.data import made
from tffapps.errors import UserError
from tffapps.files import as_name, from_name
from tffapps.fnst import Augmentation, StyleFlags
from tffapps.fnst.data import CACHE, Sites
from tffapps.fnst.dispatch import Delivery, dispatch
from tffapps.fnst.select import choose
from tffapps.runs import key_of
from tffapps.settings import pick

VGG_SEED = 0  # of random weights: all clients have the same VGG


@dataclasses.dataclass(frozen=True)
class Made:
    """The images that the clients made for themselves."""

    table: pd.DataFrame  # path, label, client, content (path), sender and style (row in its file)
    deliveries: list[Delivery]
    key: str  # changes with any image made


class Exchange:
    """VGG-19 and what is done with it."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._flags: StyleFlags = pick(StyleFlags, values)
        self.encoder = vgg.build(LAYERS[-1], self._flags.vgg_width)
        try:
            used = vgg.load(self.encoder, self._flags.vgg_weights, seed=VGG_SEED)
        except WeightsError as error:
            raise UserError(f"--vgg-weights: {error}") from error
        self.weights = used.label
        self._sha256 = gram.fingerprint(self.encoder)
        given = {
            "style_weight": self._flags.style_weight, "content_weight": self._flags.content_weight,
            "learning_rate": self._flags.style_learning_rate,
        }  # fmt: skip
        chosen = {name: value for name, value in given.items() if value}
        self.settings: StyleSettings = settings_for(
            used.kind, init=self._flags.init, optimizer=self._flags.style_optimizer, steps=self._flags.style_steps,
            **chosen,
        )  # fmt: skip

    def make(self, sites: Sites, augmentation: Augmentation, seed: int) -> Made:
        """What every client adds to its training images."""
        few, many = rare_and_rich(sites, augmentation)
        folder = self._folder(sites, augmentation, seed)
        for client, labels in many.items():
            for label in labels:
                self.send(folder, client, sites.of(client, label), label, augmentation.styles, seed)
        deliveries = dispatch(
            folder, {as_name(name): labels for name, labels in few.items()}, self._flags.vgg_width, self._sha256
        )
        tables = [self.synthesise(sites.of(from_name(d.receiver), d.label), d) for d in deliveries]
        if not tables:
            raise UserError(
                f"--augmentations {augmentation.name}: no class has more than {augmentation.contents} images at one "
                f"client and 1 to {augmentation.contents} at another; choose other numbers"
            )
        table = pd.concat(tables, ignore_index=True)
        names = "\n".join(pathlib.Path(path).name for path in table.path)  # hashes of all that each depends on
        return Made(table, deliveries, hashlib.sha256(names.encode()).hexdigest()[:16])

    def send(
        self, folder: pathlib.Path, client: str, rows: pd.DataFrame, label: str, styles: int, seed: int
    ) -> pathlib.Path:
        """A client's part: the Gram matrices of its style images of a class, as a file for the server."""
        images = self.style_images(rows, styles, seed)
        file = folder / "sent" / as_name(client) / f"{label}.npz"
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            gram_files.save(file, gram.measure(self.encoder, images, label, self.weights))
        except gram_files.GramsRejected as rejected:
            raise UserError(str(rejected)) from None
        return file

    def style_images(self, rows: pd.DataFrame, styles: int, seed: int) -> np.ndarray:
        images = self.read(rows.path)
        return images[choose(self.encoder, images, styles, self._flags.select, seed)]

    def synthesise(self, rows: pd.DataFrame, delivery: Delivery) -> pd.DataFrame:
        """A receiving client's part: each of its images of the class in each of the styles."""
        try:
            grams = gram_files.load(delivery.file, self._flags.vgg_width, self._sha256)
        except gram_files.GramsRejected as rejected:
            raise UserError(str(rejected)) from None
        pairs = style_transfer.all_pairs(len(rows), len(grams))
        digests = [
            hashlib.sha256(b"".join(level[style].tobytes() for level in grams.matrices)).hexdigest()
            for style in range(len(grams))
        ]

        def transfer(images: np.ndarray, places: Sequence[int]) -> np.ndarray:
            small = np.stack([resized(image, self._flags.style_size) for image in images])
            own = np.column_stack([np.arange(len(small)), pairs[list(places), 1]])
            return style_transfer.transfer(
                self.encoder, small, grams.matrices, own, self.settings, grams.positions
            )[0]  # fmt: skip

        settings = {
            "made": "fnst", "version": 1, "vgg": self._sha256, "size": self._flags.style_size,
            "positions": list(grams.positions), **dataclasses.asdict(self.settings),
        }  # fmt: skip
        contents = [rows.path.iloc[content] for content in pairs[:, 0]]
        receiver = from_name(delivery.receiver)
        paths = made.made_paths(
            contents, [digests[style] for style in pairs[:, 1]], transfer, settings, CACHE / "styled",
            f"{receiver}, {delivery.label}",
        )  # fmt: skip
        return pd.DataFrame(
            {
                "path": paths, "label": delivery.label, "client": receiver,
                "content": contents, "sender": from_name(delivery.sender), "style": pairs[:, 1],
            }
        )  # fmt: skip

    def read(self, paths: Sequence[str] | pd.Series) -> np.ndarray:
        """uint8 (n, size, size, 3)"""
        paths, rejects = list(paths), dict[str, str]()
        size = self._flags.style_size
        images = np.zeros((len(paths), size, size, 3), np.uint8)
        for places, stack in made.stacks(paths, rejects=rejects):
            images[places] = [resized(image, size) for image in stack]
        for path, reason in rejects.items():
            raise UserError(f"{path}: {reason}; it could be read before: run the command again")
        return images

    def _folder(self, sites: Sites, augmentation: Augmentation, seed: int) -> pathlib.Path:
        chosen = [self._flags.select, self._flags.style_size, self._sha256, augmentation.name, seed]
        images = hashlib.sha256("\n".join(sites.train.path + sites.train.client).encode()).hexdigest()
        return CACHE / "grams" / key_of({"chosen": chosen, "images": images})


def rare_and_rich(sites: Sites, augmentation: Augmentation) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """For every client the classes that it has at most C images of, and those that it has more of."""
    few: dict[str, list[str]] = {}
    many: dict[str, list[str]] = {}
    for client in sites.clients:
        counts = sites.of(client).label.value_counts().sort_index()
        few[client] = [str(label) for label, count in counts.items() if count <= augmentation.contents]
        many[client] = [str(label) for label, count in counts.items() if count > augmentation.contents]
    return few, many


def resized(image: np.ndarray, size: int) -> np.ndarray:
    if image.shape[:2] == (size, size):
        return image
    return cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)
