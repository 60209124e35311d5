"""Clients' own models on their own images: over all images, client by client, and what is stored."""

import numpy as np
import pandas as pd
import pytest

from tffapps.evaluation import classification
from tffapps.evaluation.evaluator import Trained
from tffapps.evaluation.personal import PersonalEvaluator
from tffapps.evaluation.predictions import Predictions


class Images:
    """Predicts the class that its "weights" say, for every image."""

    def __init__(self, client, labels, away=False, subject=""):
        self._labels, self._away = np.array(labels), away
        self._images = pd.DataFrame(
            {
                "path": [f"{client}{i}.png" for i in range(len(labels))],
                "client": client,
                "label": "x",
                "subject": subject,
            }
        )

    def predict(self, weights, *, last):
        if self._away:
            return None
        return Predictions(self._labels, np.tile(np.eye(2)[int(weights[0])], (len(self._labels), 1)), self._images)

    def predict_exactly(self, weights):
        return self.predict(weights, last=True)


def scores(predictions):
    return {"accuracy": classification.scores(predictions.labels, predictions.probabilities)["accuracy"]}


def evaluator(**changes):
    parts = {"a": Images("a", [0, 0, 0, 1]), "b": None, "c": Images("c", [1, 1]), **changes}
    return PersonalEvaluator(parts, scores, ("accuracy",), ["x", "y"])


def trained(last=False):
    own = {0: [np.array(0)], 2: None}  # the third was left out so far: the global model stands for its own
    return Trained([np.array(1)], None, 1, last=last, kept=own.__getitem__)


def test_scores_by_hand():
    found = evaluator().evaluate(trained())
    assert found == pytest.approx(
        {"accuracy": 5 / 6, "accuracy_client_mean": 7 / 8, "accuracy_a": 3 / 4, "accuracy_c": 1}
    )
    assert evaluator().summary(found, list) == {"accuracy": 5 / 6, "accuracy_client_mean": 7 / 8}


def test_without_a_site_the_round_has_no_scores():
    found = evaluator(a=Images("a", [0], away=True)).evaluate(trained())
    assert set(found) == {"accuracy", "accuracy_client_mean", "accuracy_a", "accuracy_b", "accuracy_c"}
    assert np.isnan(list(found.values())).all()


def test_every_image_is_stored_once_with_its_clients_model():
    rows = evaluator().predicted(trained(last=True))
    assert rows.client.tolist() == ["a"] * 4 + ["c"] * 2 and rows.p_x.tolist() == [1] * 4 + [0] * 2
    assert set(rows.judge) == {""} and set(rows.part) == {"test"}


def test_a_subject_with_images_at_two_clients_has_one_name():
    both = evaluator(a=Images("a", [0, 1], subject="s"), c=Images("c", [1], subject="s"))
    assert set(both.predicted(trained(last=True)).subject) == {"a:a0.png"}  # the first of its images
