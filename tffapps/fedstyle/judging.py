"""Scores on the test pictures, wherever they are: of a global model, or of clients' models by prototypes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import tensorflow as tf

from models.embedding import embedding_of
from tffapps import fedstyle
from tffapps.engine import Engine
from tffapps.evaluation import classification
from tffapps.evaluation.evaluator import Evaluator
from tffapps.federated.embeddings import Means
from tffapps.fedstyle.data import Federation
from tffapps.inputs import Inputs

Scores = dict[str, float]
_AWAY = dict.fromkeys(fedstyle.METRICS, float("nan"))  # of a round in which a site was not there to be asked


class Judge:
    """Of one federation's test pictures. `last`, of every question: whether it is about a run's last round."""

    def __init__(self, engine: Engine, inputs: Inputs, federation: Federation, batch: int) -> None:
        self._engine, self._inputs, self._federation, self._batch = engine, inputs, federation, batch

    def of_model(self, weights: Sequence[np.ndarray], *, last: bool) -> Scores:
        answers = self._pictures.answers(weights, last=last)
        return _scores(*answers) if answers else dict(_AWAY)

    def of_prototypes(self, prototypes: Means, models: Iterable[Sequence[np.ndarray]], *, last: bool) -> Scores:
        """FedProto has no global model: each client's calls a picture after the nearest prototype; means over clients.

        Embeddings are made where the pictures are.
        """
        values, there = (np.asarray(part) for part in prototypes)
        found = []
        for weights in models:
            answers = self._embeddings.answers(_without_head(self._inputs.model, weights), last=last)
            if answers is None:
                return dict(_AWAY)
            labels, vectors = answers
            apart = np.square(vectors[:, None] - values).mean(axis=2)
            nearest = np.where(there > 0, apart, np.inf).argmin(axis=1)
            found.append(_scores(labels, np.eye(len(values))[nearest]))
        return {metric: float(np.mean([one[metric] for one in found])) for metric in fedstyle.METRICS}

    @functools.cached_property
    def _pictures(self) -> Evaluator:
        return self._evaluator(self._inputs.model)

    @functools.cached_property
    def _embeddings(self) -> Evaluator:
        return self._evaluator(embedding_of(self._inputs.model))

    def _evaluator(self, model: tf.keras.Model) -> Evaluator:
        return Evaluator(self._engine, model, self._inputs.spec, self._federation.part("test"), self._batches)

    def _batches(self, rows: pd.DataFrame) -> tf.data.Dataset:
        return self._inputs.batches(list(rows.path), self._federation.codes(rows), batch=self._batch, shuffle=False)


def _scores(labels: np.ndarray, probabilities: np.ndarray) -> Scores:
    found = classification.scores(labels, probabilities)
    return {metric: found[metric] for metric in fedstyle.METRICS}


def _without_head(model: tf.keras.Model, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Of a model's weights those that its embeddings come from, in their own order."""
    by_variable = {variable.ref(): value for variable, value in zip(model.weights, weights)}
    return [by_variable[variable.ref()] for variable in embedding_of(model).weights]
