"""A small network with embeddings of three numbers and BatchNorm, for methods that learn from embeddings."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from models.embedding import with_embedding
from models.initialise import seed_weights
from tffapps.engine import open_engine
from tffapps.federated.cohort import Client, play
from tffapps.federated.embeddings import TrainingAndOnce
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy

CLASSES, SIZE, RATE = 3, 3, 0.1
SPEC = (tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None], tf.int32))


def task(server: bool = False) -> Task:
    layers = tf.keras.layers
    parts = [layers.Dense(SIZE), layers.BatchNormalization(momentum=0.5), layers.ReLU()]
    model = tf.keras.Sequential([layers.Input((4,)), *parts, layers.Dense(CLASSES, "softmax")])
    seed_weights(model, 1)
    made = Task.of_batches(model, SPEC, cross_entropy)
    return dataclasses.replace(made, server_spec=TrainingAndOnce.spec(SPEC)) if server else made


START = task().model.get_weights()


def arrays(client: int, count: int = 12, classes: tuple[int, ...] = (0, 1, 2)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([11, client])
    labels = rng.choice(classes, count).astype(np.int32)
    return (rng.normal(size=(count, 4)) + labels[:, None]).astype(np.float32), labels


def dataset(*arguments, **settings) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays(*arguments, **settings)).batch(4)


@functools.cache
def fedavg(rate: float, momentum: float = 0.0):
    return build_round(task(), FedAvg(learning_rate=rate, momentum=momentum))


def played(round_, data, rounds=2, engine="in-process", server_data=None):
    """(the states, what each client keeps) after every round."""
    clients = [Client(f"{place}", lambda _, one=one: one) for place, one in enumerate(data)]
    kept = {position: round_.first_kept(START) for position in range(len(data))}
    states = []
    with open_engine(engine):
        state = round_.start(START)
        for number in range(1, rounds + 1):
            outcome = play(
                round_, state, clients, number, len(clients), server_data and (lambda _: server_data), kept.__getitem__
            )
            state, kept = outcome.state, {**kept, **{place: one() for place, one in outcome.kept.items()}}
            states.append((state, dict(kept)))
    return states


def style_by_hand(weights, pairs) -> tuple[np.ndarray, np.ndarray]:
    """Mean embeddings (classes, d) of (images, labels) by a model with these weights, and which classes there are."""
    network = task().model
    network.set_weights([np.asarray(value) for value in weights])
    images, labels = (np.concatenate(part) for part in zip(*pairs))
    vectors = with_embedding(network)(images, training=False)[0].numpy()
    there = np.array([label in labels for label in range(CLASSES)], np.float32)
    rows = [vectors[labels == label].mean(0) if there[label] else np.zeros(SIZE) for label in range(CLASSES)]
    return np.array(rows), there
