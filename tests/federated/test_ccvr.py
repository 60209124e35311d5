"""CCVR: pooled Gaussians against those of the pooled features, shrinkage, the fitted layer, and a federation's end."""

import dataclasses

import numpy as np
import pytest

from tests.conftest import largest_difference
from tests.federated import embedded
from tests.federated.embedded import CLASSES, START, dataset
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.federated import virtual_features
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.ccvr import build_collection, retrain
from tffapps.federated.cohort import Client
from tffapps.federated.ditto import Ditto
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.mended_fixmatch import MendedFixMatch
from tffapps.federated.retraining import Retraining
from tffapps.federated.round import State
from tffapps.federated.virtual_features import ClassGaussians

CCVR = Retraining(retrain="ccvr")


def moments_of(features, labels, classes):
    own = np.eye(classes)[labels]
    return own.sum(0), own.T @ features, np.einsum("nc,ni,nj->cij", own, features, features)


def test_the_pooled_covariance_is_that_of_the_pooled_features():
    rng = np.random.default_rng(3)
    clients = [(rng.normal(100 + shift, 2, (size, 4)), rng.integers(0, 2, size)) for shift, size in ((0, 9), (5, 14))]
    sums = [np.sum(parts, axis=0) for parts in zip(*(moments_of(*one, 3) for one in clients))]
    found = virtual_features.pooled(*sums)
    features, labels = (np.concatenate(parts) for parts in zip(*clients))
    for label in (0, 1):
        own = features[labels == label]
        assert found.means[label] == pytest.approx(own.mean(axis=0))
        assert found.covariances[label] == pytest.approx(np.cov(own.T), abs=1e-8)
    assert found.counts[2] == 0 and not found.covariances[2].any()


def test_shrinkage_by_hand():
    """Variances 4 of three images and 1 of two: within (2 · 4 + 1 · 1) / 3 = 3; one image has none of its own."""
    found = ClassGaussians(np.array([3.0, 2, 1]), np.zeros((3, 1)), np.array([4.0, 1, 0]).reshape(3, 1, 1))
    shrunk = virtual_features.shrunk(found, 2.0).covariances.ravel()
    assert shrunk == pytest.approx([(2 * 4 + 2 * 3) / 4, (1 + 2 * 3) / 3, 3])
    assert virtual_features.shrunk(found, 0.0).covariances.ravel() == pytest.approx([4, 1, 0])


def test_draws_are_of_their_gaussians_and_a_class_without_images_has_none():
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    found = ClassGaussians(np.array([5.0, 0, 4]), np.array([[1.0, 2], [0, 0], [-3, 0]]), np.stack([covariance] * 3))
    features, labels = virtual_features.drawn(found, 4000, seed=1)
    assert np.unique(labels, return_counts=True)[1].tolist() == [4000, 4000] and set(labels) == {0, 2}
    assert features[labels == 0].mean(axis=0) == pytest.approx([1, 2], abs=0.1)
    assert np.cov(features[labels == 2].T) == pytest.approx(covariance, abs=0.15)
    assert np.array_equal(features, virtual_features.drawn(found, 4000, seed=1)[0])


def test_the_fitted_layer_is_the_bayes_rule_of_two_gaussians():
    """Means ±1, variance 1: log-odds 2x, wherever the search begins."""
    gaussians = ClassGaussians(np.array([1.0, 1]), np.array([[-1.0], [1]]), np.ones((2, 1, 1)))
    features, labels = virtual_features.drawn(gaussians, 20_000, seed=0)
    for start in (0.0, 3.0):
        kernel, bias = virtual_features.fitted(features, labels, np.full((1, 2), start), np.array([start, 0]), 0.0)
        assert kernel[0, 1] - kernel[0, 0] == pytest.approx(2, abs=0.1) and bias[1] - bias[0] == pytest.approx(
            0, abs=0.1
        )


def test_after_the_last_round_only_the_last_layer_is_another():
    """The same from one client with all the images as from two."""
    task = embedded.task()
    collection = build_collection(task, CCVR)
    state = State([np.asarray(value) for value in START], (), (), [])

    two = [Client("a", lambda _: dataset(0)), Client("b", lambda _: dataset(1, 8))]
    one = [Client("all", lambda _: dataset(0).concatenate(dataset(1, 8)))]
    with open_engine("in-process"):
        ends = [retrain(collection, state, clients, 1, {"a", "b", "all"}, seed=0) for clients in (two, one)]
    weights = [end.state.weights for end in ends]
    assert largest_difference(*weights) < 1e-5 and not ends[0].left_out
    assert largest_difference(weights[0][:-2], START[:-2]) == 0 and largest_difference(weights[0], START) > 0.1
    assert ends[0].bytes_up == 2 * (8 * (CLASSES + CLASSES * 3 + CLASSES * 9) + 12)


@pytest.mark.parametrize(
    ("method", "aggregator", "select", "line"),
    [
        (FedAvg(), "secure", "last", "--aggregator secure would not hide what clients send"),
        (FedAvg(), "dp", "last", "--aggregator dp would neither noise nor count"),
        (FedAvg(), "median", "last", "--aggregator median would not protect"),
        (Ditto(), "mean", "last", "after ditto clients have models of their own"),
        (MendedFixMatch(), "mean", "last", "fixmatch trains on images without labels"),
        (FedAvg(), "mean", "validation", "use --select last"),
    ],
)
def test_what_it_does_not_go_together_with(method, aggregator, select, line):
    aggregation = Aggregation(aggregator=aggregator)
    dataclasses.replace(CCVR, retrain="none").check(method, aggregation, select)
    with pytest.raises(UserError, match="--retrain ccvr: ") as error:
        CCVR.check(method, aggregation, select)
    assert line in str(error.value)
