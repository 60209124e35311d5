"""A network and the pipelines that feed it: whole images, or what its frozen base made of them.

view          whole images           stored features
"plain"       as they are            of the image
"training"    affine (or plain)      of the image
"affine"      affine                 of one of a few affine views
"weak"        flip, light            of one of a few weak views
"strong"      more, and cutout       of one of a few strong views
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from models import classifiers, weights
from preprocessing import augment
from tffapps.data import features, images, pipeline
from tffapps.errors import UserError
from tffapps.plfl import Settings
from tffapps.plfl.data import CACHE

AUGMENTATIONS: dict[str, Callable] = {"affine": augment.affine, "weak": augment.weak, "strong": augment.strong}


class Inputs:
    """What one network of a command sees. `model` is what the rounds train: the network, or its head alone."""

    def __init__(self, name: str, settings: Settings, classes: int, chosen_weights: str, formats: tuple[str, ...]):
        self.name, self._settings, self._chosen = name, settings, chosen_weights
        self.frozen = settings.freeze == "yes" or (settings.freeze == "auto" and chosen_weights != "random")
        shape = (settings.size, settings.size, settings.channels)
        try:
            self.network = classifiers.build(
                name, input_shape=shape, classes=classes, head=settings.head, trainable_base=not self.frozen
            )
        except ValueError as error:
            raise UserError(str(error)) from error
        self._image_reader = images.Reader(shape[:2], settings.channels, formats)
        self.on_features = self.frozen and settings.augment == "none"
        self._base, self.model = classifiers.split_base(self.network) if self.on_features else (None, self.network)
        self.spec = tf.TensorSpec(self.model.input_shape, tf.float32), tf.TensorSpec((None,), tf.int32)
        self.weights = ""  # how tables call the initial weights
        self._base_name = ""
        self._files: dict[tuple[str, str, str], str] = {}  # base, view, image -> features

    def initial(self, seed: int) -> tuple[list[np.ndarray], dict[str, Any]]:
        """The weights that a seed's runs begin with, and what identifies them."""
        try:
            used = weights.load(self.network, self.name, self._chosen, seed=seed)
        except weights.WeightsError as error:
            raise UserError(f"--weights: {error}") from error
        self.weights = f"{used.label}, base {'frozen' if self.frozen else 'trained'}"
        base = {"network": self.name, "weights": used.sha256 or f"random {seed}"}
        self._base_name = hashlib.sha256(json.dumps(base, sort_keys=True).encode()).hexdigest()
        identity = {"weights": used.label, "weights_sha256": used.sha256, "frozen": self.frozen}
        return self.model.get_weights(), identity

    def batches(
        self,
        paths: Sequence[str],
        labels: Sequence[int] | np.ndarray,
        view: str = "plain",
        *,
        batch: int,
        epochs: int = 1,
        seed: int = 0,
        shuffle: bool = True,
    ) -> tf.data.Dataset:
        view = self._resolved(view)
        options: dict[str, Any] = {"batch": batch, "epochs": epochs, "seed": seed, "shuffle": shuffle}
        if not self.on_features:
            function = AUGMENTATIONS.get(view)
            return pipeline.of_files(paths, labels, self._image_reader, augment=function, **options)
        views = self._views(view)
        read = features.Reader(tuple(self.model.input_shape[1:]), views)
        function = features.pick_view if views > 1 else None
        return pipeline.of_files(self._stored(paths, view), labels, read, augment=function, **options)

    def augments(self, view: str) -> bool:
        return self._resolved(view) != "plain"

    def _resolved(self, view: str) -> str:
        if view != "training":
            return view
        return self._settings.augment if self._settings.augment != "none" else "plain"

    def _views(self, view: str) -> int:
        return {"plain": 1, "affine": self._settings.plus_views}.get(view, self._settings.views)

    def prepare(self, paths: Sequence[str], *views: str) -> None:
        """Works out beforehand what `batches` will ask for, with a bar."""
        for view in views if self.on_features else ():
            self._stored(paths, self._resolved(view))

    def _stored(self, paths: Sequence[str], view: str) -> list[str]:
        keys = [(self._base_name, view, path) for path in paths]
        missing = list(dict.fromkeys(path for path, key in zip(paths, keys) if key not in self._files))
        if missing:
            files = features.stored_features(
                missing, self._base, self._base_name, self._image_reader, CACHE / "features",
                augment=AUGMENTATIONS.get(view), views=self._views(view),
                title=f"features of {self.name}, {view}",
            )  # fmt: skip
            self._files.update({(self._base_name, view, path): file for path, file in zip(missing, files)})
        return [self._files[key] for key in keys]
