"""Predictions of images that only sites have: the weights go there, labels and probabilities come back."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.engine import Engine
from tffapps.errors import UserError
from tffapps.federated.portable import PortableFunction
from tffapps.federated.task import WeightsLayout, data_type

_ATTEMPTS = 2  # a worker that dies is followed by another


class Predictions(NamedTuple):
    labels: np.ndarray  # (n,)
    probabilities: np.ndarray  # (n, classes)
    missing: dict[str, str]  # sites that could not be asked -> why


def predictor(model: tf.keras.Model, element_spec: Any) -> tff.Computation:
    """(weights, batches of (images, labels)) -> (labels, the model's outputs), in the order of the batches."""
    variables, weights = model.weights, WeightsLayout.of(model).specs()
    batches_spec = tf.data.DatasetSpec(element_spec)
    width = model.output_shape[-1]

    @tf.function
    def predict(weights: Any, batches: Any) -> Any:
        for variable, value in zip(variables, weights):
            variable.assign(value)
        labels = tf.TensorArray(tf.int32, size=0, dynamic_size=True, infer_shape=False, element_shape=[None])
        outputs = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False, element_shape=[None, width])
        number = tf.constant(0)
        for images, batch_labels in iter(batches):
            labels = labels.write(number, batch_labels)
            outputs = outputs.write(number, model(images, training=False))
            number += 1
        return labels.concat(), outputs.concat()

    portable = PortableFunction(model, predict, (weights, batches_spec))

    @tff.tensorflow.computation(data_type(weights), data_type(batches_spec))
    def run(weights: Any, batches: Any) -> Any:
        return portable(list(weights), batches)

    return run


def predict(
    engine: Engine,
    computation: tff.Computation,
    weights: Sequence[np.ndarray],
    batches: Mapping[str, tf.data.Dataset],
    expected: Mapping[str, np.ndarray] | None = None,
) -> Predictions:
    """Asks all sites at the same time; `batches` are by site, and so is the order of the result.

    `expected` are the labels of each site's images: a site that answers with others is missing.
    """
    answers, missing = answers_of(engine, computation, weights, batches)
    width = computation.type_signature.result[1].shape[-1]
    wrong = {site: _wrong(answer[0], answer[1], (expected or {}).get(site)) for site, answer in answers.items()}
    missing |= {site: f"refused what site {site} answered: {why}" for site, why in wrong.items() if why}
    found = [answer for site, answer in answers.items() if not wrong[site]]
    labels = np.concatenate([np.zeros(0, np.int64), *(np.asarray(labels, np.int64) for labels, _ in found)])
    probabilities = np.concatenate([np.zeros((0, width), np.float32), *(outputs for _, outputs in found)])
    return Predictions(labels, probabilities, missing)


def _wrong(labels: np.ndarray, outputs: np.ndarray, expected: np.ndarray | None) -> str:
    images = len(labels if expected is None else expected)
    if not len(labels) == len(outputs) == images:
        return f"{len(labels)} labels and {len(outputs)} predictions of {images} images"
    if expected is not None and not np.array_equal(labels, expected):
        return "other labels than its images have"
    return ""


def answers_of(
    engine: Engine, computation: tff.Computation, weights: Sequence[np.ndarray], batches: Mapping[str, tf.data.Dataset]
) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
    """What a computation of (weights, batches) gives at each site, and why the sites that are missing could not."""

    def ask(site: str) -> tuple[Any, ...] | str:
        why = ""
        for _ in range(_ATTEMPTS):
            try:
                return tuple(engine.at_site(site, computation, list(weights), batches[site]))
            except (ConnectionError, UserError) as error:
                why = str(error)
        return why

    with ThreadPoolExecutor(max(1, len(batches)) if engine.sites else 1) as pool:
        answers = dict(zip(batches, pool.map(ask, batches)))
    found = {site: answer for site, answer in answers.items() if not isinstance(answer, str)}
    return found, {site: answer for site, answer in answers.items() if isinstance(answer, str)}
