"""Several devices: results in the clients' order, few of them waiting, the numbers of one device, errors as on one.

Two places on the processor in one piece stand for two devices here; the processor in parts is in `test_gpu_benchmark`.
"""

import contextlib
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conftest import dataset, largest_difference
from tffapps.classify import APP
from tffapps.cli import parse
from tffapps.engine import devices, open_engine
from tffapps.engine.in_process import ClientError, InProcessContext
from tffapps.errors import UserError
from tffapps.federated.round import build_round
from tffapps.federated.scaffold import Scaffold

AT_CLIENTS = tff.FederatedType(np.float32, tff.CLIENTS)
TWO = ("/CPU:0", "/CPU:0")


@contextlib.contextmanager
def engine(places):
    context = InProcessContext(devices=places)
    with tff.framework.get_context_stack().install(context):
        yield
    context.close()


def test_results_come_in_order_and_few_wait():
    pool, begun, seen, most = devices.Pool(TWO), [], set(), 0
    lock = threading.Lock()

    def work(number):
        with lock:
            begun.append(number)
            seen.add(pool.place)
        time.sleep(0.05 if number == 0 else 0.0)  # all that may overtake it do
        return number

    results = []
    for result in pool.in_order(work, 12):
        with lock:
            most = max(most, len(begun) - len(results))
        results.append(result)
    pool.close()
    assert results == list(range(12)) and sorted(begun) == results
    assert seen == {0, 1} and 2 < most <= devices.AHEAD * 2
    assert pool.place is None


def test_nothing_runs_on_after_an_error():
    pool, running = devices.Pool(TWO), []

    def work(number):
        if number == 1:
            raise ValueError("one")
        running.append(number)
        time.sleep(0.02)
        running.remove(number)

    with pytest.raises(ValueError, match="one"):
        list(pool.in_order(work, 8))
    assert not running
    assert list(pool.in_order(lambda number: number, 3)) == [0, 1, 2]  # and it can be used again
    pool.close()


def test_a_stateful_method_has_the_numbers_of_one_device(tiny_task, tiny_weights):
    round_ = build_round(tiny_task, Scaffold(learning_rate=0.1), clients=5)
    played = {}
    for places in ((), TWO):
        with engine(places):
            state = round_.start(tiny_weights)
            kept = [round_.first_kept(tiny_weights)] * 5
            for _ in range(2):
                # Clients of unequal size: the smaller ones are done first.
                data = [dataset(client, count=8 * (5 - client)) for client in range(5)]
                result = round_.next(state, list(range(5)), data, kept=kept)
                state, kept = result.state, result.kept
            played[places] = result
    one, two = played.values()
    assert two.reports[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert largest_difference(two.state.weights, one.state.weights) < 1e-5
    assert all(largest_difference(*pair) < 1e-5 for pair in zip(two.kept, one.kept))
    assert largest_difference(one.state.weights, tiny_weights) > 1e-2


def test_each_device_has_its_own_variables():
    @tff.tensorflow.computation(np.float32)
    def add_up(value):
        total = tf.Variable(0.0)

        @tf.function
        def run():
            for _ in tf.range(300):
                total.assign_add(value)
            return total.read_value()

        return run()

    @tff.federated_computation(AT_CLIENTS)
    def each(values):
        return tff.federated_map(add_up, values)

    with engine(TWO):
        assert [float(total) for total in each([float(n) for n in range(24)])] == [300.0 * n for n in range(24)]


def test_the_first_client_that_failed_is_named():
    @tff.tensorflow.computation(np.float32)
    def checked(value):
        with tf.control_dependencies([tf.debugging.assert_less(value, 3.0, message="too large")]):
            return tf.identity(value)

    @tff.federated_computation(AT_CLIENTS)
    def total(values):
        return tff.federated_sum(tff.federated_map(checked, values))

    with engine(TWO):
        with pytest.raises(ClientError, match="client 2: ") as caught:
            total([1.0, 2.0, 5.0, 7.0, 1.0])
        assert caught.value.client == 2
        assert total([1.0, 2.0, 2.5]) == 5.5


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--devices", "0"], "--devices 0: give a number from 1, or all"),
        (["--devices", "-1"], "--devices -1: give a number"),
        (["--devices", "two"], "--devices two: give a number"),
        (["--devices", "2", "--engine", "worker"], "--devices 2: with --engine worker clients run in TFF's worker"),
    ],
)
def test_bad_flags_are_refused(flags, why):
    with pytest.raises(UserError) as caught:
        parse(APP, flags)
    assert str(caught.value).startswith(why)


def test_more_devices_than_there_are_and_too_late():
    with pytest.raises(UserError, match=r"--devices 999: there are \d+ .*; give \d+ or fewer, or all"):
        devices.set_up("999")
    assert devices.set_up("1") == ()
    if devices.cores() > 1 and not tf.config.list_physical_devices("GPU"):
        tf.constant(1.0).numpy()
        with pytest.raises(UserError, match="open the engine first"), open_engine(devices="2"):
            pass
