"""tf.data pipelines: from paths (or arrays) to shuffled batches.

    range(epochs) ─ flat_map ─► order of the epoch ─ map ─► (image, label) ─ skip failed ─ batch ─ prefetch

A pipeline holds paths and labels but no pixels and no Python, so it can be handed to another process as some
kilobytes of graph. It holds no random state either: the order of an epoch is a function of the seed and of
the epoch's number, so a pipeline built again gives the same batches, here or elsewhere.

Clients get a new pipeline every round. Tracing one takes a tenth of a second, so each kind is traced once, as
a `tf.function` that returns the dataset; after that one more costs milliseconds.
"""

import functools
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tffapps.data import at_once, images, order

Augment = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # (image, stateless seed int32[2]) -> image
AugmentBoth = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]  # (image, label, seed)
_BOTH = 1  # of an example's seed, for what is done to image and label: what is done to the image has the seed itself


class Reader(Hashable, Protocol):
    """Makes a tensor of a file, in TensorFlow operations. Equal readers share their traces, so it must be hashable."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example, after augmentation."""

    @property
    def required(self) -> bool:
        """Whether a file that cannot be read is an error; else it is left out."""

    def __call__(self, path: tf.Tensor) -> tf.Tensor: ...


def batches(
    paths: Sequence[str],
    labels: Sequence[int] | np.ndarray,
    *,
    size: tuple[int, int],
    channels: int,
    batch: int,
    epochs: int = 1,
    seed: int = 0,
    shuffle: bool = True,
    augment: Augment | None = None,
    formats: tuple[str, ...] = images.FORMATS,
) -> tf.data.Dataset:
    """Batches of (float32 (batch, *size, channels) in [0, 1], int32 (batch)); none spans two epochs.

    With `formats` (see `images.formats_of`) a pipeline starts several times faster. For the rest see `of_files`.
    """
    read = images.Reader((int(size[0]), int(size[1])), channels, formats)
    return of_files(paths, labels, read, batch=batch, epochs=epochs, seed=seed, shuffle=shuffle, augment=augment)


def of_files(
    paths: Sequence[str],
    labels: Sequence[int] | Sequence[str] | np.ndarray,
    read: Reader,
    *,
    batch: int,
    epochs: int = 1,
    seed: int = 0,
    shuffle: bool = True,
    augment: Augment | None = None,
    read_label: Reader | None = None,
    augment_both: AugmentBoth | None = None,
) -> tf.data.Dataset:
    """Batches of (what `read` makes of the files, int32 (batch)); none spans two epochs.

    With `read_label` labels are files too, such as masks, and it reads them; `augment` leaves them as they are,
    `augment_both`, which comes before it, changes image and label alike.

    A file that cannot be read when its turn comes is left out, unless `read` requires it. `augment` must be a pure
    TensorFlow function; it is given a seed of its own for each file and epoch. Pass the same function each time, not a
    new lambda, or it is traced again.
    """
    example, build = _over_files(read, shuffle, augment, epochs > 1, read_label, augment_both)
    known = _int_labels(labels, len(paths)) if read_label is None else _names(labels, len(paths))
    seeds = (order.stream(seed, number) for number in (order.ORDER, order.AUGMENT))
    # As tensors, or every new value would be a new trace.
    arguments = [_names(paths, len(paths)), known, *seeds, tf.constant(batch, tf.int64)]
    dataset = build(*arguments, tf.constant(epochs, tf.int64))
    return at_once.attach(dataset, (read, augment, read_label, augment_both), example, shuffle, arguments, epochs)


def from_arrays(
    features: np.ndarray,
    labels: Sequence[int] | np.ndarray,
    *,
    batch: int,
    epochs: int = 1,
    seed: int = 0,
    shuffle: bool = True,
) -> tf.data.Dataset:
    """The same rows in the same order from an array of small images or features held in memory."""
    values = tf.constant(features)
    kind = values.dtype, tuple(values.shape[1:]), shuffle
    arguments = (
        values,
        _int_labels(labels, len(features)),
        order.stream(seed, order.ORDER),
        tf.constant(batch, tf.int64),
    )
    if epochs and epochs * values.dtype.size * values.shape.num_elements() <= at_once.MOST_BYTES:
        one_epoch = _epoch_of_arrays(*kind)
        parts = [one_epoch(*arguments, tf.constant(epoch, tf.int64)) for epoch in range(epochs)]
        return functools.reduce(lambda first, second: first.concatenate(second), parts)
    return _over_arrays(*kind, epochs > 1)(*arguments, tf.constant(epochs, tf.int64))


def of_views(
    values: np.ndarray,
    labels: Sequence[int] | np.ndarray,
    choose: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    *,
    batch: int,
    epochs: int = 1,
    seed: int = 0,
    shuffle: bool = True,
) -> tf.data.Dataset:
    """The same of several views of each row, (rows, views, …); `choose`, (views, seed) -> number, has the seed that
    `augment` has in `of_files`."""
    held = tf.constant(values)
    build = _over_views(held.dtype, tuple(held.shape[1:]), choose, shuffle, epochs > 1)
    seeds = (order.stream(seed, number) for number in (order.ORDER, order.AUGMENT))
    return build(
        held, _int_labels(labels, len(values)), *seeds, tf.constant(batch, tf.int64), tf.constant(epochs, tf.int64)
    )  # fmt: skip


def of_table(
    table: tf.data.Dataset, *, batch: int, epochs: int = 1, seed: int = 0, shuffle: bool = True
) -> tf.data.Dataset:
    """The rows, without labels, in the order of `from_arrays`, of an array that is made where the pipeline runs."""
    order_seed = order.stream(seed, order.ORDER)

    def rows(values: tf.Tensor) -> tf.data.Dataset:
        def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
            places = tf.data.Dataset.from_tensor_slices(order.of_rows(values, order_seed, epoch, shuffle))
            return places.batch(batch).map(lambda places: tf.gather(values, places))

        return tf.data.Dataset.range(epochs).flat_map(one_epoch)

    return table.flat_map(rows)


def element_spec(size: tuple[int, int], channels: int) -> tuple[tf.TensorSpec, tf.TensorSpec]:
    """What one batch of `batches` looks like."""
    return tf.TensorSpec((None, *size, channels), tf.float32), tf.TensorSpec((None,), tf.int32)


@functools.cache
def _over_files(
    read: Reader,
    shuffle: bool,
    augment: Augment | None,
    several: bool,
    read_label: Reader | None,
    augment_both: AugmentBoth | None,
) -> tuple[at_once.Example, Callable[..., tf.data.Dataset]]:
    """What makes an example of a row, and what makes a pipeline of them."""
    columns = [tf.TensorSpec((None,), tf.string), tf.TensorSpec((None,), tf.string if read_label else tf.int32)]

    def example(files, labels, epoch_seed, index):
        content, label = read(files[index]), read_label(labels[index]) if read_label else labels[index]
        seed = order.fold(epoch_seed, index)
        if augment_both is not None:
            content, label = augment_both(content, label, order.fold(seed, _BOTH))
        if augment is not None:
            content = tf.ensure_shape(augment(content, seed), read.shape)
        return content, label

    @order.traced_once([*columns, order.SEED, order.SEED, order.NUMBER, order.NUMBER])
    def build(files, labels, order_seed, augment_seed, batch, epochs):
        def one_epoch(epoch):
            one = functools.partial(example, files, labels, order.fold(augment_seed, epoch))
            rows = tf.data.Dataset.from_tensor_slices(order.of_rows(files, order_seed, epoch, shuffle))
            examples = rows.map(one, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
            return (examples if read.required else examples.ignore_errors()).batch(batch)

        return _repeated(one_epoch, epochs, several)

    return example, build


@functools.cache
def _over_arrays(
    dtype: tf.DType, shape: tuple[int, ...], shuffle: bool, several: bool
) -> Callable[..., tf.data.Dataset]:
    @order.traced_once(_arrays_signature(dtype, shape))
    def build(values, labels, order_seed, batch, epochs):
        def one_epoch(epoch):
            rows = tf.data.Dataset.from_tensor_slices(order.of_rows(values, order_seed, epoch, shuffle))
            # Batched before it is looked up: one step for each batch and not for each row.
            return rows.batch(batch).map(lambda rows: (tf.gather(values, rows), tf.gather(labels, rows)))

        return _repeated(one_epoch, epochs, several)

    return build


@functools.cache
def _over_views(
    dtype: tf.DType, shape: tuple[int, ...], choose: Callable[..., tf.Tensor], shuffle: bool, several: bool
) -> Callable[..., tf.data.Dataset]:
    columns = [tf.TensorSpec((None, *shape), dtype), tf.TensorSpec((None,), tf.int32)]

    @order.traced_once([*columns, order.SEED, order.SEED, order.NUMBER, order.NUMBER])
    def build(values, labels, order_seed, augment_seed, batch, epochs):
        def one_epoch(epoch):
            epoch_seed = order.fold(augment_seed, epoch)
            rows = tf.data.Dataset.from_tensor_slices(order.of_rows(labels, order_seed, epoch, shuffle))
            chosen = rows.map(lambda row: tf.stack([row, _choice(row, epoch_seed)]))
            return chosen.batch(batch).map(
                lambda pairs: (tf.cast(tf.gather_nd(values, pairs), tf.float32), tf.gather(labels, pairs[:, 0]))
            )

        def _choice(row, epoch_seed):
            return tf.cast(choose(tf.constant(shape[0]), order.fold(epoch_seed, row)), row.dtype)

        return _repeated(one_epoch, epochs, several)

    return build


@functools.cache
def _epoch_of_arrays(dtype: tf.DType, shape: tuple[int, ...], shuffle: bool) -> Callable[..., tf.data.Dataset]:
    """The same for few rows and one of the epochs: it starts in a third of the time."""

    @order.traced_once(_arrays_signature(dtype, shape))
    def build(values, labels, order_seed, batch, epoch):
        rows = order.of_rows(values, order_seed, epoch, shuffle)
        return at_once.sliced((tf.gather(values, rows), tf.gather(labels, rows)), batch)

    return build


def _arrays_signature(dtype: tf.DType, shape: tuple[int, ...]) -> list[tf.TensorSpec]:
    columns = [tf.TensorSpec((None, *shape), dtype), tf.TensorSpec((None,), tf.int32)]
    return [*columns, order.SEED, order.NUMBER, order.NUMBER]


def _repeated(one_epoch: Callable[[tf.Tensor], tf.data.Dataset], epochs: tf.Tensor, several: bool) -> tf.data.Dataset:
    # A single epoch needs no nesting and starts in half the time.
    first = tf.constant(0, tf.int64)
    dataset = tf.data.Dataset.range(epochs).flat_map(one_epoch) if several else one_epoch(first)
    # Clients' pipelines are short and many: rewriting and tuning each one costs more than it saves.
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.prefetch(2).with_options(options)


def _names(paths: Sequence[str] | Any, rows: int) -> tf.Tensor:
    _check_length(paths, rows)
    return tf.constant([os.fsencode(path) for path in paths], tf.string, shape=(rows,))


def _int_labels(labels: Sequence[int] | Sequence[str] | np.ndarray, rows: int) -> tf.Tensor:
    _check_length(labels, rows)
    return tf.constant(np.asarray(labels, np.int32), shape=(rows,))


def _check_length(labels: Any, rows: int) -> None:
    if len(labels) != rows:
        raise ValueError(f"{len(labels)} labels for {rows} images")
