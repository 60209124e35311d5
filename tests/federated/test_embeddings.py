"""Mean embeddings of classes: by hand, in both modes of BatchNorm, and over clients."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from models.embedding import with_embedding
from tests.conftest import largest_difference
from tests.federated.embedded import CLASSES, SPEC, START, arrays, dataset, style_by_hand, task
from tffapps.federated.embeddings import ClassSums, Means, TrainingAndOnce, cosines, received_means
from tffapps.federated.fedproto import FedProto
from tffapps.federated.local import Counted
from tffapps.federated.methods import EMBEDDING_METHODS, METHODS


def in_training_mode(data):
    network = task().model
    vectors = np.concatenate([with_embedding(network)(images, training=True)[0] for images, _ in data])
    labels = np.concatenate([labels for _, labels in data])
    return np.array([vectors[labels == label].mean(0) for label in range(CLASSES)])


@pytest.mark.parametrize("statistics", ["moving", "batch"])
def test_class_means_by_hand_and_the_model_stays_as_it_is(statistics):
    own, data = task(), dataset(0)
    found = FedProto(embedding_statistics=statistics).class_sums(own, data)
    expected = style_by_hand(START, [arrays(0)])[0] if statistics == "moving" else in_training_mode(data)
    np.testing.assert_allclose(found.means().values, expected, atol=1e-5)
    assert found.counts.numpy().tolist() == np.bincount(arrays(0)[1], minlength=CLASSES).tolist()
    assert largest_difference(own.model.get_weights(), START) == 0
    assert np.abs(style_by_hand(START, [arrays(0)])[0] - in_training_mode(data)).max() > 1e-2


def test_means_over_clients_are_over_images():
    """Two clients of 30 and 10 examples seen (three epochs, one epoch), means weighted like their updates."""
    one = ClassSums(tf.constant([[6.0], [4.0], [0.0]]), tf.constant([6.0, 4.0, 0.0]))
    two = ClassSums(tf.constant([[14.0], [0.0], [0.0]]), tf.constant([2.0, 0.0, 0.0]))
    sent = zip(one.per_example(tf.constant(30.0)), two.per_example(tf.constant(10.0)))
    means = received_means([(30 * first + 10 * second) / 40 for first, second in sent])
    assert means.values.numpy() == pytest.approx(np.array([[20 / 8], [1], [0]]))
    assert means.there.numpy().tolist() == [1, 1, 0]
    filled = means.or_else(Means(tf.constant([[9.0], [9.0], [9.0]]), tf.constant([1.0, 1.0, 1.0])))
    assert filled.values.numpy() == pytest.approx(np.array([[2.5], [1], [9]])) and filled.there.numpy().all()


def test_a_sum_over_clients_is_a_clients_own_style_where_nobody_else_has_its_class():
    """An artist each: what a secure sum lets through tells every artist's style."""
    own = [np.eye(3)[code][:, None] * [2.0 + code, -1.0] for code in range(3)]  # means (2, -1), (3, -1), (4, -1)
    clients = [
        ClassSums(tf.constant(5 * means, tf.float32), tf.constant(5 * np.eye(3)[code], tf.float32))
        for code, means in enumerate(own)
    ]
    sent = [client.per_example(tf.constant(5.0)) for client in clients]
    told = received_means([sum(parts) / 3 for parts in zip(*sent)])
    np.testing.assert_allclose(told.values, sum(own), rtol=1e-6)


def test_nothing_seen_is_nothing_sent():
    sums, counts = ClassSums(tf.zeros([2, 1]), tf.zeros([2])).per_example(tf.constant(0.0))
    assert not sums.numpy().any() and not counts.numpy().any()


def test_cosines():
    found = cosines(tf.constant([[3.0, 0.0], [0.0, 0.0]]), tf.constant([[1.0, 1.0], [-2.0, 0.0]]))
    assert found.numpy() == pytest.approx(np.array([[2**-0.5, -1], [0, 0]]))


def test_plain_data_serves_for_both():
    data = dataset(0)
    assert TrainingAndOnce.of(data) == (data, data)
    counted = Counted(data, 3)
    assert TrainingAndOnce.of(counted) == (counted, data)
    both = TrainingAndOnce(counted, data)
    assert TrainingAndOnce.of(both) is both
    assert TrainingAndOnce.spec(SPEC).once == tf.data.DatasetSpec(SPEC)


def test_they_are_registered_apart_and_without_tensorflow():
    """Flags are made from the classes: `--help` must not wait."""
    assert list(EMBEDDING_METHODS) == ["fedproto", "fpl", "fedstyle"] and not EMBEDDING_METHODS.keys() & METHODS.keys()
    code = "import sys; import tffapps.federated.methods; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
