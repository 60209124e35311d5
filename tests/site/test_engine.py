"""An engine over sites: the numbers of one machine with all the files, and no image on the way."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conftest import dataset, largest_difference
from tests.site.conftest import PIXELS, files
from tests.site.federation import listening_in
from tests.site.rounds import batches, clients, played, table_of
from tffapps.engine import open_engine
from tffapps.engine.values import HERE, AtSite
from tffapps.errors import UserError
from tffapps.evaluation import at_sites, classification
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import State, build_round
from tffapps.federated.statistics import build_reestimation, reestimate


def across(members, folder):
    return open_engine(",".join(site.address for site in members), files(folder, "coordinator"))


@pytest.fixture(scope="module")
def averaging(tiny_task):
    return build_round(tiny_task, FedAvg(learning_rate=0.1))


@pytest.mark.parametrize("name", ["mean", "robust"])
def test_the_numbers_of_one_machine(name, averaging, members, folder, noise, tiny_task, tiny_weights):
    adaptive = name == "robust"
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.1), Aggregation(name), 2) if adaptive else averaging
    with open_engine("in-process") as engine:
        here = played(engine, round_, tiny_weights, noise)
    with across(members, folder) as engine:
        there = played(engine, round_, tiny_weights, noise)
    assert largest_difference(there.state.weights, here.state.weights) < 1e-5
    assert largest_difference(there.state.weights, tiny_weights) > 1e-2
    assert there.reports.keys() == {"a", "b"} and there.examples == here.examples == 60


def test_statistics_are_reestimated_where_the_images_are(members, folder, noise, tiny_task, tiny_weights):
    reestimation, found = build_reestimation(tiny_task), {}
    start = State(list(tiny_weights), (), (), [])
    for name, opened in {"here": open_engine("in-process"), "there": across(members, folder)}.items():
        with opened as engine:
            done = reestimate(reestimation, start, clients(table_of(engine, noise)), 1, {"a", "b"})
        assert (done.clients, done.left_out) == (2, {})
        found[name] = done.state.weights
    assert largest_difference(found["here"], found["there"]) < 1e-5
    assert largest_difference(found["there"], tiny_weights) > 0.1


PIECE = 24  # bytes: long enough not to be there by chance, short enough for a frame's border to miss most of them


def pieces(content: bytes) -> list[bytes]:
    return [content[start : start + PIECE] for start in range(0, len(content) - PIECE + 1, PIECE)]


def secrets(images) -> list[bytes]:
    """Pieces of the images' files, and of their pixels as bytes and as numbers."""
    found: list[bytes] = []
    for path in images.rglob("*.png"):
        pixels = cv2.imread(str(path))[..., ::-1]
        numbers = pixels.astype(np.float32) / np.float32(255)
        for content in (path.read_bytes()[40:], pixels.tobytes(), numbers.tobytes()):
            found += pieces(content)
    return found


@tff.tensorflow.computation
def one_image():
    return tf.io.read_file("train/1/000002")


def test_no_image_crosses(averaging, members, folder, noise, tiny_task, tiny_weights):
    predictor = at_sites.predictor(tiny_task.model, tiny_task.client_spec.element_spec)
    first, second = members
    with listening_in(folder, first) as (address, inward, outward):
        with open_engine(f"{address},{second.address}", files(folder, "coordinator")) as engine:
            outcome = played(engine, averaging, tiny_weights, noise)
            table = table_of(engine, noise)
            test = batches(table[(table.client == "a") & (table.split == "test")], shuffle=False)
            at_sites.predict(engine, predictor, outcome.state.weights, {"a": test})
            heard = bytes(inward + outward)
            with pytest.raises(UserError, match="refused by the site: a computation with the operation ReadFile"):
                engine.at_site("a", one_image)
        assert len(inward) > 2 * 25_000 and len(outward) > 2 * 25_000  # the weights, in and out, twice
        assert tiny_weights[0].tobytes()[:PIECE] in heard  # what does cross is heard
        assert not [piece for piece in secrets(noise) if piece in heard]
        assert not [piece for piece in secrets(noise) if piece in bytes(outward)]  # what was asked for has not come


def test_a_round_costs_the_weights_and_no_more(averaging, members, folder, noise, tiny_weights):
    round_ = averaging
    size = sum(value.nbytes for value in tiny_weights)
    with across(members, folder) as engine:
        state, everyone = round_.start(tiny_weights), clients(table_of(engine, noise))
        counts = [engine.context.traffic()]
        for number in (1, 2, 3):
            state = play(round_, state, everyone, number, 2).state
            counts.append(engine.context.traffic())
    sent, received = np.diff(np.asarray(counts), axis=0).T
    assert abs(sent[1] - sent[2]) < 100 and abs(received[1] - received[2]) < 100  # numbers of more digits
    assert 2 * size < received[1] < 2.1 * size
    assert 2 * size < sent[1] < 2 * (size + 45_000)  # and the pipelines: graphs and paths
    assert sent[0] > sent[1] + 100_000  # the computation, once


def test_evaluation_at_sites(members, folder, noise, tiny_task, tiny_weights):
    predictor = at_sites.predictor(tiny_task.model, tiny_task.client_spec.element_spec)
    found = {}
    for name, opened in {"here": open_engine("in-process"), "there": across(members, folder)}.items():
        with opened as engine:
            table = table_of(engine, noise)
            test = table[table.split == "test"]
            data = {site: batches(test[test.client == site], shuffle=False) for site in ("a", "b")}
            found[name] = at_sites.predict(engine, predictor, tiny_weights, data)
            nothing = at_sites.predict(engine, predictor, tiny_weights, {"b": data["b"].take(0)})
            assert nothing.labels.shape == (0,) and nothing.probabilities.shape == (0, 3)
    assert found["here"].labels.tolist() == found["there"].labels.tolist() == 4 * [0, 0, 1, 1, 2, 2]
    np.testing.assert_allclose(found["there"].probabilities, found["here"].probabilities, atol=1e-6)
    tiny_task.model.set_weights(tiny_weights)
    with open_engine("in-process") as engine:
        table = table_of(engine, noise)
    rows = table[(table.split == "test") & (table.client == "a")]
    expected = classification.predict(tiny_task.model, batches(rows, shuffle=False))
    np.testing.assert_allclose(found["here"].probabilities[:12], expected[1], atol=1e-6)


@tff.tensorflow.computation(tff.SequenceType(np.int64))
def length(data):
    return data.reduce(np.int64(0), lambda count, _: count + 1)


@tff.federated_computation(
    tff.FederatedType(tff.SequenceType(np.int64), tff.CLIENTS), tff.FederatedType(np.int64, tff.CLIENTS)
)
def counted(data, other):
    return tff.federated_sum(tff.federated_map(length, data)), tff.federated_sum(other)


def numbers(count: int) -> tf.data.Dataset:
    return tf.data.Dataset.range(count)


def test_work_goes_where_its_data_says_and_nowhere_else(members, folder):
    with across(members, folder) as engine:
        total = counted([AtSite("b", numbers(3)), AtSite("a", numbers(4)), AtSite("b", numbers(5))], [1, 2, 3])
        assert tuple(total) == (12, 6)
        seen = engine.context.traffic()
        assert tuple(counted([AtSite(HERE, numbers(3))], [1])) == (3, 1)
        assert engine.context.traffic() == seen  # done here, without a word to anyone
        assert tuple(counted([AtSite("b", numbers(3)), AtSite(HERE, numbers(4))], [1, 2])) == (7, 3)
        with pytest.raises(ValueError, match="client 1 has no data that says at which site"):
            counted([AtSite("b", numbers(3)), numbers(3)], [1, 2])
        with pytest.raises(ValueError, match="client 0 has data of several sites: a, b"):
            counted([AtSite("b", numbers(3))], [AtSite("a", 1)])
        with pytest.raises(ValueError, match="client 0 has data of several sites: b, here"):
            counted([AtSite("b", numbers(3))], [AtSite(HERE, 1)])
        with pytest.raises(UserError, match="c: no such site; there are a, b"):
            counted([AtSite("c", numbers(3))], [1])
        with pytest.raises(UserError, match="c: no such site; there are a, b"):
            engine.at_site("c", one_image)


def test_a_client_that_fails_is_named(averaging, members, folder, noise, tiny_weights, caplog):
    def broken(images, labels):
        return tf.reshape(tf.reshape(images, [-1, 7]), [-1, PIXELS, PIXELS, 3]), labels  # no batch is a multiple of 7

    with across(members, folder) as engine:
        good, _ = clients(table_of(engine, noise))
        bad = Client("b", lambda _: dataset(3).map(broken))
        outcome = play(averaging, averaging.start(tiny_weights), [good, bad], 1, 1)
    assert outcome.left_out == {"b": "failed: its worker failed (internal); the site's log says more"}
    assert outcome.took_part == 1 and "reshape" in caplog.text.lower()  # the site's own: it may hold data
