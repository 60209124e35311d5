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
from tffapps.evaluation.evaluator import rows_of
from tffapps.federated.embeddings import Means
from tffapps.fedstyle import METRICS


def of_global_model(pictures: TestImages, artists: Sequence[str]) -> PredictionEvaluator:
    """`pictures`: the test pictures, predicted by the whole model."""
    return PredictionEvaluator({"": pictures}, scores, METRICS, artists)


@dataclasses.dataclass(frozen=True)
class PrototypeEvaluator:
    """FedProto has no global model: each client's own calls a picture after the nearest prototype; means over clients.

    Args:
      embeddings: the test pictures, of which `embedding_of(model)` makes embeddings, where they are.
      model: that every client has with weights of its own.
      clients: their names, in the order of their positions.
      artists: the classes.
    """

    embeddings: TestImages
    model: tf.keras.Model
    clients: Sequence[str]
    artists: Sequence[str]
    headline: str = METRICS[0]
    chosen_by: str = ""

    def evaluate(self, trained: Trained) -> Metrics:
        prototypes = Means(*trained.state.memory)
        by_client: list[Metrics] = []
        for position in range(len(self.clients)):
            weights = trained.kept(position)
            if weights is None:  # it was left out so far
                continue
            vectors = self.embeddings.predict(_without_head(self.model, weights), last=trained.last)
            if vectors is None:  # a site is away
                return dict.fromkeys(METRICS, float("nan"))
            by_client.append(scores(_nearest(vectors, prototypes)))
        return {metric: float(np.mean([client[metric] for client in by_client])) for metric in METRICS}

    def predicted(self, trained: Trained) -> pd.DataFrame:
        """Every client's model is a judge of every picture."""
        prototypes = Means(*trained.state.memory)
        rows = []
        for position, client in enumerate(self.clients):
            weights = trained.kept(position)
            if weights is not None:
                vectors = self.embeddings.predict_exactly(_without_head(self.model, weights))
                rows.append(rows_of(_nearest(vectors, prototypes), self.artists, judge=client))
        return pd.concat(rows, ignore_index=True).assign(part=stored.TEST)

    def summary(self, row: Mapping[str, Any], weights: Callable[[], list[np.ndarray]]) -> dict[str, Any]:
        return {metric: float(row[metric]) for metric in METRICS}


def scores(predictions: Predictions) -> Metrics:
    every = classification.scores(predictions.labels, predictions.probabilities)
    return {metric: every[metric] for metric in METRICS}


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
