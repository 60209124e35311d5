"""A network and the pipelines that feed it: whole images, or what its frozen base made of them.

Images are seen in views: "plain", as they are, or augmented by one of the application's functions; "training" is
the view that the application trains on. A base that is frozen and trained on plain images gives the same features
in every epoch: they are stored, and the rounds train the head alone. Of an augmented view a few drawings of each
image are stored then, and every epoch picks one. Plain images, if `held_bytes` allows, are decoded once and held in
memory: for small networks reading files takes longer than training. Rows, order and values are the same.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from models import classifiers, weights
from tffapps.data import features, images, pipeline
from tffapps.engine import Engine
from tffapps.errors import UserError
from tffapps.study import Initial

Augmentation = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # (image, seed) -> image
PLAIN, TRAINING = "plain", "training"
_HELD = 2**26  # bytes of decoded images that are held at most; a larger client's are read from their files


@dataclasses.dataclass(frozen=True)
class Network:
    """A classifier as flags describe it."""

    name: str  # one of models.names.NAMES
    size: int  # images are resized to this many pixels on a side
    channels: int  # 1 or 3
    head: str  # one of models.names.HEADS
    freeze: str  # whether the base is frozen: "yes", "no", or "auto": if its weights are pretrained
    weights: str  # "imagenet", "random" or a file

    @property
    def frozen(self) -> bool:
        return self.freeze == "yes" or (self.freeze == "auto" and self.weights != "random")


def engine_options(engine: Engine) -> dict[str, Any]:
    """Options of `Inputs` for small networks: what is held in memory, and whether features can be stored.

    A worker reads files itself, and of images at sites nothing is here.
    """
    return {"held_bytes": _HELD if engine.name == "in-process" else 0, "whole": bool(engine.sites)}


class Inputs:
    """What one network of a command sees. `model` is what the rounds train: the network, or its head alone."""

    def __init__(
        self,
        chosen: Network,
        *,
        classes: int,
        formats: tuple[str, ...],
        cache: Path,
        augmentations: Mapping[str, Augmentation],
        training_view: str = PLAIN,
        views: Mapping[str, int] | None = None,
        held_bytes: int = 0,
        whole: bool = False,
    ) -> None:
        """`formats` are the images'; `cache` keeps features; `views` is how many of a view are stored (default 1).

        `whole`: no features are stored, and so no file is read here.
        """
        self._held_bytes, self._held = held_bytes, dict[str, np.ndarray]()
        self._chosen, self._cache, self._augmentations = chosen, cache, augmentations
        self._training_view, self._views = training_view, views or {}
        self.name, self.frozen = chosen.name, chosen.frozen
        shape = (chosen.size, chosen.size, chosen.channels)
        try:
            self.network = classifiers.build(
                chosen.name, input_shape=shape, classes=classes, head=chosen.head, trainable_base=not self.frozen
            )
        except ValueError as error:
            raise UserError(str(error)) from error
        self._image_reader = images.Reader(shape[:2], chosen.channels, formats)
        self.on_features = self.frozen and training_view == PLAIN and not whole
        self._base, self.model = classifiers.split_base(self.network) if self.on_features else (None, self.network)
        self.spec = tf.TensorSpec(self.model.input_shape, tf.float32), tf.TensorSpec((None,), tf.int32)
        self.weights = ""  # how tables call the initial weights
        self._base_name = ""
        self._files: dict[tuple[str, str, str], str] = {}  # base, view, image -> features

    def initial(self, seed: int) -> Initial:
        """The weights that a seed's runs begin with, and what identifies them."""
        try:
            used = weights.load(self.network, self.name, self._chosen.weights, seed=seed)
        except weights.WeightsError as error:
            raise UserError(f"--weights: {error}") from error
        self.weights = f"{used.label}, base {'frozen' if self.frozen else 'trained'}"
        base = {"network": self.name, "weights": used.sha256 or f"random {seed}"}
        self._base_name = hashlib.sha256(json.dumps(base, sort_keys=True).encode()).hexdigest()
        identity = {"weights": used.label, "weights_sha256": used.sha256, "frozen": self.frozen}
        return Initial(self.model.get_weights(), identity)

    def batches(
        self,
        paths: Sequence[str],
        labels: Sequence[int] | np.ndarray,
        view: str = PLAIN,
        *,
        batch: int,
        epochs: int = 1,
        seed: int = 0,
        shuffle: bool = True,
    ) -> tf.data.Dataset:
        view, function = self._resolved(view)
        options: dict[str, Any] = {"batch": batch, "epochs": epochs, "seed": seed, "shuffle": shuffle}
        if not self.on_features:
            if function is None and self._hold(paths):
                together = np.stack([self._held[path] for path in paths])
                return pipeline.from_arrays(together, labels, **options)
            return pipeline.of_files(paths, labels, self._image_reader, augment=function, **options)
        views = self._views.get(view, 1)
        read = features.Reader(tuple(self.model.input_shape[1:]), views)
        pick = features.pick_view if views > 1 else None
        return pipeline.of_files(self._stored(paths, view, function), labels, read, augment=pick, **options)

    def augments(self, view: str) -> bool:
        return self._resolved(view)[1] is not None

    def prepare(self, paths: Sequence[str], *views: str) -> None:
        """Works out beforehand what `batches` will ask for, with a bar."""
        for view in views if self.on_features else ():
            self._stored(paths, *self._resolved(view))

    def _hold(self, paths: Sequence[str]) -> bool:
        """Whether all of these images are in memory; reads those that are not, and forgets others to make room."""
        wanted = dict.fromkeys(paths)
        most = self._held_bytes // (4 * self._chosen.size**2 * self._chosen.channels)
        if not paths or len(wanted) > most:
            return False
        missing = [path for path in wanted if path not in self._held]
        others = [path for path in self._held if path not in wanted]  # the oldest first
        for path in others[: max(0, len(self._held) + len(missing) - most)]:
            del self._held[path]
        if missing:
            read = pipeline.of_files(missing, np.arange(len(missing)), self._image_reader, batch=64, shuffle=False)
            for pictures, numbers in read.as_numpy_iterator():
                self._held.update({missing[number]: image for image, number in zip(pictures, numbers)})
        return all(path in self._held for path in wanted)  # one that cannot be read any more is left to the pipeline

    def _resolved(self, view: str) -> tuple[str, Augmentation | None]:
        """The view that is meant, and its augmentation."""
        view = self._training_view if view == TRAINING else view
        return view, None if view == PLAIN else self._augmentations[view]

    def _stored(self, paths: Sequence[str], view: str, function: Augmentation | None) -> list[str]:
        keys = [(self._base_name, view, path) for path in paths]
        missing = list(dict.fromkeys(path for path, key in zip(paths, keys) if key not in self._files))
        if missing:
            files = features.stored_features(
                missing, self._base, self._base_name, self._image_reader, self._cache,
                augment=function, views=self._views.get(view, 1),
                title=f"features of {self.name}, {view}",
            )  # fmt: skip
            self._files.update({(self._base_name, view, path): file for path, file in zip(missing, files)})
        return [self._files[key] for key in keys]
