"""How a federation is judged in which every client has a model of its own: each on its own images."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps.evaluation import stored
from tffapps.evaluation.evaluator import Metrics, Trained, rows_of
from tffapps.evaluation.predictions import Predictions, TestImages


@dataclasses.dataclass(frozen=True)
class PersonalEvaluator:
    """Metrics over all test images, each predicted by the model of the client that has it; the headline's also client
    by client, `<headline>_<client>`, and as the mean over clients, `<headline>_client_mean`.

    Args:
      parts: the test images of each client, by its name, in the order of their positions; None where it has none.
      scores: the metrics of predictions.
      metrics: names of those in the summary, which are NaN in a round in which predictions could not be had.
      classes: their names, in the order of the probabilities.
      headline: the one that is shown.
    """

    parts: Mapping[str, TestImages | None]
    scores: Callable[[Predictions], Metrics]
    metrics: tuple[str, ...]
    classes: Sequence[str]
    headline: str = "accuracy"
    chosen_by: str = ""

    def evaluate(self, trained: Trained) -> Metrics:
        of_clients: dict[str, Predictions] = {}
        for client, (images, weights) in self._judged(trained).items():
            predictions = images.predict(weights, last=trained.last)
            if predictions is None:  # a site is away
                names = (
                    *self.metrics,
                    f"{self.headline}_client_mean",
                    *(f"{self.headline}_{each}" for each in self.parts),
                )
                return dict.fromkeys(names, float("nan"))
            of_clients[client] = predictions
        found = self.scores(together(list(of_clients.values())))
        each = {client: self.scores(predictions)[self.headline] for client, predictions in of_clients.items()}
        found[f"{self.headline}_client_mean"] = float(np.mean(list(each.values())))
        return {**found, **{f"{self.headline}_{client}": value for client, value in each.items()}}

    def predicted(self, trained: Trained) -> pd.DataFrame:
        found = [images.predict_exactly(weights) for images, weights in self._judged(trained).values()]
        # Named when they are together: a subject may have images at two clients.
        return rows_of(together(found), self.classes).assign(part=stored.TEST)

    def summary(self, row: Mapping[str, Any], weights: Callable[[], list[np.ndarray]]) -> dict[str, Any]:
        return {metric: float(row[metric]) for metric in (*self.metrics, f"{self.headline}_client_mean")}

    def _judged(self, trained: Trained) -> dict[str, tuple[TestImages, list[np.ndarray]]]:
        """Client → its images and its model; before its first round that is the global one."""
        return {
            client: (images, trained.kept(position) or trained.weights)
            for position, (client, images) in enumerate(self.parts.items())
            if images is not None
        }


def together(parts: Sequence[Predictions]) -> Predictions:
    """Of several clients' images."""
    return Predictions(
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.probabilities for part in parts]),
        pd.concat([part.images for part in parts]),
    )
