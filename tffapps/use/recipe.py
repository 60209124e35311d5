"""How a trial's bundle is made: its network, its images, and what of its weights was frozen and what trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tffapps.use.bundle import Preprocess
from tffapps.use.network import Description

Weights = Sequence[np.ndarray]


class Halves(NamedTuple):
    """All weights of a network."""

    base: list[np.ndarray]  # what was frozen
    trained: list[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Looks:
    """A classifier's images that are here, none where all are at sites, and what its network makes of them."""

    locate: Callable[[Weights, Sequence[str]], np.ndarray]  # paths → where they lie (n, d), as `Parts.located` has it
    predict: Callable[[Weights, Sequence[str]], np.ndarray]  # paths → probabilities (n, classes)
    training: Sequence[str]  # paths
    validation: Sequence[str]  # paths of images that it was not trained on
    validation_labels: Sequence[int]  # their classes

    def sampled(self, most: int) -> tuple[list[str], list[str], np.ndarray]:
        """At most so many training images, validation images and labels of these: the same ones every time."""
        chosen = [_places(len(paths), most) for paths in (self.training, self.validation)]
        training = [self.training[place] for place in chosen[0]]
        validation = [self.validation[place] for place in chosen[1]]
        return training, validation, np.array([self.validation_labels[place] for place in chosen[1]], np.int64)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Of a trial's bundle. It is followed before another trial is made: a frozen base has the last one's weights."""

    network: Description
    classes: tuple[str, ...]
    preprocess: Preprocess
    halves: Callable[[Weights], Halves]  # of the weights that the rounds train
    data: str  # what tables call the images
    weights: str  # what they call the weights that training began with
    classifier: Looks | None = None  # None for what gives classes to pixels

    def without_training_images(self) -> Recipe:
        """For a run that promises privacy: what a bundle says of where training images lie is exact."""
        looks = self.classifier and dataclasses.replace(self.classifier, training=())
        return dataclasses.replace(self, classifier=looks)


def _places(count: int, most: int) -> Sequence[int]:
    if count <= most:
        return range(count)
    return sorted(np.random.default_rng(0).choice(count, most, replace=False).tolist())
