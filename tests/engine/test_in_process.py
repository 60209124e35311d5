"""The in-process engine: every intrinsic by hand, laziness, errors."""

import gc
import os
import pathlib
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.engine import open_engine
from tffapps.engine.in_process import ClientError
from tffapps.engine.values import Deferred, Spill

ROOT = pathlib.Path(__file__).resolve().parents[2]
AT_CLIENTS = tff.FederatedType(np.float32, tff.CLIENTS)
AT_SERVER = tff.FederatedType(np.float32, tff.SERVER)


@tff.tensorflow.computation(np.float32)
def doubled(value):
    return 2 * value


@tff.tensorflow.computation(np.float32)
def as_int(value):
    return tf.cast(value, tf.int32)


@tff.tensorflow.computation(np.float32, np.float32)
def product(value, factor):
    return value * factor


@tff.federated_computation(AT_CLIENTS, AT_SERVER)
def every_intrinsic(values, factor):
    at_clients = tff.federated_broadcast(factor)
    scaled = tff.federated_map(product, (values, at_clients))
    ones = tff.federated_value(1.0, tff.CLIENTS)
    constants = tff.federated_eval(tff.tensorflow.computation(lambda: 3.0), tff.CLIENTS)
    at_server = tff.federated_eval(tff.tensorflow.computation(lambda: 5.0), tff.SERVER)
    return {
        "sum": tff.federated_sum(scaled),
        "mean": tff.federated_mean(scaled),
        "weighted": tff.federated_mean(scaled, values),
        "min": tff.federated_min(scaled),
        "max": tff.federated_max(scaled),
        "clients": tff.federated_sum(ones),
        "constants": tff.federated_sum(constants),
        "server": tff.federated_map(product, (factor, at_server)),
        "secure": tff.federated_secure_sum(tff.federated_map(as_int, scaled), 100),
        "bitwidth": tff.federated_secure_sum_bitwidth(tff.federated_map(as_int, scaled), 8),
        "per_client": scaled,
    }


BY_HAND = {
    "sum": 60.0,
    "mean": 20.0,
    "weighted": (1 * 10 + 2 * 20 + 3 * 30) / 6,
    "min": 10.0,
    "max": 30.0,
    "clients": 3.0,
    "constants": 9.0,
    "server": 50.0,
    "secure": 60,
    "bitwidth": 60,
}


@pytest.mark.parametrize("engine", ["in-process", "worker"])
def test_intrinsics_by_hand(engine):
    with open_engine(engine):
        result = every_intrinsic([1.0, 2.0, 3.0], 10.0)
    assert {name: result[name] for name in BY_HAND} == pytest.approx(BY_HAND)
    assert list(result["per_client"]) == [10.0, 20.0, 30.0]


def test_a_result_of_one_pass_is_broadcast_in_the_next(in_process):
    @tff.tensorflow.computation(np.float32, np.float32)
    def distance(value, mean):
        return (value - mean) ** 2

    @tff.federated_computation(AT_CLIENTS)
    def variance(values):
        twice = tff.federated_map(doubled, values)
        mean = tff.federated_broadcast(tff.federated_mean(twice))
        return tff.federated_mean(tff.federated_map(distance, (twice, mean))), twice

    with in_process():
        result, twice = variance([1.0, 2.0, 3.0])
    assert result == pytest.approx(8 / 3)
    assert list(twice) == [2.0, 4.0, 6.0]


def test_each_client_works_once_however_many_aggregates_use_it(in_process, tmp_path):
    @tff.tensorflow.computation(np.float32)
    def noted(value):
        number = tf.random.uniform([], maxval=2**31 - 1, dtype=tf.int32)  # a new one in every execution
        file = tf.strings.join([str(tmp_path), "/", tf.strings.as_string(number)])
        with tf.control_dependencies([tf.io.write_file(file, "")]):
            return tf.identity(value)

    @tff.federated_computation(AT_CLIENTS)
    def use_three_times(values):
        result = tff.federated_map(noted, values)
        return tff.federated_sum(result), tff.federated_max(result), tff.federated_mean(result)

    with in_process():
        use_three_times([1.0, 2.0])
    assert len(list(tmp_path.iterdir())) == 2


def test_an_error_says_which_client(in_process):
    @tff.tensorflow.computation(np.float32)
    def checked(value):
        with tf.control_dependencies([tf.debugging.assert_less(value, 3.0, message="too large")]):
            return tf.identity(value)

    @tff.federated_computation(AT_CLIENTS)
    def total(values):
        return tff.federated_sum(tff.federated_map(checked, values))

    with in_process(), pytest.raises(ClientError, match="client 2: ") as caught:
        total([1.0, 2.0, 5.0, 1.0])
    assert caught.value.client == 2


def test_unequal_numbers_of_clients_are_refused(in_process):
    @tff.federated_computation(AT_CLIENTS, AT_CLIENTS)
    def both(first, second):
        return tff.federated_sum(first), tff.federated_sum(second)

    with in_process(), pytest.raises(ValueError, match=r"\[1, 2\]"):
        both([1.0, 2.0], [1.0])


def test_variables_begin_anew_in_every_call(in_process):
    @tff.tensorflow.computation(np.float32)
    def count(value):
        variable = tf.Variable(0.0)
        with tf.control_dependencies([variable.assign_add(value)]):
            return variable.read_value()

    @tff.federated_computation(AT_CLIENTS)
    def counted(values):
        return tff.federated_map(count, values)

    with in_process():
        assert list(counted([1.0, 2.0, 3.0])) == [1.0, 2.0, 3.0]
        assert list(counted([4.0])) == [4.0]


def test_a_bare_tensorflow_computation(in_process):
    with in_process():
        assert doubled(4.0) == 8.0
        assert tff.tensorflow.computation(lambda: 3)() == 3


def test_a_dataset_of_the_wrong_type_is_refused(in_process):
    @tff.federated_computation(tff.FederatedType(tff.SequenceType(np.float32), tff.CLIENTS))
    def nothing(datasets):
        return datasets

    with in_process(), pytest.raises(TypeError, match="int64"):
        nothing([tf.data.Dataset.range(3)])


def test_the_context_is_gone_afterwards(in_process):
    with in_process():
        before = tff.framework.get_context_stack().current
        with in_process():
            assert tff.framework.get_context_stack().current is not before
        assert tff.framework.get_context_stack().current is before
    assert tff.framework.get_context_stack().current is not before


@tff.tensorflow.computation(tff.TensorType(np.float32, [2]))
def _plus_one(values):
    return values + 1.0


@tff.federated_computation(tff.FederatedType(tff.TensorType(np.float32, [2]), tff.CLIENTS))
def _each_plus_one(values):
    more = tff.federated_map(_plus_one, values)
    return tff.federated_sum(more), more


def test_what_is_made_later_comes_back_to_be_read_later(in_process):
    """Of all clients but the next nothing is held while one works: arguments are made in turn, results lie in files."""
    asked, given = [], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]

    def argument(client):
        def make():
            asked.append(client)
            return np.array(given[client], np.float32)

        return Deferred(make)

    with in_process():
        total, each = _each_plus_one([argument(client) for client in range(3)])
        plain_total, plain = _each_plus_one([np.array(one, np.float32) for one in given])
    assert sorted(set(asked)) == [0, 1, 2] and all(isinstance(one, Deferred) for one in each)
    assert total.tolist() == plain_total.tolist() == [12, 15]
    assert [one.make().tolist() for one in each] == [one.tolist() for one in plain] == [[2, 3], [4, 5], [6, 7]]


def test_the_next_clients_argument_is_made_while_one_works(in_process):
    """Its failure is its own, and comes in its turn."""
    threads = {}

    def argument(client):
        def make():
            threads[client] = threading.current_thread().name
            if client == 2:
                raise OSError("gone")
            return np.zeros(2, np.float32)

        return Deferred(make)

    with in_process(), pytest.raises(ClientError, match="client 2: OSError: gone") as caught:
        _each_plus_one([argument(client) for client in range(5)])
    assert caught.value.client == 2 and sorted(threads) == [0, 1, 2]
    assert threads[1].startswith("next-client") and not threads[0].startswith("next-client")


def test_files_go_with_the_last_value():
    spill = Spill()
    folder = pathlib.Path(spill._folder.name)
    array = np.arange(3)
    later, held = spill.put({"a": array, "b": [np.float32(2)]}), weakref.ref(array)
    del array
    assert held() is None  # the arrays are in the file alone
    assert len(list(folder.iterdir())) == 1
    del spill
    gc.collect()
    back = later.make()
    assert back["a"].tolist() == [0, 1, 2] and back["b"][0] == 2
    del later, back
    gc.collect()
    assert not folder.exists()


PROGRAM = """
import atexit, gc
@atexit.register  # before that of tffapps, and so called after it
def report():
    print([type(thing).__name__ for thing in gc.get_objects()].count("ServiceManager"))
import tensorflow_federated as tff
import tffapps
report()
"""


def test_tffs_own_context_ends_before_what_it_needs():
    """It has a manager of its worker, which complains when Python ends: modules that it needs are gone by then."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0 and "Exception ignored" not in done.stderr
    assert done.stdout.split() == ["1", "0"]
