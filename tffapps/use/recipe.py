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
class Recipe:
    """Of a trial's bundle. It is followed before another trial is made: a frozen base has the last one's weights."""

    network: Description
    classes: tuple[str, ...]
    preprocess: Preprocess
    halves: Callable[[Weights], Halves]  # of the weights that the rounds train
    data: str  # what tables call the images
    weights: str  # what they call the weights that training began with
    # (weights that the rounds train, paths) → embeddings (n, d); None for a network that has none
    embed: Callable[[Weights, Sequence[str]], np.ndarray] | None = None
    training: Sequence[str] = ()  # paths of images that are here; none where they are at sites
    validation: Sequence[str] = ()
