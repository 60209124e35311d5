"""In place of TFF's own context: each computation here is played on that and on the in-process engine."""

import collections
import gc
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.engine.in_process import InProcessContext

ROW = collections.OrderedDict(b=np.int32, a=np.int32)  # not in the order of the alphabet, in which tf.data has them
AT_SERVER = tff.FederatedType(np.int32, tff.SERVER)
VECTORS = tff.FederatedType(tff.TensorType(np.int32, [3]), tff.CLIENTS)


@pytest.fixture(scope="module", params=["TFF", "ours"], autouse=True)
def context(request):
    """Of one client where the arguments do not tell. TFF's ends its worker when nothing refers to it any more."""
    if request.param == "TFF":
        context = tff.backends.native.create_sync_local_cpp_execution_context(default_num_clients=1)
    else:
        context = InProcessContext(default_num_clients=1)
    with tff.framework.get_context_stack().install(context):
        yield
    del context
    gc.collect()


def drawn(value: Any) -> Any:
    """A result with its datasets replaced by what they give."""
    if isinstance(value, (list, tuple)):
        return [drawn(part) for part in value]
    return list(value.as_numpy_iterator()) if isinstance(value, tf.data.Dataset) else value


@tff.tensorflow.computation
def five():
    return tf.data.Dataset.range(5)


@tff.tensorflow.computation(tff.SequenceType(ROW))
def sum_of_a(rows):
    return rows.reduce(0, lambda total, row: total + row["a"])


def test_a_dataset_is_returned_and_nothing_of_it_drawn():
    @tff.tensorflow.computation
    def without_end():
        return tf.data.Dataset.range(3).repeat()

    result = without_end()
    assert isinstance(result, tf.data.Dataset) and result.element_spec == tf.TensorSpec([], tf.int64)
    assert drawn(result.take(7)) == [0, 1, 2, 0, 1, 2, 0]


def test_a_dataset_that_ends_knows_its_length():
    result = five()
    assert tf.data.experimental.cardinality(result) == 5 and drawn(result) == [0, 1, 2, 3, 4]


def test_a_dataset_comes_back_as_it_was_given():
    @tff.tensorflow.computation(tff.SequenceType(np.int64))
    def same(elements):
        return elements

    @tff.federated_computation(tff.FederatedType(tff.SequenceType(np.int64), tff.CLIENTS))
    def placed(elements):
        return elements

    assert drawn(same(tf.data.Dataset.range(3))) == drawn(same([0, 1, 2])) == [0, 1, 2]
    assert drawn(placed([tf.data.Dataset.range(2), tf.data.Dataset.range(1)])) == [[0, 1], [0]]


def test_datasets_among_other_values():
    @tff.tensorflow.computation
    def several():
        return tf.data.Dataset.range(2), [tf.constant(7), tf.data.Dataset.range(3)]

    @tff.federated_computation
    def at_server():
        return tff.federated_eval(five, tff.SERVER), tff.federated_value(1, tff.SERVER)

    assert drawn(several()) == [[0, 1], [7, [0, 1, 2]]]
    assert drawn(at_server()) == [[0, 1, 2, 3, 4], 1]


def test_datasets_of_rows_have_them_in_the_order_of_the_type():
    @tff.tensorflow.computation
    def rows():
        rows = tf.data.Dataset.from_tensor_slices(collections.OrderedDict(b=[1, 2], a=[3, 4]))
        return rows, rows.batch(5).take(0)

    found, none = rows()
    assert drawn(found) == [{"b": 1, "a": 3}, {"b": 2, "a": 4}]
    assert list(next(iter(found))) == ["b", "a"]
    assert drawn(none) == []
    assert none.element_spec == {name: tf.TensorSpec([None], tf.int32) for name in "ba"}


def test_rows_may_be_plain_dicts():
    assert sum_of_a([{"b": 1, "a": 2}, {"b": 3, "a": 4}]) == 6
    assert sum_of_a([{"a": 2, "b": 1}]) == 2
    assert sum_of_a([]) == 0


def test_clients_rows_may_be_plain_dicts():
    @tff.federated_computation(tff.FederatedType(tff.SequenceType(ROW), tff.CLIENTS))
    def total(rows):
        return tff.federated_sum(tff.federated_map(sum_of_a, rows))

    assert total([[{"b": 1, "a": 2}, {"b": 3, "a": 4}], [{"b": 0, "a": 10}]]) == 16


def test_sequences_of_strings():
    @tff.tensorflow.computation(tff.SequenceType(np.str_))
    def joined(words):
        return words.reduce("", lambda text, word: text + word), words

    @tff.tensorflow.computation(tff.SequenceType(tff.TensorType(np.str_, [None])))
    def counted(batches):
        return batches.reduce(0, lambda count, batch: count + tf.size(batch))

    text, words = joined(["a", "ü", b"c\0"])
    assert text == "aüc\0".encode() and drawn(words) == [b"a", "ü".encode(), b"c\0"]
    assert counted([["a", "b"], ["c", "d"], ["e"]]) == 5


def test_a_broadcast_is_returned():
    @tff.federated_computation(AT_SERVER)
    def broadcast(value):
        return tff.federated_broadcast(value)

    assert broadcast(10) == 10


def test_what_is_the_same_for_all_is_returned_beside_what_is_not():
    @tff.tensorflow.computation(np.int32)
    def plus_one(value):
        return value + 1

    @tff.federated_computation(AT_SERVER, tff.FederatedType(np.int32, tff.CLIENTS))
    def several(value, values):
        down = tff.federated_broadcast(value)
        return down, tff.federated_map(plus_one, down), values, tff.federated_value(3, tff.CLIENTS)

    assert drawn(several(10, [1, 2])) == [10, [11, 11], [1, 2], 3]


def test_without_arguments_there_are_as_many_clients_as_the_context_says():
    @tff.federated_computation
    def clients():
        ones = tff.federated_eval(tff.tensorflow.computation(lambda: 1), tff.CLIENTS)
        return tff.federated_sum(ones), ones

    assert drawn(clients()) == [1, [1]]


@pytest.mark.parametrize("value", [1.5, True, "1", 2**40, [1, 2], np.int64(1), np.ones(2), tf.constant(1.0)])
def test_a_value_that_does_not_fit_its_type_is_refused(value):
    @tff.tensorflow.computation(np.int32)
    def same(number):
        return number

    with pytest.raises(TypeError):
        same(value)


@pytest.mark.parametrize("value", [[1, 2], [1.0, 2.0, 3.0], np.ones(3), np.ones(2, np.int32)])
def test_a_clients_value_that_does_not_fit_is_refused(value):
    @tff.federated_computation(VECTORS)
    def total(vectors):
        return tff.federated_sum(vectors)

    with pytest.raises(TypeError):
        total([[1, 2, 3], value])


@pytest.mark.parametrize(
    "value", [1, np.int8(1), np.uint8(1), tf.constant(1, tf.int16), tf.Variable(1, dtype=tf.int32)]
)
def test_a_value_that_fits_is_converted(value):
    @tff.tensorflow.computation(np.int32)
    def same(number):
        return number

    assert same(value) == 1 and same(value).dtype == np.int32


def test_unequal_numbers_of_clients_are_refused():
    @tff.federated_computation(VECTORS, VECTORS)
    def both(first, second):
        return tff.federated_sum(first), tff.federated_sum(second)

    with pytest.raises(ValueError, match="Conflicting cardinalities"):
        both([[1, 2, 3]], [[1, 2, 3], [4, 5, 6]])


def test_names_of_another_struct_are_refused():
    @tff.tensorflow.computation(ROW)
    def same(row):
        return row

    with pytest.raises(TypeError):
        same(tff.structure.Struct([("c", 1), ("d", 2)]))
    assert same(tff.structure.Struct([(None, 1), (None, 2)])) == {"b": 1, "a": 2}
