"""A network over a pool: its task, its pipelines, its test images. All trials of one network share one."""

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from preprocessing import augment as changes
from tffapps.app import VALIDATION
from tffapps.data import images
from tffapps.data.pool import Pool
from tffapps.evaluation.evaluator import VAL, VAL_LOSS
from tffapps.evaluation.predictions import TestImages
from tffapps.federated.cohort import Client, stream
from tffapps.federated.task import Task, cross_entropy
from tffapps.federated.unequal import PLAIN as AS_THEY_ARE
from tffapps.federated.unequal import ClassBalance, WithClassCounts, drawn_equally
from tffapps.home import cache_folder
from tffapps.inputs import PLAIN, TRAINING, Augmentation, Inputs, engine_options
from tffapps.network import Network
from tffapps.study import Study
from tffapps.two_views import VIEWS
from tffapps.use.recipe import Recipe
from tffapps.use.steps import Step

AUGMENTATIONS: dict[str, Augmentation] = {"weak": changes.weak, "affine": changes.affine, "strong": changes.strong}


class Classifier:
    """Of the images of a pool.

    Args:
      study: whose engine and trials it is for.
      pool: the images, and their classes.
      network: as the flags describe it.
      batch: images a batch.
      made: whether images are made beside the pool's, which are PNG.
      augment: of the training images: one of AUGMENTATIONS, or "none".
      balance: loss and sampling for classes of unequal size.
      stored_views: augmented views of an image that are stored below a cut; 0: drawn anew, the whole network runs.
    """

    def __init__(
        self, study: Study, pool: Pool, network: Network, *, batch: int, made: bool = False, augment: str = "none",
        stored_views: int = 0, balance: ClassBalance = AS_THEY_ARE,
    ) -> None:  # fmt: skip
        self._engine, self._pool, self._batch = study.engine, pool, batch
        formats = tuple(name for name in images.FORMATS if name in pool.formats or (made and name == "png"))
        self.inputs = Inputs(
            network, classes=len(pool.classes), formats=formats, cache=cache_folder() / "features",
            augmentations=AUGMENTATIONS, training_view=PLAIN if augment == "none" else augment,
            views={**dict.fromkeys(VIEWS, stored_views or 1), augment: stored_views}, store_training=bool(stored_views),
            **engine_options(study.engine),
        )  # fmt: skip
        self._balance = balance
        self._plain_task = Task.of_batches(self.inputs.model, self.inputs.spec, cross_entropy)
        self.task = balance.task(self._plain_task)

    def balanced(self, balance: ClassBalance) -> "Classifier":
        """The same network and images under another loss or sampling."""
        other = copy.copy(self)
        other._balance, other.task = balance, balance.task(self._plain_task)
        return other

    @property
    def balance_settings(self) -> list[ClassBalance]:
        """For a trial's settings: none where all is as it is without them, so that its key is, too."""
        return [] if self._balance == AS_THEY_ARE else [self._balance]

    def batches(self, rows: pd.DataFrame, view: str = PLAIN, **options: Any) -> Any:
        """A dataset of rows in a view; `epochs`, `seed` and `shuffle` as `Inputs.batches` has them."""
        return self.inputs.batches(list(rows.path), self._pool.codes(rows), view, batch=self._batch, **options)

    def recipe(
        self, training: Mapping[str, pd.DataFrame], validated: pd.DataFrame, steps: Sequence[Step] = ()
    ) -> Recipe | None:
        """Of the bundle of a run that trains on these rows; `steps` is what was done to all images beforehand.

        `validated` are the validation images of the run's split.
        """
        here = not self._pool.at_sites
        paths = [path for rows in training.values() for path in rows.path] if here else []
        # Steps have been taken with what is trained and tested on alone: what else there is would be seen as it is not.
        held_back = validated if here and not steps else self._pool.table[:0]
        return self.inputs.recipe(
            self._pool.classes, self._pool.name, paths, list(held_back.path), self._pool.codes(held_back), steps
        )

    def test_images(self, rows: pd.DataFrame) -> TestImages:
        once = functools.partial(self.batches, shuffle=False)
        return TestImages(
            self._engine, self.inputs.model, self.inputs.spec, rows, once, exact=self._exact, codes=self._pool.codes
        )

    def judged(self, tested: pd.DataFrame, validated: pd.DataFrame, select: str) -> tuple[dict[str, TestImages], str]:
        """Parts of a `PredictionEvaluator`, the validation images among them if there are any, and its `chosen_by`."""
        parts = {"": self.test_images(tested)}
        if len(validated):
            parts[VAL] = self.test_images(validated)
        return parts, VAL_LOSS if select == VALIDATION and VAL in parts else ""

    def _exact(self, rows: pd.DataFrame) -> Any:
        return self.inputs.exact(list(rows.path), self._pool.codes(rows), batch=self._batch)

    def clients(
        self, training: Mapping[str, pd.DataFrame], tested: pd.DataFrame, seed: int, epochs: int, first: int = 0
    ) -> list[Client]:
        """One for each entry of `training`, its features stored, and those of what is `tested`.

        A client draws random numbers by its position, counted from `first`.
        """
        self.inputs.prepare([path for rows in training.values() for path in rows.path], TRAINING)
        self.inputs.prepare(list(tested.path), PLAIN)
        counts = {name: self._class_counts(rows) for name, rows in training.items()}
        of_all = np.sum(list(counts.values()), axis=0)
        return [
            Client(
                name,
                functools.partial(
                    self._training, list(rows.path), self._pool.codes(rows), (counts[name], of_all), epochs, seed,
                    position,
                ),
                examples=epochs * len(rows), passes=self._passes(rows, epochs),
            )
            for position, (name, rows) in enumerate(training.items(), first)
        ]  # fmt: skip

    def _passes(self, rows: pd.DataFrame, epochs: int) -> int | None:
        """How often a round sees an image; drawn with replacement, it may be any number of times."""
        return epochs * int(rows.path.value_counts().max()) if self._balance.sampling == "plain" and len(rows) else None

    def _class_counts(self, rows: pd.DataFrame) -> np.ndarray:
        return np.bincount(self._pool.codes(rows), minlength=len(self._pool.classes))

    def _training(
        self, paths: list[str], codes: np.ndarray, counts: tuple[np.ndarray, np.ndarray], epochs: int, seed: int,
        position: int, number: int,
    ) -> Any:  # fmt: skip
        """What the client at a position trains on in a round; `counts` by class, its own and those of all clients."""
        drawn = stream(seed, number, position)
        if self._balance.sampling == "balanced":
            places = drawn_equally(codes, epochs * len(paths), drawn)
            paths, codes, epochs = [paths[place] for place in places], codes[places], 1
        batches = self.inputs.batches(paths, codes, TRAINING, batch=self._batch, epochs=epochs, seed=drawn)
        if not self._balance.counts_needed:
            return batches
        return WithClassCounts(batches, tf.constant(self._balance.counts_for(*counts)))
