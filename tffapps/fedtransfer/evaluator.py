"""How a run is judged: a round is chosen by its validation loss, and its weights are tested once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tffapps.errors import RunStopped
from tffapps.evaluation.evaluator import Metrics, Trained
from tffapps.fedtransfer import GLOBAL, METRICS
from tffapps.fedtransfer.data import Tiles
from tffapps.fedtransfer.scoring import Scoring, Weights

LOSS = "validation_loss"


@dataclasses.dataclass(frozen=True)
class GrainEvaluator:
    run: str  # its name, for the user
    scoring: Scoring
    tiles: Tiles
    validated: list[str]  # the clients whose validation tiles choose a round
    headline: str = LOSS
    chosen_by: str = LOSS

    def evaluate(self, trained: Trained) -> Metrics:
        """The loss on each client's validation tiles, and the mean of these."""
        losses = self.scoring.losses(trained.weights, self.tiles, self.validated, last=trained.last)
        mean = float(np.mean(list(losses.values())))
        return {LOSS: mean, **{f"{LOSS}_{client}": loss for client, loss in losses.items()}}

    def summary(self, row: Mapping[str, Any], weights: Callable[[], list[np.ndarray]]) -> dict[str, Any]:
        """`scores` are means over the test tiles of each client, and of all together."""
        if not math.isfinite(row[LOSS]):
            raise RunStopped(f"{self.run}: no round has a finite validation loss; lower --learning-rate")
        return {"round": int(row["round"]), LOSS: float(row[LOSS]), "scores": self.test(weights())}

    def test(self, weights: Weights) -> dict[str, dict[str, float]]:
        """Client or GLOBAL → metrics."""
        grains = self.scoring.grains(weights, self.tiles)
        grains[GLOBAL] = np.concatenate(list(grains.values()))
        return {name: dict(zip(METRICS, rows.mean(axis=0).tolist())) for name, rows in grains.items()}
