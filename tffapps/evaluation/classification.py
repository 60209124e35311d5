"""Scores of a classifier. Two classes and many go the same way: one column of probabilities per class."""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf
from sklearn import metrics

from tffapps.errors import Diverged

SCORES = (
    "accuracy",
    "precision",
    "recall",
    "f1",
    "macro_precision",
    "macro_recall",
    "macro_f1",
    "auroc",
    "auprc",
    "loss",
)
SMALLEST_PROBABILITY = 1e-7  # keeps the loss of a confident mistake finite; Keras clips at the same value


def scores(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """All of SCORES; NaN throughout for no examples.

    precision, recall and f1 are weighted by class size; macro_* are plain means over the classes that occur
    among labels or predictions, with 0 for 0/0. auroc and auprc are means of one-against-the-rest areas over
    the classes that some but not all examples belong to (NaN if there is none), also for two classes.
    """
    labels, probabilities = _checked(labels, probabilities)
    if not len(labels):
        return {name: float("nan") for name in SCORES}
    predicted = probabilities.argmax(axis=1)
    result = {"accuracy": metrics.accuracy_score(labels, predicted)}
    for prefix, average in (("", "weighted"), ("macro_", "macro")):
        values = metrics.precision_recall_fscore_support(labels, predicted, average=average, zero_division=0)
        for name, value in zip(("precision", "recall", "f1"), values):
            result[prefix + name] = value
    areas = []
    for index, column in enumerate(probabilities.T):
        positive = labels == index
        if 0 < positive.sum() < len(labels):
            areas.append((metrics.roc_auc_score(positive, column), metrics.average_precision_score(positive, column)))
    result["auroc"], result["auprc"] = np.mean(areas, axis=0) if areas else (np.nan, np.nan)
    result["loss"] = losses(labels, probabilities).mean()
    return {name: float(result[name]) for name in SCORES}


def losses(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """(n,) the cross-entropy of each example."""
    likelihood = probabilities[np.arange(len(labels)), labels]
    return -np.log(np.clip(likelihood, SMALLEST_PROBABILITY, 1.0))


def confusion(labels: np.ndarray, probabilities: np.ndarray, classes: Sequence[str]) -> pd.DataFrame:
    """Counts of examples: one row per true class, one column per predicted class."""
    labels, probabilities = _checked(labels, probabilities, classes)
    counts = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(counts, (labels, probabilities.argmax(axis=1)), 1)
    return pd.DataFrame(counts, index=pd.Index(classes, name="true"), columns=pd.Index(classes, name="predicted"))


def per_class(labels: np.ndarray, probabilities: np.ndarray, classes: Sequence[str]) -> pd.DataFrame:
    """precision, recall, f1 and support of every class, 0 for 0/0; NaN for no examples."""
    labels, probabilities = _checked(labels, probabilities, classes)
    columns = ["precision", "recall", "f1", "support"]
    index = pd.Index(classes, name="class")
    if not len(labels):
        table = pd.DataFrame(np.nan, index=index, columns=columns)
        return table.assign(support=0)
    values = metrics.precision_recall_fscore_support(
        labels, probabilities.argmax(axis=1), labels=np.arange(len(classes)), zero_division=0
    )
    return pd.DataFrame(dict(zip(columns, values)), index=index)


def scores_of_counts(counts: np.ndarray) -> dict[str, float]:
    """Those of SCORES that a confusion matrix (true, predicted) tells; NaN for the others."""
    found = scores(*examples_of(counts))
    return {name: value if name not in ("auroc", "auprc", "loss") else float("nan") for name, value in found.items()}


def examples_of(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and (certain) probabilities with this confusion matrix (true, predicted), as `scores` takes them."""
    counts = np.asarray(counts, np.int64)
    labels, predicted = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    return labels, np.eye(len(counts))[predicted]


def predict(model: tf.keras.Model, dataset: tf.data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n,) and outputs, probabilities (n, classes), of a dataset of (images, labels) batches, in its order."""
    run = _compiled(model)
    labels = [np.zeros(0, np.int64)]
    outputs = [np.zeros((0, model.output_shape[-1]), np.float32)]
    for images, batch_labels in dataset:
        outputs.append(run(images).numpy())
        labels.append(batch_labels.numpy().astype(np.int64))
    return np.concatenate(labels), np.concatenate(outputs)


def finite_predictions(model: tf.keras.Model, dataset: tf.data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The same, or a UserError that says what to do about a model that has diverged."""
    labels, probabilities = predict(model, dataset)
    check_finite(probabilities)
    return labels, probabilities


def check_finite(probabilities: np.ndarray) -> None:
    """A UserError that says what to do about a model that has diverged."""
    if not np.isfinite(probabilities).all():
        raise Diverged("the model's predictions are not finite: lower the learning rates (or --dp-noise)")


_functions: weakref.WeakKeyDictionary[tf.keras.Model, Any] = weakref.WeakKeyDictionary()


def _compiled(model: tf.keras.Model) -> Any:
    """The model's forward pass, traced once for every batch size and dataset."""
    if model not in _functions:
        held: Any = weakref.ref(model)  # a strong reference from the value would keep the key alive for ever
        images = tf.TensorSpec((None, *model.input_shape[1:]), tf.float32)
        _functions[model] = tf.function(lambda x: held()(x, training=False), input_signature=[images])
    return _functions[model]


def _checked(
    labels: np.ndarray, probabilities: np.ndarray, classes: Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    labels, probabilities = np.asarray(labels), np.asarray(probabilities, np.float64)
    if labels.ndim != 1 or probabilities.ndim != 2 or len(labels) != len(probabilities):
        raise ValueError(
            f"labels {labels.shape} and probabilities {probabilities.shape}: expected (n,) and (n, classes)"
        )
    count = probabilities.shape[1]
    if count < 2:
        raise ValueError(f"probabilities {probabilities.shape}: expected a column for each of 2 or more classes")
    if classes is not None and len(classes) != count:
        raise ValueError(f"{len(classes)} class names for {count} columns of probabilities")
    bad = int((~np.isfinite(probabilities)).any(axis=1).sum())
    if bad:
        raise ValueError(f"{bad} of {len(labels)} rows of probabilities are not finite: the model has diverged")
    if len(labels) and not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels of type {labels.dtype}: expected integers")
    if len(labels) and not (labels.min() >= 0 and labels.max() < count):
        raise ValueError(f"labels from {labels.min()} to {labels.max()}: expected 0 to {count - 1}")
    return labels.astype(np.int64), probabilities
