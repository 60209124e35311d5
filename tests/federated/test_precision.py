"""Mixed precision: weights stay float32, two rounds stay near those in float32, steps that overflow are not taken."""

import numpy as np
import pytest
import tensorflow as tf

from models.assembled import assemble
from models.initialise import seed_weights
from models.precision import precision_of
from tests.conftest import arrays, dataset, largest_difference
from tffapps import fedtransfer
from tffapps.cli import parse
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fixmatch import FixMatch, PartlyLabelledData
from tffapps.federated.round import build_round
from tffapps.federated.scaling import DOUBLED_AFTER, FIRST_SCALE, LossScaling
from tffapps.federated.task import Task, cross_entropy

SPEC = (tf.TensorSpec([None, 8, 8, 3], tf.float32), tf.TensorSpec([None], tf.int32))
# Of the weights after two rounds of three steps, which move by 1: bfloat16 has 8 bits of a number, float16 has 11.
TOLERANCE = {"bfloat16": 0.1, "float16": 0.02}


def network(precision, cut="all", norm="batch"):
    return assemble(
        "tiny", input_shape=(8, 8, 3), classes=3, head="conv" if cut != "all" else "gap", cut=cut, norm=norm,
        precision=precision,
    )  # fmt: skip


@pytest.fixture(scope="module")
def rounds():
    """By precision, rounds of the same network."""
    tasks = {name: Task.of_batches(network(name).whole, SPEC, cross_entropy) for name in ("float32", *TOLERANCE)}
    return {name: build_round(task, FedAvg(learning_rate=0.05)) for name, task in tasks.items()}


@pytest.fixture(scope="module")
def first(rounds):
    model = rounds["float32"].task.model
    seed_weights(model, 0)
    return model.get_weights()


@pytest.mark.parametrize("precision", TOLERANCE)
def test_two_rounds_stay_near_those_in_float32(rounds, first, precision):
    weights = {}
    for name in ("float32", precision):
        round_ = rounds[name]
        state = round_.start(first)
        with open_engine("in-process"):
            for _ in range(2):
                state = round_.next(state, [0, 1], [dataset(0), dataset(1)]).state
        weights[name] = state.weights
    assert 0 < largest_difference(weights[precision], weights["float32"]) < TOLERANCE[precision]
    assert largest_difference(weights["float32"], first) > 0.5
    assert all(value.dtype == np.float32 for value in weights[precision])


def test_weights_loss_and_softmax_are_float32(rounds):
    model = rounds["bfloat16"].task.model
    assert {variable.dtype for variable in model.weights} == {tf.float32}
    assert model.get_layer("block2_conv").compute_dtype == "bfloat16"
    assert [model.get_layer(name).compute_dtype for name in ("embedding", "classifier")] == ["float32"] * 2
    assert model(arrays(0)[0]).dtype == tf.float32


def with_overflow(client, large):
    """Batches of 8; the images of the second are too large for float16, which ends at 65,504."""
    images, labels = arrays(client)
    images = images.copy()
    images[8:16] *= large
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(8)


def test_a_step_that_overflows_is_not_taken(rounds, first):
    """The client ends where it would without that batch, its statistics included, and says that it lost one."""
    round_ = rounds["float16"]
    images, labels = arrays(0)
    kept = np.r_[0:8, 16:24]
    without = tf.data.Dataset.from_tensor_slices((images[kept], labels[kept])).batch(8)
    with open_engine("in-process"):
        found = round_.next(round_.start(first), [0], [with_overflow(0, 1e6)])
        expected = round_.next(round_.start(first), [0], [without])
    assert dict(zip(round_.columns, found.reports[0]))["overflowed"] == 1
    assert dict(zip(round_.columns, expected.reports[0]))["overflowed"] == 0
    assert found.reports[0, 2] == 16 and found.reports[0, 3] == pytest.approx(expected.reports[0, 3], rel=1e-3)
    # The scale has been halved meanwhile: the gradients are rounded otherwise.
    assert largest_difference(found.state.weights, expected.state.weights) < 1e-2
    assert largest_difference(found.state.weights, first) > 0.1


def test_a_client_whose_steps_all_overflow_is_left_out_and_named(rounds, first):
    huge = tf.data.Dataset.from_tensor_slices((arrays(1)[0] * 1e6, arrays(1)[1])).batch(8)
    clients = [Client("good", lambda number: dataset(0)), Client("bad", lambda number: huge)]
    round_ = rounds["float16"]
    with open_engine("in-process"):
        outcome = play(round_, round_.start(first), clients, 1, min_clients=1)
    assert outcome.left_out == {"bad": "all its 3 steps overflowed"} and outcome.took_part == 1


def test_the_scale_by_hand():
    scaling, taken, lost = LossScaling(True), tf.constant(1.0), tf.constant(0.0)
    scale, since, overflowed = scaling._next(scaling.start(), lost)
    assert (float(scale), float(since), float(overflowed)) == (FIRST_SCALE / 2, 0, 1)
    state = (scale, tf.constant(DOUBLED_AFTER - 2.0), overflowed)
    state = scaling._next(state, taken)
    assert float(state[0]) == FIRST_SCALE / 2
    assert [float(value) for value in scaling._next(state, taken)] == [FIRST_SCALE, 0, 1]
    assert [float(value) for value in LossScaling(True, 8.0)._next((8.0, 0.0, 0.0), lost)] == [8, 0, 1]
    gradients = scaling.unscaled([tf.constant([2.0])], (tf.constant(4.0), 0.0, 0.0))
    assert gradients[0].numpy() == [0.5]


def test_below_a_cut_it_stays_float32():
    made = network("bfloat16", cut="block1_pool", norm="group")
    assert precision_of(made.base) == "float32" and precision_of(made.above) == "bfloat16"
    plain = network("float32", cut="block1_pool", norm="group")
    made.whole.set_weights(plain.whole.get_weights())
    images = arrays(0)[0]
    assert np.array_equal(made.base(images), plain.base(images))
    assert 0 < np.abs(made.whole(images) - plain.whole(images)).max() < 0.02


def test_where_it_would_change_nothing_or_cannot_work_it_is_refused():
    with pytest.raises(ValueError, match="--precision bfloat16: what is trained above the cut head"):
        assemble("tiny", input_shape=(8, 8, 3), classes=3, head="gap", cut="head", precision="bfloat16")
    with pytest.raises(ValueError, match="a network of your own computes in float32"):
        assemble(
            "a.module:function", input_shape=(8, 8, 3), classes=3, head="own", may_be_own=True, precision="float16"
        )
    with pytest.raises(UserError, match=r"--precision float16: tffapps\.fedtransfer computes in float32 only"):
        parse(fedtransfer.APP, ["--precision", "float16"])
    task = Task(network("float16").whole, PartlyLabelledData.spec(SPEC), cross_entropy)
    with pytest.raises(UserError, match="--precision float16: fssfl does not scale its loss"):
        build_round(task, FixMatch())
