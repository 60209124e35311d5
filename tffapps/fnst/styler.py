"""A client's part of FNST: VGG-19 and what is done with it. The same in one process and at a site.

of a class it has many images of    S images ── VGG-19 ── Gram matrices, a file that is sent
of a class it has few images of     such files of others, checked ── with its C images ── style transfer
                                                                      └► S · C images, kept on disk
"""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Sequence

import cv2
import numpy as np
import pandas as pd

from models import adain_published, vgg
from models.weight_sources import cache_folder as keras_cache
from models.weights import WeightsError
from preprocessing import gram, gram_files, stain_augment, style_moments, style_transfer
from preprocessing.style_settings import LAYERS, StyleSettings, settings_for
from tffapps import UserError, cache_folder
from tffapps.data import made
from tffapps.fnst import GramSettings, TransferSettings, select
from tffapps.fnst.released import protected
from tffapps.fnst.select import choose

VGG_SEED = 0  # of random weights: all clients have the same VGG
_KEPT: dict[tuple[str, str], np.ndarray] = {}  # VGG and image → statistics, 12 kB of the whole VGG-19
_MOST_KEPT = 4096


class Styler:
    """A VGG, and the two things that a client does with it."""

    def __init__(self, grams: GramSettings, transfer: TransferSettings) -> None:
        """`transfer` matters where images are made, and in the attack."""
        self.grams, self.transfer = grams, transfer
        self.encoder = vgg.build(LAYERS[-1], grams.vgg_width)
        try:
            used = vgg.load(self.encoder, grams.vgg_weights, seed=VGG_SEED)
        except WeightsError as error:
            raise UserError(f"--vgg-weights: {error}") from error
        self.weights = used.label
        self.sha256 = gram.fingerprint(self.encoder)
        given = {
            "style_weight": transfer.style_weight, "content_weight": transfer.content_weight,
            "learning_rate": transfer.style_learning_rate,
        }  # fmt: skip
        chosen = {name: value for name, value in given.items() if value}
        self.settings: StyleSettings = settings_for(
            used.kind, init=transfer.init, optimizer=transfer.style_optimizer, steps=transfer.style_steps,
            content=transfer.content_loss, precision=transfer.style_precision, **chosen,
        )  # fmt: skip

    @property
    def in_one_pass(self) -> bool:
        """Whether images are made by a decoder instead of an optimiser."""
        return self.grams.transfer != "optimise"

    @functools.cached_property
    def pair(self) -> adain_published.Pair:
        """The networks that make images in one pass. A file that is missing or another VGG is found here."""
        folder = pathlib.Path(self.transfer.adain_weights or keras_cache())
        try:
            pair = adain_published.load_folder(folder)
            style_moments.channel_scales(pair.encoder, self.encoder)
        except WeightsError as error:
            raise UserError(f"--adain-weights: {error}") from error
        except ValueError as error:
            raise UserError(f"--transfer {self.grams.transfer}: {error}; give --vgg-weights imagenet") from None
        return pair

    def described(self) -> str:
        """How tables call the VGG, and what makes images unless that is an optimiser."""
        how = f", {self.grams.transfer}" if self.in_one_pass else ""
        return f"{self.weights}, width {self.grams.vgg_width}{how}"

    @property
    def protects(self) -> bool:
        """Whether Gram matrices are not sent as they were measured."""
        return self.grams.gram_average > 1 or self.grams.gram_noise > 0

    def measure(
        self, file: pathlib.Path, rows: pd.DataFrame, label: str, styles: int, seed: int, *, secret: bool = False
    ) -> None:
        """Writes the Gram matrices of this many styles of a class, of which `rows` are all images there are.

        `secret`: noise is nobody's to repeat; else the seed decides it.
        """
        images = self.style_images(rows, styles * self.grams.gram_average, seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            means = style_moments.means(self.encoder, images) if self.in_one_pass else None
            found = gram.measure(self.encoder, images, label, self.weights, means)
            if self.protects:
                generator = np.random.default_rng(None if secret else seed)
                found = protected(
                    found, self.grams.gram_average, self.grams.gram_noise, style_moments.LEVEL, generator
                )  # fmt: skip
            gram_files.save(file, found)
        except gram_files.GramsRejected as rejected:
            raise UserError(str(rejected)) from None

    def style_images(self, rows: pd.DataFrame, styles: int, seed: int) -> np.ndarray:
        """Those of these images that stand for their class."""
        images = self.read(rows.path)

        def statistics() -> np.ndarray:
            return self._statistics(images)

        return images[choose(statistics, len(images), styles, self.grams.style_images, seed)]

    def _statistics(self, images: np.ndarray) -> np.ndarray:
        """Of these images, kept for the next method, split and number of rare images of this command."""
        keys = [(self.sha256, hashlib.sha256(image.tobytes()).hexdigest()) for image in images]
        missing = [row for row, key in enumerate(keys) if key not in _KEPT]
        new = (
            dict(zip([keys[row] for row in missing], select.statistics(self.encoder, images[missing])))
            if missing
            else {}
        )
        found = np.stack([new[key] if key in new else _KEPT[key] for key in keys])
        if len(_KEPT) + len(new) <= _MOST_KEPT:
            _KEPT.update(new)
        return found

    def load(self, file: pathlib.Path) -> gram_files.Grams:
        """A file that was received, checked."""
        try:
            grams = gram_files.load(file, self.grams.vgg_width, self.sha256)
        except gram_files.GramsRejected as rejected:
            raise UserError(str(rejected)) from None
        if self.in_one_pass and grams.means is None:
            raise UserError(f"{file}: no means beside its Gram matrices, which --transfer {self.grams.transfer} needs")
        return grams

    def make(self, contents: Sequence[str], grams: gram_files.Grams, title: str) -> list[str]:
        """The paths of each of these images in each of the styles, in the order of `style_transfer.all_pairs`."""
        pairs = style_transfer.all_pairs(len(contents), len(grams))
        arrays = [*grams.matrices, *([grams.means] if self.in_one_pass and grams.means is not None else [])]
        digests = [
            hashlib.sha256(b"".join(array[style].tobytes() for array in arrays)).hexdigest()
            for style in range(len(grams))
        ]

        def transfer(images: np.ndarray, rows: Sequence[int]) -> np.ndarray:
            small = np.stack([resized(image, self.grams.style_size) for image in images])
            return self._styled(small, grams, np.column_stack([np.arange(len(small)), pairs[list(rows), 1]]))

        settings = {
            "made": "fnst", "version": 1, "vgg": self.sha256, "size": self.grams.style_size,
            "positions": list(grams.positions), **self._how(),
        }  # fmt: skip
        return made.made_paths(
            [contents[content] for content in pairs[:, 0]], [digests[style] for style in pairs[:, 1]], transfer,
            settings, cache_folder() / "styled", title,
        )  # fmt: skip

    def _styled(self, images: np.ndarray, grams: gram_files.Grams, pairs: np.ndarray) -> np.ndarray:
        """uint8 images, one for each of `pairs`: rows of `images` and of `grams`."""
        styled, contents = self._wholly_styled(images, grams, pairs), images[pairs[:, 0]]
        if self.transfer.style_part == "stain":
            return stain_augment.reinhard(contents, list(stain_augment.lab_moments(styled)))
        if self.transfer.style_part == "texture":
            return stain_augment.reinhard(styled, list(stain_augment.lab_moments(contents)))
        return styled

    def _wholly_styled(self, images: np.ndarray, grams: gram_files.Grams, pairs: np.ndarray) -> np.ndarray:
        if not self.in_one_pass:
            return style_transfer.transfer(
                self.encoder, images, grams.matrices, pairs, self.settings, grams.positions
            )[0]  # fmt: skip
        assert grams.means is not None
        level = style_moments.LEVEL
        styles = style_moments.moments(
            self.pair, self.encoder, grams.matrices[level], grams.means, grams.positions[level]
        )
        return style_moments.transfer(
            self.pair, images, styles, pairs, self.grams.transfer, self.transfer.style_strength
        )  # fmt: skip

    def _how(self) -> dict[str, object]:
        """All that the making depends on, beside the images, the styles and the VGG."""
        part = {} if self.transfer.style_part == "whole" else {"part": self.transfer.style_part}
        if not self.in_one_pass:
            known = dataclasses.asdict(self.settings)
            if known["precision"] == "float32":  # images that were made before there was another keep their keys
                del known["precision"]
            return {**known, **part}
        return {
            "transfer": self.grams.transfer, "strength": self.transfer.style_strength, "pair": self.pair.sha256, **part
        }  # fmt: skip

    def read(self, paths: Sequence[str] | pd.Series) -> np.ndarray:
        """uint8 (n, size, size, 3)"""
        rejects, size = dict[str, str](), self.grams.style_size
        images = np.zeros((len(paths), size, size, 3), np.uint8)
        for rows, stack in made.stacks(list(paths), rejects=rejects):
            images[rows] = [resized(image, size) for image in stack]
        for path, reason in rejects.items():
            raise UserError(f"{path}: {reason}; it could be read before: run the command again")
        return images


def resized(image: np.ndarray, size: int) -> np.ndarray:
    if image.shape[:2] == (size, size):
        return image
    return cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)
