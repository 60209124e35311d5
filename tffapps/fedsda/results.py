"""What a command has found: its tables and figures are made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tffapps.data.pool import Pool
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.diffusion import LearnedStains
from tffapps.fedsda.quality import PictureQuality
from tffapps.study import Record


@dataclasses.dataclass(frozen=True)
class Results:
    pool: Pool
    fold: Fold  # the whole federation
    records: Sequence[Record]  # of classifiers, with the labels method, side, fold and seed
    separation: Sequence[Mapping[str, Any]]  # a row for each client
    stain_models: Sequence[LearnedStains]  # the one that is used first; none without the side fedsda
    between: Sequence[float]  # distances between clients' stains, every two
    stains: Sequence[np.ndarray] | None  # each client's matrices, where they may be seen here
    quality: PictureQuality | None  # of the sides, where there are several and their images are here
    what_ran: Mapping[str, str]  # data, profile, weights, model

    @property
    def of_everyone(self) -> list[Record]:
        """The records of classifiers that no centre was left out of."""
        return [record for record in self.records if record["fold"] == FEDERATION]
