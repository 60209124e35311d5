"""FedProto: its loss by hand, that no weights cross, clients' own models in a run that is killed."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conftest import largest_difference
from tests.federated.embedded import CLASSES, RATE, SIZE, START, arrays, dataset, fedavg, played, style_by_hand, task
from tffapps.engine import lowering, open_engine
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client
from tffapps.federated.embeddings import Means
from tffapps.federated.fedproto import FedProto
from tffapps.federated.round import build_round
from tffapps.runs import Run
from tffapps.training import train

DATA = [dataset(0, classes=(0, 1)), dataset(1, 8, classes=(0, 2))]
_f = tff.framework


@pytest.fixture(scope="module")
def round_():
    return build_round(task(), FedProto(learning_rate=RATE))


def test_the_loss_by_hand():
    prototypes = Means(tf.constant([[1.0, 2.0], [9.0, 9.0]]), tf.constant([1.0, 0.0]))
    labels, vectors = tf.constant([0, 1]), tf.constant([[4.0, 6.0], [0.0, 0.0]])
    outputs = tf.constant([[0.5, 0.5], [0.75, 0.25]])
    found = FedProto(proto_weight=3.0).loss(task(), prototypes)(labels, vectors, outputs)
    assert found.numpy() == pytest.approx([np.log(2) + 3 * (9 + 16) / 2, np.log(4)])


def crossing(round_):
    """Types of all that is broadcast, and of all that is aggregated, in the lowered computation."""
    down, up = [], []

    def visit(block):
        if isinstance(block, _f.Call) and isinstance(block.function, _f.Intrinsic):
            uri, argument = block.function.uri, block.function.type_signature.parameter
            if uri == _f.FEDERATED_BROADCAST.uri:
                down.append(argument)
            elif uri == _f.FEDERATED_AGGREGATE.uri:
                up.append(argument[0])
        for child in block.children():
            visit(child)

    visit(lowering.to_call_dominant(round_.computation))
    assert down and up
    return [shapes(kinds) for kinds in (down, up)]


def shapes(kinds):
    found = []

    def walk(kind):
        if isinstance(kind, tff.TensorType):
            found.append(tuple(kind.shape))
        elif isinstance(kind, tff.FederatedType):
            walk(kind.member)
        elif isinstance(kind, tff.StructType):
            for _, part in tff.structure.iter_elements(kind):
                walk(part)

    for kind in kinds:
        walk(kind)
    return found


def test_no_weights_cross(round_):
    """By the types of what crosses: prototypes (3, 3) and which there are (3); the kernel before them is (4, 3)."""
    down, up = crossing(round_)
    assert set(down) == {(CLASSES, SIZE), (CLASSES,)} and len(down) == 2
    assert set(up) <= {(CLASSES, SIZE), (CLASSES,), (), (4,)}  # and examples, and reports of four numbers
    weights = sorted(weight.shape for weight in START)
    assert (4, 3) in weights and (4, 3) not in (*down, *up)
    assert sorted(shape for shape in up if shape not in ((), (4,))) == [(CLASSES,), (CLASSES, SIZE)]
    prototypes = 4 * CLASSES * (SIZE + 1)
    assert round_.bytes_down(2) == 2 * prototypes and round_.bytes_up(2) == 2 * (prototypes + 16)
    # What the test would have found: FedAvg's weights, both ways.
    down, up = crossing(fedavg(RATE))
    assert sorted(down) == weights and (4, 3) in up


@pytest.fixture(scope="module")
def alone():
    return played(build_round(task(), FedProto(learning_rate=RATE, proto_weight=0.0)), DATA)


def test_weight_0_is_every_client_alone(alone):
    kept = alone[-1][1]
    for position, one in enumerate(DATA):
        own = played(fedavg(RATE), [one])[-1][0].weights
        assert largest_difference(kept[position], own) < 1e-6


def test_prototypes_and_models_over_two_rounds_in_both_engines(round_, alone):
    here, there = played(round_, DATA), played(round_, DATA, engine="worker")
    pairs = [arrays(0, classes=(0, 1)), arrays(1, 8, classes=(0, 2))]
    for (state, kept), (other, own) in zip(here, there):
        assert largest_difference(state.weights, START) == 0  # the server's model is nobody's
        sums, counts = np.zeros((CLASSES, SIZE)), np.zeros(CLASSES)
        for position, pair in enumerate(pairs):
            assert largest_difference(kept[position], own[position]) < 1e-5
            values, _ = style_by_hand(kept[position], [pair])
            number = np.bincount(pair[1], minlength=CLASSES)
            sums, counts = sums + values * number[:, None], counts + number
        np.testing.assert_allclose(state.memory[0], sums / counts[:, None], atol=1e-5)
        np.testing.assert_allclose(other.memory[0], state.memory[0], atol=1e-4)
        assert state.memory[1].tolist() == [1, 1, 1]
    assert largest_difference(alone[0][1][0], here[0][1][0]) < 1e-7  # the first round has no prototypes
    assert largest_difference(alone[1][1][0], here[1][1][0]) > 1e-4


@pytest.mark.parametrize("name", ["robust", "dp"])
def test_beside_other_aggregators(name):
    aggregation = Aggregation(name, dp_noise=0.0, dp_clip=1e3)
    round_ = build_round(task(), FedProto(learning_rate=RATE), aggregation, 1)
    [(state, kept)] = played(round_, DATA[:1], 1)
    values, there = style_by_hand(kept[0], [arrays(0, classes=(0, 1))])
    np.testing.assert_allclose(state.memory[0], values, atol=1e-2)
    assert state.memory[1].tolist() == there.tolist()


def test_a_run_that_was_killed(round_, tmp_path):
    """The clients' own models are there for evaluation after every round, and the same after a kill."""
    clients = [Client(f"{place}", lambda _, one=one: one) for place, one in enumerate(DATA)]

    def trained(name, killed_in=None):
        seen = {}

        def evaluate(trained):
            models, number = [trained.kept(position) for position in (0, 1)], len(run.rounds()) + 1
            assert [len(weights) for weights in models] == [len(START)] * 2
            assert trained.last == (number == 3)
            seen[number] = models
            if number == killed_in:
                raise KeyboardInterrupt
            return {"sum": float(models[0][0].sum() + models[1][0].sum())}

        with open_engine("in-process") as engine, Run(tmp_path, name, {}) as run:
            train(run, round_, START, clients, rounds=3, evaluate=evaluate, engine=engine, headline="sum")
            return seen, run.rounds()["sum"].tolist()

    seen, sums = trained("whole")
    assert len(set(sums)) == 3
    for killed_in in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            trained("killed", killed_in)
    again, found = trained("killed")
    assert found == sums and list(again) == [3]
    assert all(largest_difference(one, other) == 0 for one, other in zip(again[3], seen[3]))
