"""What a run says of a model that has learned only which class is the commonest."""

import numpy as np
import pandas as pd
import pytest

from tffapps.evaluation.evaluator import PredictionEvaluator, Trained
from tffapps.evaluation.predictions import Predictions


class Given:
    """Test images whose predictions are these."""

    def __init__(self, classes, labels):
        self.predictions = Predictions(np.array(labels), np.eye(3)[classes], pd.DataFrame({"path": labels}))

    def predict(self, weights, *, last):
        return self.predictions


@pytest.mark.parametrize(
    ("classes", "labels", "last", "warned"),
    [
        ([1, 1, 1], [0, 1, 1], True, True),
        ([1, 1, 1], [0, 1, 1], False, False),
        ([1, 1, 0], [0, 1, 1], True, False),
        ([1, 1, 1], [1, 1, 1], True, False),  # nothing else to be found
    ],
)
def test_a_single_class_is_warned_of_at_the_end(classes, labels, last, warned, capsys):
    evaluator = PredictionEvaluator(
        {"": Given(classes, labels)}, lambda predictions: {"accuracy": 1.0}, ("accuracy",), "abc"
    )
    evaluator.evaluate(Trained([], None, 3, last, lambda position: None))
    said = capsys.readouterr().err
    assert ("gives all 3 test images the same class, of 2 that are there" in said) == warned
    assert warned or not said
