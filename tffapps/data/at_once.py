"""The examples of a small client, read at once where they are trained on: same rows, same order, same values.

A pipeline that reads files is made of functions, which TensorFlow prepares anew whenever one is started: 15 ms, three
times what a small network needs for eight small images. Here one function, prepared once for all clients and rounds,
reads a whole epoch, and what is handed on is a pipeline of nothing but slices.

`pipeline.of_files` gives its datasets a function `at_once`, which makes such a pipeline of them; an engine that does a
client's work in this process calls it in the client's turn. To all others they are datasets like any.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from tffapps.data import order

MOST_BYTES = 2**22  # of a client's examples in all its epochs; those of a larger one are read as they are needed
_PARALLEL = 8  # files that are read at the same time

Example = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], Any]  # files, labels, an epoch's seed, row -> tensors


def sliced(tensors: Any, batch: tf.Tensor) -> tf.data.Dataset:
    """Batches of the rows of tensors, by operations that need no function and no rewriting."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return tf.data.Dataset.from_tensor_slices(tensors).batch(batch).with_options(options)


def attach(
    dataset: tf.data.Dataset,
    key: Hashable,
    example: Example,
    shuffle: bool,
    arguments: Sequence[tf.Tensor],
    epochs: int,
) -> tf.data.Dataset:
    """The dataset, with `at_once` if its examples are few enough.

    Args:
      dataset: of batches, as `pipeline.of_files` makes it.
      key: equal for equal `example`s, which share their traces.
      example: makes one example of a row.
      shuffle: whether an epoch has an order of its own.
      arguments: files, labels, seed of the order, seed of the augmentation, batch.
      epochs: how many.
    """
    leaves = tf.nest.flatten(dataset.element_spec)
    row = sum(leaf.dtype.size * math.prod(leaf.shape[1:]) for leaf in leaves)
    rows = int(arguments[0].shape[0])
    if rows and rows * epochs * row <= MOST_BYTES:
        dataset.at_once = functools.partial(_read, dataset, _Traced(key, example), shuffle, tuple(arguments), epochs)
    return dataset


def of(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Its examples read now, if it offers that; else itself."""
    return dataset.at_once() if hasattr(dataset, "at_once") else dataset


class _Traced:
    """An example's function, hashed and compared by its key."""

    def __init__(self, key: Hashable, example: Example) -> None:
        self._key, self.example = key, example

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Traced) and self._key == other._key


def _read(
    dataset: tf.data.Dataset, traced: _Traced, shuffle: bool, arguments: tuple[tf.Tensor, ...], epochs: int
) -> tf.data.Dataset:
    read = _epoch(traced, shuffle, arguments[1].dtype, _row_specs(dataset))
    try:
        with _as_written():
            parts = [read(*arguments, tf.constant(epoch, tf.int64)) for epoch in range(epochs)]
    except tf.errors.OpError:
        return dataset  # it leaves out files that cannot be read, or says what is wrong
    return functools.reduce(lambda first, second: first.concatenate(second), parts)


@contextlib.contextmanager
def _as_written() -> Iterator[None]:
    """Calls functions as pipelines do. Rewritten, x / 255 would be x · (1 / 255), and other numbers in the last bit."""
    runtime = context.context()
    before = runtime.function_call_options  # this thread's
    plainly = tf.compat.v1.ConfigProto.FromString(before.config_proto_serialized)
    plainly.graph_options.rewrite_options.disable_meta_optimizer = True
    runtime.function_call_options = context.FunctionCallOptions(config_proto=plainly)
    try:
        yield
    finally:
        runtime.function_call_options = before


def _row_specs(dataset: tf.data.Dataset) -> tuple[tf.TensorSpec, ...]:
    return tuple(tf.TensorSpec(leaf.shape[1:], leaf.dtype) for leaf in dataset.element_spec)


@functools.cache
def _epoch(
    traced: _Traced, shuffle: bool, labels: tf.DType, specs: tuple[tf.TensorSpec, ...]
) -> Callable[..., tf.data.Dataset]:
    columns = [tf.TensorSpec((None,), tf.string), tf.TensorSpec((None,), labels)]

    @order.traced_once([*columns, order.SEED, order.SEED, order.NUMBER, order.NUMBER])
    def read(files, labels, order_seed, augment_seed, batch, epoch):
        epoch_seed = order.fold(augment_seed, epoch)
        rows = tf.map_fn(
            lambda index: traced.example(files, labels, epoch_seed, index),
            order.of_rows(files, order_seed, epoch, shuffle),
            fn_output_signature=specs,
            parallel_iterations=_PARALLEL,
        )
        return sliced(rows, batch)

    return read
