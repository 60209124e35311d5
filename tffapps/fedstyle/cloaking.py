"""Figure 1(a): one place has the pictures of a few artists, and some artists have cloaked theirs.

The paper's cloak is Mist; here it is `preprocessing.cloak`, towards the style of the next artist.
"""

from __future__ import annotations

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
from tffapps.data import artists, made
from tffapps.errors import UserError
from tffapps.fedstyle.data import CACHE, Federation, Pool

_VGG_SEED = 0


class Cloaks:
    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self._encoder = vgg.build(LAYERS[-1], values["vgg_width"])
        try:
            vgg.load(self._encoder, values["vgg_weights"], seed=_VGG_SEED)
        except WeightsError as error:
            raise UserError(f"--vgg-weights: {error}") from error
        self._settings = cloak.CloakSettings(epsilon=values["cloak_epsilon"], steps=values["cloak_steps"])

    def federation(self, pool: Pool, share: float, seed: int) -> Federation:
        """The first few artists; `share` of each one's training pictures are cloaked, more of them for a larger share.

        Pictures are at the size that the classifier sees: a cloak does not outlive being resized.
        """
        table = artists.artists(pool.table, min(self._values["cloak_artists"], pool.table.label.nunique()))
        training = table[table.split != "test"]
        picked = [self._drawn(rows, seed) for _, rows in training.groupby("label", sort=False)]
        table = pd.concat([*picked, table[table.split == "test"]], ignore_index=True)
        table = table.assign(path=self._made(table.path, [None] * len(table), _resize(self._values["size"]), {}))
        labels = list(dict.fromkeys(table.label))
        for place, label in enumerate(labels):
            other = table[(table.label == labels[(place + 1) % len(labels)]) & (table.split != "test")]
            own = table.index[(table.label == label) & (table.split != "test")]
            own = own[: round(share * len(own))]
            if len(own):
                table.loc[own, "path"] = self._cloaked(table.path[own], other.path)
        return Federation(f"cloaked {share:g} {self._key()}", table)

    def _drawn(self, rows: pd.DataFrame, seed: int) -> pd.DataFrame:
        order = np.random.default_rng([seed, 0xC10A]).permutation(len(rows))
        return rows.iloc[order[: self._values["cloak_pictures"]]]

    def _cloaked(self, paths: pd.Series, others: pd.Series) -> list[str]:
        """In the style, the mean Gram matrices, of the other pictures."""
        stack = np.stack([image for _, images in made.stacks(list(others), rejects={}) for image in images])
        target = [level.mean(axis=0, keepdims=True) for level in gram.grams(gram.taps(self._encoder), stack)]
        digest = hashlib.sha256(b"".join(level.tobytes() for level in target)).hexdigest()

        def make(images: np.ndarray, places: Sequence[int]) -> np.ndarray:
            del places
            return cloak.cloak(self._encoder, images, target, self._settings)[0]

        settings = {"cloak": self._key(), "version": 1}
        return self._made(paths, [digest] * len(paths), make, settings)

    def _made(
        self, paths: pd.Series, parameters: Sequence[Any], make: made.Make, settings: dict[str, Any]
    ) -> list[str]:
        about = {"size": self._values["size"], **settings}
        return made.made_paths(list(paths), parameters, make, about, CACHE / "cloaked", "cloaks")

    def _key(self) -> str:
        parts = [gram.fingerprint(self._encoder), *map(str, dataclasses.astuple(self._settings))]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:8]


def _resize(size: int) -> made.Make:
    def make(images: np.ndarray, places: Sequence[int]) -> np.ndarray:
        del places
        return np.stack([cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA) for image in images])

    return make
