"""How a federation is judged after every round: predictions first, metrics from them."""

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from tffapps.evaluation import classification, identities, stored
from tffapps.evaluation.predictions import Predictions, TestImages

Metrics = dict[str, float]
LOSS, VAL = "loss", "val_"
VAL_LOSS = VAL + LOSS
PARTS = {"": stored.TEST, VAL: stored.VALIDATION}  # by the prefix of their metrics


@dataclasses.dataclass(frozen=True)
class Trained:
    """A federation after a round."""

    weights: list[np.ndarray]  # of the global model, to be judged and used
    state: Any  # the server's, whole
    number: int  # of the round
    last: bool  # whether the round is the run's last
    kept: Callable[[int], list[np.ndarray] | None]  # a client's own model, by its position; None before its first round


class Evaluator(Protocol):
    """What a trial is judged by."""

    @property
    def headline(self) -> str:
        """The metric that is shown while it trains."""

    @property
    def chosen_by(self) -> str:
        """The metric whose lowest value chooses the weights that stand for the run; "": the last round's do."""

    def evaluate(self, trained: Trained) -> Metrics:
        """The row of a round."""

    def predicted(self, trained: Trained) -> pd.DataFrame:
        """What a finished run stores: one row an image, as `evaluation.stored` describes, without the model's name.

        Empty for what predicts nothing of images.
        """

    def summary(self, row: Mapping[str, Any], weights: Callable[[], list[np.ndarray]]) -> dict[str, Any]:
        """What a finished run says of itself: of the chosen round's row, and its weights."""


@dataclasses.dataclass(frozen=True)
class PredictionEvaluator:
    """Of a model that gives every image probabilities.

    Args:
      parts: what is predicted, by the prefix of its metrics: "" for the test images.
      scores: the metrics of predictions.
      metrics: names of those in the summary, which are NaN in a round in which predictions could not be had.
      classes: their names, in the order of the probabilities.
      headline: the one that is shown.
      chosen_by: VAL_LOSS, where a round is chosen by the validation images; "": the last one stands for the run.
    """

    parts: Mapping[str, TestImages]
    scores: Callable[[Predictions], Metrics]
    metrics: tuple[str, ...]
    classes: Sequence[str]
    headline: str = "accuracy"
    chosen_by: str = ""

    def predict(self, trained: Trained) -> dict[str, Predictions | None]:
        return {prefix: part.predict(trained.weights, last=trained.last) for prefix, part in self.parts.items()}

    def evaluate(self, trained: Trained) -> Metrics:
        metrics: Metrics = {}
        for prefix, predictions in self.predict(trained).items():
            if trained.last and not prefix and predictions:
                _warn_of_a_single_class(predictions)
            values = self.scores(predictions) if predictions else dict.fromkeys(self.metrics, float("nan"))
            metrics |= {prefix + name: value for name, value in values.items()}
            metrics[prefix + LOSS] = _mean_loss(predictions) if predictions else float("nan")
        if self.chosen_by:
            metrics.setdefault(self.chosen_by, float("nan"))  # a site is away
        return metrics

    def predicted(self, trained: Trained) -> pd.DataFrame:
        return pd.concat(
            [
                rows_of(part.predict_exactly(trained.weights), self.classes).assign(part=PARTS[prefix])
                for prefix, part in self.parts.items()
            ],
            ignore_index=True,
        )

    def summary(self, row: Mapping[str, Any], weights: Callable[[], list[np.ndarray]]) -> dict[str, Any]:
        chosen = {"round": int(row["round"])} if self.chosen_by else {}
        return {**chosen, **{metric: float(row[metric]) for metric in self.metrics}}


def _mean_loss(predictions: Predictions) -> float:
    """By which rounds are chosen: of a score with steps, such as accuracy, several have the best."""
    return float(classification.losses(predictions.labels, predictions.probabilities).mean())


def rows_of(predictions: Predictions, classes: Sequence[str], judge: str = "") -> pd.DataFrame:
    """One row an image, as it is stored; `judge`: whose model it was."""
    names = list(classes)
    return identities.identified(predictions.images).assign(
        judge=judge,
        label=[names[code] for code in predictions.labels],
        **stored.probability_columns(predictions.probabilities, names),
    )


def _warn_of_a_single_class(predictions: Predictions) -> None:
    """A model that has learned only which class is the commonest can have a good accuracy."""
    predicted, there = np.unique(predictions.probabilities.argmax(axis=1)), np.unique(predictions.labels)
    if len(predicted) == 1 and len(there) > 1:
        print(
            f"warning: after its last round the model gives all {len(predictions.labels)} test images the same class, "
            f"of {len(there)} that are there; try another --learning-rate, more --rounds, --norm group, or another cut "
            "(--train-from)",
            file=sys.stderr,
        )
