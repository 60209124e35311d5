"""A network and the pipelines that feed it: whole images, or what crosses the network's cut.

Images are seen in views: "plain", as they are, or augmented by one of the application's functions; "training" is
the view that the application trains on. Below a cut the network is the same function in every epoch: what it makes of
an image is stored, and the rounds train what is above the cut. Of an augmented view a few drawings of each image are
stored, and every epoch picks one; a training view of which none are stored is drawn anew in every epoch, and the whole
network runs. Of plain images and stored views, if `held_bytes` allows, what the rounds see is read once and held in
memory: for small networks reading files takes longer than training. Rows, order and values are the same.
"""

import functools
import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from models import own, weights
from models.assembled import assemble
from tffapps.data import at_once, features, images, pipeline
from tffapps.engine import Engine
from tffapps.errors import UserError
from tffapps.evaluation import classification
from tffapps.network import Network
from tffapps.study import Initial
from tffapps.use.bundle import Preprocess
from tffapps.use.network import CLASSIFIER, Description, Parts, pooled
from tffapps.use.recipe import Halves, Looks, Recipe, Weights
from tffapps.use.steps import Step

Augmentation = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # (image, seed) -> image
PLAIN, TRAINING = "plain", "training"
_LOOKED_AT = 32  # images a batch, for a bundle
_HELD = 64  # MB of decoded images that are held at most; a larger client's are read from their files
_EXACT = 256  # MB of activations in full precision that are kept: those of a run's test and validation images
HELD_VARIABLE = "TFFAPPS_HELD_MB"  # another number of them


def held_bytes() -> int:
    """Room for decoded images and features in memory."""
    given = os.environ.get(HELD_VARIABLE, str(_HELD))
    if not given.isdecimal():
        raise UserError(f"{HELD_VARIABLE}={given}: not a number of megabytes; give one such as {_HELD}, or 0")
    return int(given) * 2**20


def engine_options(engine: Engine) -> dict[str, Any]:
    """Options of `Inputs` for small networks: what is held in memory, and whether features can be stored.

    A worker reads files itself, and of images at sites nothing is here.
    """
    return {"held_bytes": held_bytes() if engine.name == "in-process" else 0, "whole": bool(engine.sites)}


def _held_size(read: pipeline.Reader) -> int:
    """Bytes of what is held of one file."""
    views = read.views if isinstance(read, features.Reader) else 1
    return math.prod(read.shape) * (4 if views == 1 else views * tf.float16.size)


class Inputs:
    """What one network of a command sees. `model` is what the rounds train: the network, or what is above its cut."""

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
        store_training: bool = False,
        whole: bool = False,
    ) -> None:
        """`formats` are the images'; `cache` keeps features; `views` is how many of a view are stored (default 1).

        `store_training`: also of an augmented training view. `whole`: nothing is stored, and so no file is read here.
        """
        self._held_bytes, self._held = held_bytes, dict[str, np.ndarray]()
        self._chosen, self._cache, self._augmentations = chosen, cache, augmentations
        self._training_view, self._views = training_view, views or {}
        self.name, self.frozen = chosen.name, chosen.frozen
        shape = (chosen.side, chosen.side, chosen.channels)
        try:
            self._network = assemble(
                chosen.name, input_shape=shape, classes=classes, head=chosen.chosen_head, cut=chosen.cut,
                norm=chosen.norm, may_be_own=True, precision=chosen.precision,
            )  # fmt: skip
            self._source = {"source_sha256": own.identity(chosen.name)} if chosen.own else {}
        except ValueError as error:
            raise UserError(f"--model {error}" if chosen.own else str(error)) from error
        self.network = self._network.whole
        self._image_reader = images.Reader(shape[:2], chosen.channels, formats)
        self.on_features = self.frozen and (training_view == PLAIN or store_training) and not whole
        self.model = self._network.above if self.on_features else self.network
        self.spec = tf.TensorSpec(self.model.input_shape, tf.float32), tf.TensorSpec((None,), tf.int32)
        self.weights = ""  # how tables call the initial weights
        self._base_name = ""
        self._files: dict[tuple[str, str, str], str] = {}  # base, view, image -> features
        self._exact: dict[tuple[str, str], np.ndarray] = {}  # base, image -> what was asked for, in full precision

    @property
    def described(self) -> dict[str, Any]:
        """What builds the network again (`models.assembled.assemble`)."""
        chosen = self._chosen
        return {
            "model": chosen.name, "size": chosen.side, "head": chosen.chosen_head, "cut": chosen.cut,
            "norm": chosen.norm, **self._source,
        }  # fmt: skip

    def initial(self, seed: int) -> Initial:
        """The weights that a seed's runs begin with, and what identifies them."""
        try:
            used = self._network.load(self._chosen.weights, seed)
        except weights.WeightsError as error:
            raise UserError(f"--weights: {error}") from error
        chosen = self._chosen
        self.weights = f"{used.label}, {chosen.trained_part}"
        base = {"network": self.name, "weights": used.sha256 or f"random {seed}", "cut": chosen.cut, **self._source}
        self._base_name = hashlib.sha256(json.dumps(base, sort_keys=True).encode()).hexdigest()
        identity = {"weights": used.label, "weights_sha256": used.sha256, **self.described}
        return Initial(self.model.get_weights(), identity)

    def recipe(
        self,
        classes: Sequence[str],
        data: str,
        training: Sequence[str],
        validation: Sequence[str] = (),
        validation_labels: Sequence[int] | np.ndarray = (),
        steps: Sequence[Step] = (),
    ) -> Recipe | None:
        """Of the bundle of a run of this network; None for a user's own: bundles hold no code to build it with.

        Args:
          classes: in the order of the network's outputs.
          data: what tables call the images.
          training: paths of training images that are here.
          validation: of others, that the network does not train on.
          validation_labels: the classes of these.
          steps: what was done to the images before they were fed.
        """
        chosen, (height, width) = self._chosen, self._image_reader.size
        if chosen.own:
            return None
        values = {"model": chosen.name, "head": chosen.chosen_head, "cut": chosen.cut, "norm": chosen.norm}
        network = Description(CLASSIFIER, values, (height, width, chosen.channels), len(classes))
        looks = Looks(self.located, self._probabilities, list(training), list(validation), list(validation_labels))
        preprocess = Preprocess((height, width), chosen.channels, tuple(steps))
        return Recipe(network, tuple(classes), preprocess, self._halves, data, self.weights, looks)

    def _halves(self, weights: Weights) -> Halves:
        self.model.set_weights(weights)
        base = self._network.base
        return Halves([] if base is None else base.get_weights(), self._network.above.get_weights())

    def located(self, weights: Weights, paths: Sequence[str]) -> np.ndarray:
        """(n, width): where images lie among others (`use.network.Parts.located`)."""
        batches = self.batches(paths, np.zeros(len(paths), np.int32), batch=_LOOKED_AT, shuffle=False)
        if self.on_features:  # they are what crosses the cut
            return np.concatenate([pooled(features).numpy() for features, _ in batches])
        self.model.set_weights(weights)
        return np.concatenate([self._locate(pixels)[0].numpy() for pixels, _ in batches])

    @functools.cached_property
    def _locate(self) -> Any:
        located = Parts(self.network, self._network.base, self._network.above).located()
        return tf.function(lambda x: located(x, training=False), input_signature=self.spec[:1])

    def _probabilities(self, weights: Weights, paths: Sequence[str]) -> np.ndarray:
        self.model.set_weights(weights)
        return classification.predict(self.model, self.exact(paths, np.zeros(len(paths), np.int32), batch=_LOOKED_AT))[
            1
        ]

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
        views = self._views.get(view, 1) if self.on_features else 1
        augment = function
        read: pipeline.Reader = self._image_reader
        if self.on_features:
            paths, augment = self._stored(paths, view, function), features.pick_view if views > 1 else None
            read = features.Reader(tuple(self.model.input_shape[1:]), views)
        if views > 1 and self._hold(paths, read):
            held = np.stack([self._held[path] for path in paths])
            return pipeline.of_views(held, labels, features.view_number, **options)
        if augment is None and self._hold(paths, read):
            return pipeline.from_arrays(np.stack([self._held[path] for path in paths]), labels, **options)
        return pipeline.of_files(paths, labels, read, augment=augment, **options)

    def exact(self, paths: Sequence[str], labels: Sequence[int] | np.ndarray, *, batch: int) -> tf.data.Dataset:
        """Plain images in order, for `model`, in single precision throughout: nothing is read from stored features."""
        images_of = pipeline.of_files(paths, labels, self._image_reader, batch=batch, shuffle=False)
        if not self.on_features:
            return images_of
        most = _EXACT * 2**20 // (4 * math.prod(self.model.input_shape[1:]))
        keys = [(self._base_name, path) for path in paths]
        if len(keys) > most:  # worked out as they are asked for
            return images_of.map(lambda pixels, codes: (self._base(pixels), codes))
        if not all(key in self._exact for key in keys):
            made = zip(keys, np.concatenate([self._base(pixels).numpy() for pixels, _ in images_of]))
            # A run asks for its test images and then for its validation images, the next run for the same.
            self._exact = {**(self._exact if len(self._exact) + len(keys) <= most else {}), **dict(made)}
        return pipeline.from_arrays(
            np.stack([self._exact[key] for key in keys]), labels, batch=batch, shuffle=False
        )  # fmt: skip

    def _base(self, pixels: tf.Tensor) -> tf.Tensor:
        assert self._network.base is not None  # there is a cut
        return self._network.base(pixels, training=False)

    def augments(self, view: str) -> bool:
        return self._resolved(view)[1] is not None

    def prepare(self, paths: Sequence[str], *views: str) -> None:
        """Works out beforehand what `batches` will ask for, with a bar."""
        for view in views if self.on_features else ():
            self._stored(paths, *self._resolved(view))

    def _hold(self, paths: Sequence[str], read: pipeline.Reader) -> bool:
        """Whether all of these files' arrays are in memory; reads those that are not, and forgets others for room."""
        wanted = dict.fromkeys(paths)
        each = _held_size(read)
        if not paths or len(wanted) * each > self._held_bytes:
            return False
        missing = [path for path in wanted if path not in self._held]
        over = sum(array.nbytes for array in self._held.values()) + len(missing) * each - self._held_bytes
        for path in [path for path in self._held if path not in wanted]:  # the oldest first
            if over <= 0:
                break
            over -= self._held.pop(path).nbytes
        if missing:
            arrays = pipeline.of_files(missing, np.arange(len(missing)), read, batch=64, shuffle=False)
            for values, numbers in at_once.of(arrays).as_numpy_iterator():
                self._held.update({missing[number]: value for value, number in zip(values, numbers)})
        return all(path in self._held for path in wanted)  # one that cannot be read any more is left to the pipeline

    def _resolved(self, view: str) -> tuple[str, Augmentation | None]:
        """The view that is meant, and its augmentation."""
        view = self._training_view if view == TRAINING else view
        return view, None if view == PLAIN else self._augmentations[view]

    def _stored(self, paths: Sequence[str], view: str, function: Augmentation | None) -> list[str]:
        keys = [(self._base_name, view, path) for path in paths]
        # Somebody may have emptied the cache since they were asked for.
        known = {key for key in dict.fromkeys(keys) if key in self._files and os.path.exists(self._files[key])}
        missing = list(dict.fromkeys(path for path, key in zip(paths, keys) if key not in known))
        if missing:
            files = features.stored_features(
                missing, self._network.base, self._base_name, self._image_reader, self._cache,
                augment=function, views=self._views.get(view, 1),
                title=f"features of {self.name}, {view}",
                about={"network": self.name, "weights": self.weights, "cut": self._chosen.cut},
            )  # fmt: skip
            self._files.update({(self._base_name, view, path): file for path, file in zip(missing, files)})
        return [self._files[key] for key in keys]
