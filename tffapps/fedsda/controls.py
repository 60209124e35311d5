"""Rivals and controls of FedSDA, which do the same work without its idea: sides that wait to be named.

    fedsda+        not the stain matrix alone, but also each stain's strength, from all clients' mixtures of Gaussians
    hed-jitter, randstainna, stain-mixup     random colours; stain mix-up needs other clients' stain matrices
    reinhard, macenko, vahadane              every image, test images too, in the colours of one reference patch

What they need of the data is worked out on this machine: they cannot be had across sites.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from models.gaussian_mixture import draw, moments_of
from preprocessing import stain, stain_augment
from preprocessing.stain import StainSettings
from tffapps import Flags, UserError, cache_folder
from tffapps.data import made
from tffapps.federated.client_mixtures import client_mixtures
from tffapps.fedsda import ClassifierSettings, SeparationSettings, StainModelSettings
from tffapps.fedsda.alignments import Aligned, parts_of, with_source
from tffapps.fedsda.data import Fold

_STREAM = 0xC011  # of their random numbers
_LIMIT = 2.0  # deviations of a client's looks from their mean
_LEAST_SPREAD = 1e-6
_STRENGTHS = 6  # the first column of strengths in a look


class ControlAlignment:
    """A side of this file, by its name."""

    def __init__(self, side: str, flags: Flags) -> None:
        self._side, self._separation = side, flags[SeparationSettings].of_patches()
        self._views, self._components = flags[ClassifierSettings].views, flags[StainModelSettings].mixture_components
        self.settings = (flags[SeparationSettings],)

    def of(self, fold: Fold, seed: int) -> Aligned:
        if self._side in ("reinhard", "macenko", "vahadane"):
            return self._normalised(fold)
        train, tables, keys = with_source(fold), [], []
        for view in range(self._views):
            generator = np.random.default_rng([seed, view, _STREAM])
            function, numbers = self._numbers(fold, seed, view, generator)
            paths, key = self._made(train.path, function, numbers)
            tables.append(train.assign(path=paths))
            keys.append(key)
        return Aligned(pd.concat(tables, ignore_index=True), fold.test, _hash(keys), val=fold.val)

    def _numbers(
        self, fold: Fold, seed: int, view: int, generator: np.random.Generator
    ) -> tuple[Callable[..., Any], np.ndarray]:
        """The function that makes images, and what each training patch is given."""
        count = len(fold.train)
        if self._side == "hed-jitter":
            spread = stain_augment.JITTER
            numbers = generator.uniform(-spread, spread, (count, 6))
            numbers[:, :3] += 1
            return stain_augment.hed_jitter, numbers
        if self._side == "randstainna":
            moments = np.concatenate([stain_augment.lab_moments(images) for _, images in _stacks(fold.train.path)])
            return stain_augment.reinhard, generator.normal(moments.mean(axis=0), moments.std(axis=0), (count, 6))
        # The others draw from clients: each patch from one after the other, from view to view.
        whose = (parts_of(fold, seed) + view) % len(fold.clients)
        if self._side == "stain-mixup":
            given = np.empty((count, 9))
            for number, looks in enumerate(_told(self._looks(fold))):
                here = np.flatnonzero(whose == number)
                vectors = looks[generator.integers(len(looks), size=len(here)), :6]
                given[here, :6] = vectors.reshape(-1, 2, 3).transpose(0, 2, 1).reshape(-1, 6)
            given[:, 6] = generator.random(count)
            given[:, 7:] = generator.uniform(*stain_augment.SCALES, (count, 2))
            return functools.partial(stain_augment.stain_mixup, settings=self._separation), given
        return functools.partial(stain_augment.restyled, settings=self._separation), self._drawn(fold, whose, generator)

    def _drawn(self, fold: Fold, numbers: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Looks (n, 8) of the clients named by their numbers.

        Of a client's patches that are to look like another's, the strongest get the strongest: so no density is scaled
        by more than what lies between the two clients.
        """
        own = self._looks(fold)
        by_client = _told(own)
        together = np.concatenate(by_client).astype(np.float64)
        mean, spread = together.mean(axis=0), np.maximum(together.std(axis=0), _LEAST_SPREAD)
        tables = [
            tf.data.Dataset.from_tensors((np.int32(number), (looks - mean) / spread))
            for number, looks in enumerate(by_client)
        ]
        mixtures = client_mixtures(tables, stain_augment.NUMBERS, self._components)
        drawn = np.empty((len(numbers), stain_augment.NUMBERS))
        for number, mixture in enumerate(mixtures):
            here = np.flatnonzero(numbers == number)
            middle, deviation = moments_of(mixture)
            most = _LIMIT * deviation  # what lies further out is a density that no patch has
            drawn[here] = np.clip(draw(mixture, len(here), generator), middle - most, middle + most)
        drawn = drawn * spread + mean
        for client, looks in zip(fold.clients, own):
            rows = np.flatnonzero((fold.train.client == client).to_numpy())
            for number in range(len(mixtures)):
                among = np.flatnonzero((numbers[rows] == number) & ~np.isnan(looks[:, 0]))
                in_order(drawn, rows[among], looks[among])
        return drawn

    def _looks(self, fold: Fold) -> list[np.ndarray]:
        """Each client's (patches, 8); NaN where a patch's cannot be told."""
        found = []
        for client in fold.clients:
            paths = fold.of_client(client).path
            looks = np.full((len(paths), stain_augment.NUMBERS), np.nan)
            for positions, images in _stacks(paths):
                seen, ok = stain_augment.looks(images, self._separation)
                looks[np.array(positions)[ok]] = seen[ok]
            if np.isnan(looks).all():
                raise UserError(
                    f"--sides {self._side}: {client}: the stains of none of its training patches can be told"
                )
            found.append(looks)
        return found

    def _normalised(self, fold: Fold) -> Aligned:
        """To one reference: the first client's patch whose colours are the most usual."""
        train, function = with_source(fold), self._to_reference(fold)
        tables, keys = [], []
        for table in (train, fold.test, fold.val):
            if len(table):
                paths, key = self._made(table.path, *function(len(table)))
                keys.append(key)
                table = table.assign(path=paths, source=table.path)
            tables.append(table)
        return Aligned(tables[0], tables[1], _hash(keys), val=tables[2], usable=False)

    def _to_reference(self, fold: Fold) -> Callable[[int], tuple[Callable[..., Any], np.ndarray]]:
        paths = fold.of_client(fold.clients[0]).path
        if self._side == "reinhard":
            moments = np.concatenate([stain_augment.lab_moments(images) for _, images in _stacks(paths)])
            return lambda count: (stain_augment.reinhard, np.tile(_middle(moments), (count, 1)))
        settings = StainSettings(method=self._side, lambda_matrix=self._separation.lambda_matrix)
        found = [stain_augment.looks(images, settings) for _, images in _stacks(paths)]
        known = np.concatenate([looks[ok] for looks, ok in found])
        if not len(known):
            raise UserError(f"--sides {self._side}: no patch of {fold.clients[0]} can be its reference")
        return lambda count: (
            functools.partial(to_target, settings=settings),
            np.tile(_middle(known)[:8], (count, 1)),
        )

    def _made(self, paths: pd.Series, function: Callable[..., Any], numbers: np.ndarray) -> tuple[list[str], str]:
        rounded = np.round(numbers, 5)
        how = {"side": self._side, "version": 2 if self._side == "fedsda+" else 1, "separation": repr(self._separation)}
        folder = cache_folder() / "aligned"
        title = f"sides: {self._side}"
        made_paths = made.made_paths(list(paths), rounded.tolist(), made.Apart(function), how, folder, title)
        return made_paths, hashlib.sha256(rounded.tobytes() + repr(how).encode()).hexdigest()[:16]


def to_target(
    images: np.ndarray, targets: Sequence[Sequence[float]], settings: StainSettings
) -> list[np.ndarray | None]:
    """Patches in a target's stains and strengths, its first eight `looks`."""
    separated, target = stain.separate(images, settings), np.array(targets[0], np.float32)
    pictures = stain.normalise(separated.densities, target[:6].reshape(2, 3).T, target[6:8])
    return [picture if ok else None for picture, ok in zip(pictures, separated.ok)]


def in_order(drawn: np.ndarray, rows: np.ndarray, own: np.ndarray) -> None:
    """Exchanges the strengths drawn for these rows, in place, so that they rank as the patches' own `looks` do."""
    for column in range(_STRENGTHS, stain_augment.NUMBERS):
        drawn[rows[np.argsort(own[:, column], kind="stable")], column] = np.sort(drawn[rows, column])


def _told(by_client: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Each client's looks without those that could not be told."""
    return [looks[~np.isnan(looks[:, 0])] for looks in by_client]


def _middle(rows: np.ndarray) -> np.ndarray:
    """The row nearest to the medians, columns in units of their deviations."""
    spread = np.maximum(rows.std(axis=0), _LEAST_SPREAD)
    return rows[(((rows - np.median(rows, axis=0)) / spread) ** 2).sum(axis=1).argmin()]


def _stacks(paths: pd.Series) -> Any:
    return made.stacks(list(paths), rejects={})


def _hash(keys: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(keys).encode()).hexdigest()[:16]
