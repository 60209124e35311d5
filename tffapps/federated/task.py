"""What is learned: a network, the batches it sees, a loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Task:
    """The same for every client and every method of a run.

    `model` gives the network its structure; the values of its weights are handed from round to round beside it and
    may be overwritten here at any time. A client's data is usually one dataset of (images, labels); a method that
    needs more (labelled and unlabelled images, say) takes a NamedTuple of datasets and tensors.
    """

    model: tf.keras.Model
    client_spec: Any  # of a client's data: a `tf.data.DatasetSpec`, a `tf.TensorSpec`, or a NamedTuple of them
    loss: Loss  # (labels, outputs) -> one value for each example
    server_spec: Any = None  # of the server's own data, where a method has a server step
    # In place of `loss`, where it goes by numbers of images: clients' data is `unequal.WithClassCounts` then.
    loss_by_counts: Callable[[tf.Tensor], Loss] | None = None
    clients: int = 1  # the most that take part in a round, for methods that remember each; `build_round` sets it
    noise_seed: Any = None  # int32 (2), at a client whose noise is seeded (`record_noise`); None: the system's

    @classmethod
    def of_batches(cls, model: tf.keras.Model, element_spec: Any, loss: Loss) -> Task:
        """The usual case: every client has one dataset of (images, labels)."""
        return cls(model, tf.data.DatasetSpec(element_spec), loss)


def data_type(spec: Any) -> Any:
    """What TFF calls data of this specification."""
    if isinstance(spec, tf.data.DatasetSpec):
        return tff.SequenceType(tff.types.tensorflow_to_type(spec.element_spec))
    if isinstance(spec, tf.TensorSpec):
        return tff.types.tensorflow_to_type(spec)
    if isinstance(spec, list):
        return tff.StructWithPythonType([(None, data_type(part)) for part in spec], list)
    return tff.to_type(type(spec)(*(data_type(part) for part in spec)))


def path_to_images(task: Task) -> tuple[int, ...]:
    """Where the training images are in a client's data: the indices that lead there, none where it is one dataset.

    In a NamedTuple that is the field `training`, if it has one, and else the first dataset whose elements are, or begin
    with, what the model takes: of FixMatch's data the labelled images, of pseudo-labelling's all that a client has.
    """
    model = task.model
    path = _path_to(task.client_spec, tf.TensorShape(model.input_shape)) if len(model.inputs) == 1 else None
    if path is None:
        raise ValueError(f"model {model.name}: the clients' data has no dataset of what it takes")
    return path


def _path_to(spec: Any, shape: tf.TensorShape) -> tuple[int, ...] | None:
    if isinstance(spec, tf.data.DatasetSpec):
        first = spec.element_spec[0] if isinstance(spec.element_spec, tuple) else spec.element_spec
        return () if isinstance(first, tf.TensorSpec) and first.shape.is_compatible_with(shape) else None
    if not isinstance(spec, tuple):
        return None
    fields = getattr(spec, "_fields", ())
    for index in [fields.index("training")] if "training" in fields else range(len(spec)):
        path = _path_to(spec[index], shape)
        if path is not None:
            return index, *path
    return None


def batch_norms(model: tf.keras.Model) -> list[tf.keras.layers.Layer]:
    """The BatchNorm layers that use a batch's statistics in training, in the order of the model's weights."""
    place = {id(variable): index for index, variable in enumerate(model.weights)}
    kinds = (tf.keras.layers.BatchNormalization, tf.keras.layers.experimental.SyncBatchNormalization)
    found = [layer for layer in model.submodules if isinstance(layer, kinds) and layer.trainable]
    return sorted(found, key=lambda layer: place[id(layer.moving_mean)])


def byte_count(specs: Sequence[tf.TensorSpec]) -> int:
    return sum(spec.dtype.size * spec.shape.num_elements() for spec in specs)


@dataclasses.dataclass(frozen=True)
class WeightsLayout:
    """Shapes of a model's weights and which of them are trained; statistics (BatchNorm) are only averaged."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype[Any], ...]
    trainable: tuple[bool, ...]
    variance: tuple[bool, ...]  # BatchNorm's moving variances: never negative

    @classmethod
    def of(cls, model: tf.keras.Model) -> WeightsLayout:
        trained = {id(variable) for variable in model.trainable_variables}
        return cls(
            tuple(tuple(variable.shape.as_list()) for variable in model.weights),
            tuple(np.dtype(variable.dtype.as_numpy_dtype) for variable in model.weights),
            tuple(id(variable) in trained for variable in model.weights),
            tuple("moving_variance" in variable.name for variable in model.weights),
        )

    @classmethod
    def empty(cls) -> WeightsLayout:
        """Of a method that sends no weights."""
        return cls((), (), (), ())

    def types(self) -> list[tff.TensorType]:
        return [tff.TensorType(dtype.type, shape) for dtype, shape in zip(self.dtypes, self.shapes)]

    def specs(self) -> list[tf.TensorSpec]:
        return [tf.TensorSpec(shape, dtype) for shape, dtype in zip(self.shapes, self.dtypes)]

    def byte_count(self) -> int:
        return byte_count(self.specs())

    def without(self, part: Sequence[bool]) -> WeightsLayout:
        """Of the weights that are not in a part; of all if it is empty."""
        places = [index for index in range(len(self.shapes)) if not part or not part[index]]
        return WeightsLayout(
            tuple(self.shapes[index] for index in places),
            tuple(self.dtypes[index] for index in places),
            tuple(self.trainable[index] for index in places),
            tuple(self.variance[index] for index in places),
        )

    def trained(self, values: Sequence[Any]) -> list[Any]:
        return [value for value, is_trained in zip(values, self.trainable) if is_trained]

    def statistics(self, values: Sequence[Any]) -> list[Any]:
        return [value for value, is_trained in zip(values, self.trainable) if not is_trained]

    def joined(self, trained: Sequence[Any], statistics: Sequence[Any]) -> list[Any]:
        """The two kinds in the order of the model's weights again."""
        first, second = iter(trained), iter(statistics)
        return [next(first) if is_trained else next(second) for is_trained in self.trainable]


def cross_entropy(labels: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
    """Loss of a classifier that ends in a softmax."""
    return tf.keras.losses.sparse_categorical_crossentropy(labels, probabilities)
