"""What runs are judged by: a global model by its predictions, FedProto's clients by the nearest prototype."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from models.embedding import embedding_of
from tffapps import Metrics, PredictionEvaluator, Predictions, TestImages, Trained
from tffapps.evaluation import classification, stored
from tffapps.evaluation.evaluator import LOSS, VAL, VAL_LOSS, rows_of
from tffapps.evaluation.personal import together
from tffapps.federated.embeddings import Means
from tffapps.fedstyle import METRICS


def of_global_model(
    pictures: TestImages, artists: Sequence[str], validation: TestImages | None = None, select: bool = False
) -> PredictionEvaluator:
    """`pictures`: the test pictures, predicted by the whole model; `select`: whether validation chooses a round."""
    parts = {"": pictures, **({VAL: validation} if validation else {})}
    return PredictionEvaluator(parts, scores, METRICS, artists, chosen_by=VAL_LOSS if select and validation else "")


@dataclasses.dataclass(frozen=True)
class PrototypeEvaluator:
    """FedProto has no global model: each client's own calls a picture after the nearest prototype; means over clients.

    Across sites a client's model does not leave its site, so it is shown that site's pictures alone (`own`); metrics
    are then over all pictures, each called by the model of the client that has it. The loss is the share that is called
    wrongly; no round is chosen by it, because of what clients keep the last alone is there.

    Args:
      embeddings: the test pictures, of which `embedding_of(model)` makes embeddings, where they are.
      model: that every client has with weights of its own.
      clients: their names, in the order of their positions.
      artists: the classes.
      validation: the validation pictures, if there are any, as `embeddings`.
      own: across sites, in place of `embeddings`: the pictures of each client, by its name; None where it has none.
    """

    embeddings: TestImages
    model: tf.keras.Model
    clients: Sequence[str]
    artists: Sequence[str]
    own: Mapping[str, TestImages | None] | None = None
    validation: TestImages | None = None
    headline: str = METRICS[0]
    chosen_by: str = ""

    def evaluate(self, trained: Trained) -> Metrics:
        prototypes = Means(*trained.state.memory)
        if self.own is not None:
            found = [pictures.predict(weights, last=trained.last) for pictures, weights in self._judged(trained)]
            there = [vectors for vectors in found if vectors is not None]
            if len(there) < len(found):  # a site is away
                return _with_loss(dict.fromkeys(METRICS, float("nan")))
            return _with_loss(scores(_nearest(together(there), prototypes)))
        metrics = _with_loss(self._mean_over_clients(self.embeddings, trained, prototypes))
        if self.validation is not None:
            metrics |= _with_loss(self._mean_over_clients(self.validation, trained, prototypes), VAL)
        return metrics

    def _mean_over_clients(self, pictures: TestImages, trained: Trained, prototypes: Means) -> Metrics:
        by_client: list[Metrics] = []
        for position in range(len(self.clients)):
            weights = trained.kept(position)
            if weights is None:  # it was left out so far
                continue
            vectors = pictures.predict(_without_head(self.model, weights), last=trained.last)
            if vectors is None:  # a site is away
                return dict.fromkeys(METRICS, float("nan"))
            by_client.append(scores(_nearest(vectors, prototypes)))
        return {metric: float(np.mean([client[metric] for client in by_client])) for metric in METRICS}

    def predicted(self, trained: Trained) -> pd.DataFrame:
        """Every client's model is a judge of every picture that it can be shown."""
        prototypes = Means(*trained.state.memory)
        if self.own is not None:
            vectors = together([pictures.predict_exactly(weights) for pictures, weights in self._judged(trained)])
            return rows_of(_nearest(vectors, prototypes), self.artists).assign(part=stored.TEST)
        rows = []
        for position, client in enumerate(self.clients):
            weights = trained.kept(position)
            if weights is not None:
                vectors = self.embeddings.predict_exactly(_without_head(self.model, weights))
                rows.append(rows_of(_nearest(vectors, prototypes), self.artists, judge=client))
        return pd.concat(rows, ignore_index=True).assign(part=stored.TEST)

    def _judged(self, trained: Trained) -> list[tuple[TestImages, list[np.ndarray]]]:
        """Each client's pictures, and the part of its model that makes embeddings; before its first round the first."""
        assert self.own is not None
        return [
            (pictures, _without_head(self.model, trained.kept(position) or trained.weights))
            for position, client in enumerate(self.clients)
            if (pictures := self.own.get(client)) is not None
        ]

    def summary(self, row: Mapping[str, Any], weights: Callable[[], list[np.ndarray]]) -> dict[str, Any]:
        return {metric: float(row[metric]) for metric in METRICS}


def scores(predictions: Predictions) -> Metrics:
    every = classification.scores(predictions.labels, predictions.probabilities)
    return {metric: every[metric] for metric in METRICS}


def _with_loss(metrics: Metrics, prefix: str = "") -> Metrics:
    return {**{prefix + name: value for name, value in metrics.items()}, prefix + LOSS: 1 - metrics[METRICS[0]]}


def _nearest(vectors: Predictions, prototypes: Means) -> Predictions:
    """Probability 1 for the class whose prototype is nearest."""
    values, there = np.asarray(prototypes.values), np.asarray(prototypes.there)
    distances = np.square(vectors.probabilities[:, None] - values).mean(axis=2)  # (pictures, classes)
    nearest = np.where(there > 0, distances, np.inf).argmin(axis=1)
    return dataclasses.replace(vectors, probabilities=np.eye(len(values))[nearest])


def _without_head(model: tf.keras.Model, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Of a model's weights those that its embeddings come from, in their own order."""
    by_variable = {variable.ref(): value for variable, value in zip(model.weights, weights)}
    return [by_variable[variable.ref()] for variable in embedding_of(model).weights]
