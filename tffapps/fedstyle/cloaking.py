"""Figure 1(a): one place has the pictures of a few artists, and some artists have cloaked theirs.

The paper's cloak is Mist; here it is `preprocessing.cloak`, towards the style of the next artist.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import pandas as pd

from models import vgg
from models.weights import WeightsError
from preprocessing import cloak, gram
from preprocessing.style_settings import LAYERS
from tffapps import Pool, UserError, cache_folder
from tffapps.data import artists, made, manifest
from tffapps.fedstyle import FedStyleCloakSettings
from tffapps.fedstyle.data import Federation, with_table

_VGG_SEED = 0


class Cloaks:
    """Cloaks pictures of `size` pixels on a side, which the classifier sees: a cloak does not outlive resizing."""

    def __init__(self, settings: FedStyleCloakSettings, size: int) -> None:
        self._settings, self._size = settings, size
        self._encoder = vgg.build(LAYERS[-1], settings.vgg_width)
        try:
            vgg.load(self._encoder, settings.vgg_weights, seed=_VGG_SEED)
        except WeightsError as error:
            raise UserError(f"--vgg-weights: {error}") from error
        self._cloak = cloak.CloakSettings(epsilon=settings.cloak_epsilon, steps=settings.cloak_steps)

    def federation(self, pool: Pool, share: float, seed: int) -> Federation:
        """The first few artists; `share` of each one's training pictures are cloaked, more of them for a larger one."""
        table = artists.artists(pool.table, min(self._settings.cloak_artists, len(pool.classes)))
        training = table[table.split != "test"]
        drawn = [self._drawn(rows, seed) for _, rows in training.groupby("label", sort=False)]
        table = pd.concat([*drawn, table[table.split == "test"]], ignore_index=True)
        table = table.assign(path=self._made(table.path, [None] * len(table), self._resize, {}))
        labels = list(dict.fromkeys(table.label))
        for index, label in enumerate(labels):
            others = table[(table.label == labels[(index + 1) % len(labels)]) & (table.split != "test")]
            rows = table.index[(table.label == label) & (table.split != "test")]
            rows = rows[: round(share * len(rows))]
            if len(rows):
                table.loc[rows, "path"] = self._cloaked(table.path[rows], others.path)
        return Federation(f"cloaked {share:g}", with_table(pool, table), f"cloaked {manifest.fingerprint(table)}")

    def _drawn(self, rows: pd.DataFrame, seed: int) -> pd.DataFrame:
        order = np.random.default_rng([seed, 0xC10A]).permutation(len(rows))
        return rows.iloc[order[: self._settings.cloak_pictures]]

    def _cloaked(self, paths: pd.Series, others: pd.Series) -> list[str]:
        """In the style, the mean Gram matrices, of the other pictures."""
        stack = np.stack([image for _, images in made.stacks(list(others), rejects={}) for image in images])
        target = [level.mean(axis=0, keepdims=True) for level in gram.grams(gram.taps(self._encoder), stack)]
        digest = hashlib.sha256(b"".join(level.tobytes() for level in target)).hexdigest()

        def make(images: np.ndarray, positions: Sequence[int]) -> np.ndarray:
            return cloak.cloak(self._encoder, images, target, self._cloak)[0]

        return self._made(paths, [digest] * len(paths), make, {"cloak": self._key(), "version": 1})

    def _resize(self, images: np.ndarray, positions: Sequence[int]) -> np.ndarray:
        size = (self._size, self._size)
        return np.stack([cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images])

    def _made(
        self, paths: pd.Series, parameters: Sequence[Any], make: made.Make, settings: dict[str, Any]
    ) -> list[str]:
        about = {"size": self._size, **settings}
        return made.made_paths(list(paths), parameters, make, about, cache_folder() / "cloaked", "cloaks")

    def _key(self) -> str:
        parts = [gram.fingerprint(self._encoder), *map(str, dataclasses.astuple(self._cloak))]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:8]
