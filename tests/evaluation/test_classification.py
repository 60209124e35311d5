"""Scores against numbers worked out by hand, and prediction through one traced function."""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest
import tensorflow as tf

from models.classifiers import build
from tffapps.evaluation import classification
from tffapps.evaluation.classification import SCORES, confusion, examples_of, per_class, predict, scores

CLASSES = ["a", "b", "c"]
LABELS = np.array([0, 0, 1, 2])
PROBABILITIES = np.array(
    [
        [0.7, 0.2, 0.1],  # a, right
        [0.1, 0.8, 0.1],  # b, wrong
        [0.2, 0.5, 0.3],  # b, right
        [0.3, 0.4, 0.3],  # b, wrong
    ]
)


def test_three_classes_by_hand():
    # precision 1, 1/3, 0; recall 1/2, 1, 0; f1 2/3, 1/2, 0; support 2, 1, 1
    # pairs won, class a: 2 of 4; b: 2 of 3; c: 2.5 of 3 (a tie is half). Average precision: 3/4, 1/2, 1/2
    assert scores(LABELS, PROBABILITIES) == pytest.approx(
        {
            "accuracy": 1 / 2,
            "precision": 7 / 12,
            "recall": 1 / 2,
            "f1": 11 / 24,
            "macro_precision": 4 / 9,
            "macro_recall": 1 / 2,
            "macro_f1": 7 / 18,
            "auroc": 2 / 3,
            "auprc": 7 / 12,
            "loss": -math.log(0.7 * 0.1 * 0.5 * 0.3) / 4,
        }
    )


def test_two_classes_go_the_same_way():
    labels = np.array([0, 1, 1])
    positive = np.array([0.6, 0.9, 0.3])
    result = scores(labels, np.stack([1 - positive, positive], axis=1))
    # class 0: .7 .4+ .1: its one positive wins 1 of 2
    # class 1: .9+ .6 .3+: wins 1 of 2. Average precision: class 0 1/2, class 1 (1 + 2/3)/2 = 5/6
    assert result["auroc"] == pytest.approx(1 / 2)
    assert result["auprc"] == pytest.approx((1 / 2 + 5 / 6) / 2)
    assert result["accuracy"] == pytest.approx(1 / 3)
    # class 0: precision 0/1, recall 0; class 1: precision 1/2, recall 1/2
    assert result["f1"] == pytest.approx(1 / 3)
    assert result["macro_f1"] == pytest.approx(1 / 4)


def test_a_class_nowhere_seen_does_not_count():
    labels = np.array([0, 0])
    result = scores(labels, np.array([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]]))
    assert result["macro_f1"] == pytest.approx(1 / 3)  # (2/3 + 0) over a and c; b is neither true nor predicted
    assert result["macro_recall"] == pytest.approx(1 / 4)
    assert math.isnan(result["auroc"]) and math.isnan(result["auprc"])
    assert result["loss"] == pytest.approx(-math.log(0.8 * 0.1) / 2)


def test_areas_are_over_the_classes_that_occur():
    labels = np.array([0, 1, 1])
    probabilities = np.array([[0.5, 0.4, 0.1], [0.2, 0.6, 0.2], [0.6, 0.3, 0.1]])
    # class 0 wins 1 of 2, class 1 wins 1 of 2; class 2 has no examples
    assert scores(labels, probabilities)["auroc"] == pytest.approx(1 / 2)


def test_a_certain_mistake_costs_a_finite_loss():
    assert scores(np.array([1]), np.array([[1.0, 0.0]]))["loss"] == pytest.approx(-math.log(1e-7))


def test_perfect_predictions():
    result = scores(np.array([0, 1, 2]), np.eye(3))
    assert result == {name: 0.0 if name == "loss" else 1.0 for name in SCORES}


def test_no_examples():
    result = scores(np.zeros(0, int), np.zeros((0, 3)))
    assert tuple(result) == SCORES and all(math.isnan(value) for value in result.values())
    assert confusion(np.zeros(0, int), np.zeros((0, 3)), CLASSES).to_numpy().sum() == 0
    table = per_class(np.zeros(0, int), np.zeros((0, 3)), CLASSES)
    assert table["support"].tolist() == [0, 0, 0] and table["f1"].isna().all()


def test_confusion_has_true_rows():
    table = confusion(LABELS, PROBABILITIES, CLASSES)
    assert table.to_numpy().tolist() == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert table.index.tolist() == table.columns.tolist() == CLASSES
    assert (table.index.name, table.columns.name) == ("true", "predicted")
    assert table.loc["a", "b"] == 1 and table.loc["b", "a"] == 0


def test_a_confusion_matrix_as_examples():
    counts = confusion(LABELS, PROBABILITIES, CLASSES).to_numpy()
    labels, certain = examples_of(counts)
    assert sorted(zip(labels, certain.argmax(axis=1))) == [(0, 0), (0, 1), (1, 1), (2, 1)]
    assert confusion(labels, certain, CLASSES).to_numpy().tolist() == counts.tolist()


def test_per_class_by_hand():
    table = per_class(LABELS, PROBABILITIES, CLASSES)
    assert table.index.tolist() == CLASSES
    np.testing.assert_allclose(table["precision"], [1, 1 / 3, 0])
    np.testing.assert_allclose(table["recall"], [1 / 2, 1, 0])
    np.testing.assert_allclose(table["f1"], [2 / 3, 1 / 2, 0])
    assert table["support"].tolist() == [2, 1, 1]
    assert per_class(LABELS[:3], PROBABILITIES[:3], CLASSES)["support"].tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("labels", "probabilities", "words"),
    [
        ([0, 1, 0], [[np.nan, 1], [0, 1], [np.inf, 0]], "2 of 3 rows"),
        ([0, 2], [[1, 0], [0, 1]], "labels from 0 to 2: expected 0 to 1"),
        ([-1, 0], [[1, 0], [0, 1]], "labels from -1 to 0"),
        ([0.0, 1.0], [[1, 0], [0, 1]], "float64: expected integers"),
        ([0, 1], [[1, 0]], r"labels \(2,\) and probabilities \(1, 2\)"),
        ([0, 0], [[1], [1]], "2 or more classes"),
    ],
)
def test_bad_input_is_named(labels, probabilities, words):
    with pytest.raises(ValueError, match=words):
        scores(np.array(labels), np.array(probabilities))
    with pytest.raises(ValueError, match=words):
        confusion(np.array(labels), np.array(probabilities), ["x"] * len(probabilities[0]))


def test_class_names_must_match_the_columns():
    with pytest.raises(ValueError, match="2 class names for 3 columns"):
        per_class(LABELS, PROBABILITIES, ["a", "b"])


def examples(number: int, batch: int) -> tuple[np.ndarray, np.ndarray, tf.data.Dataset]:
    generator = np.random.default_rng(number)
    images = generator.random((number, 16, 16, 3), dtype=np.float32)
    labels = generator.integers(0, 3, number, dtype=np.int32)
    return images, labels, tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch)


def moved_model() -> tf.keras.Model:
    """A model whose batch statistics differ from those of any batch, so that training mode would show."""
    model = build("tiny", input_shape=(16, 16, 3), classes=3)
    model.set_weights([array + 0.3 if array.ndim == 1 else array for array in model.get_weights()])
    return model


def test_predict_keeps_the_order_and_the_last_batch():
    model = moved_model()
    images, labels, dataset = examples(10, batch=4)
    found, probabilities = predict(model, dataset)
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_allclose(probabilities, model(images, training=False), atol=1e-6)
    assert np.abs(probabilities - model(images, training=True)).max() > 1e-3


def test_predict_traces_once_and_sees_new_weights():
    model = moved_model()
    before = predict(model, examples(10, batch=4)[2])[1]
    predict(model, examples(3, batch=2)[2])
    model.set_weights([array * 0.5 for array in model.get_weights()])
    after = predict(model, examples(10, batch=4)[2])[1]
    assert np.abs(before - after).max() > 1e-3
    assert classification._compiled(model).experimental_get_tracing_count() == 1


def test_predict_of_nothing():
    labels, probabilities = predict(moved_model(), examples(0, batch=4)[2])
    assert labels.shape == (0,) and probabilities.shape == (0, 3)


def test_predict_refuses_images_that_were_not_scaled():
    dataset = examples(4, batch=4)[2].map(lambda image, label: (tf.cast(image * 255, tf.uint8), label))
    with pytest.raises(TypeError, match="uint8"):
        predict(moved_model(), dataset)


def test_predict_does_not_keep_models_alive():
    model = moved_model()
    predict(model, examples(2, batch=2)[2])
    held = weakref.ref(model)
    del model
    gc.collect()
    assert held() is None
