"""CCVR (Luo et al. 2021): the classifying layer re-trained at the server, on virtual features, after the last round.

Clients whose classes differ pull the last layer apart most. So when all rounds are played:

     server                                        each client that took part in the last round
     weights ────────────────────── broadcast ───► assign to the model
                                                   its training data through it, in inference mode, no gradient
     sums ◄── n_c, Σz, Σzzᵀ ────────────────────── of the features z that the last layer sees, for each class c
     Gaussian of each class, features drawn from it,
     the last layer fitted to them (`virtual_features`)
     reports ◄──────────────────────────────────── (client, ok, examples)

From the sums come the means and covariances of all features together, exactly: the paper's equations for local means
and covariances, which tell the server the same. It sees each client's in the clear, so `secure` and `dp` are refused.

Deviations: the layer is the minimum of a convex loss, found by L-BFGS, where the paper takes steps of SGD; covariances
of classes with few images are shrunk. As in the paper every class has as many virtual features, however rare it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from models.embedding import classifying_layer, embedding_of, embedding_size
from tffapps.engine.judging import judged
from tffapps.errors import UserError
from tffapps.federated import virtual_features
from tffapps.federated.cohort import Client, call_without_failing
from tffapps.federated.judge import Judge
from tffapps.federated.local import Tensors
from tffapps.federated.portable import PortableFunction
from tffapps.federated.retraining import Retraining
from tffapps.federated.round import AnyState, AveragingState
from tffapps.federated.rows import gather
from tffapps.federated.task import Task, WeightsLayout, byte_count, data_type, path_to_images

REPORT_COLUMNS = ("client", "ok", "examples")


class ClassMoments(NamedTuple):
    """Sums over images, float64: Σzzᵀ − n·mean·meanᵀ needs the digits."""

    counts: Any  # (classes)
    sums: Any  # (classes, d)
    squares: Any  # (classes, d, d)


class Retrained(NamedTuple):
    """What `retrain` did to a state."""

    state: AnyState
    left_out: dict[str, str]  # name -> why
    bytes_down: int
    bytes_up: int


@dataclasses.dataclass(frozen=True)
class Collection:
    """Can be called again and again, for any number of clients; `build_collection` makes it."""

    settings: Retraining
    task: Task
    layout: WeightsLayout
    sent: ClassMoments  # specs
    computation: tff.Computation

    def head(self) -> tuple[int, int]:
        """Where the kernel and the bias of the last layer are among the model's weights."""
        place = {id(variable): index for index, variable in enumerate(self.task.model.weights)}
        layer = classifying_layer(self.task.model)
        return place[id(layer.kernel)], place[id(layer.bias)]


def build_collection(task: Task, settings: Retraining) -> Collection:
    """Traces what clients do."""
    layer = classifying_layer(task.model)
    if getattr(layer, "bias", None) is None:
        raise UserError(f"--retrain {settings.retrain}: the network does not end in a dense layer with a bias")
    if not layer.trainable:
        raise UserError(f"--retrain {settings.retrain}: the network's last layer is frozen")
    layout, classes, size = WeightsLayout.of(task.model), task.model.output_shape[-1], embedding_size(task.model)
    shapes = ((classes,), (classes, size), (classes, size, size))
    sent = ClassMoments(*(tf.TensorSpec(shape, tf.float64) for shape in shapes))
    collect = _client_work(task, layout, sent)

    @tff.federated_computation(
        tff.StructType(
            [
                ("weights", tff.FederatedType(data_type(layout.specs()), tff.SERVER)),
                ("positions", tff.FederatedType(np.int32, tff.CLIENTS)),
                ("data", tff.FederatedType(data_type(task.client_spec), tff.CLIENTS)),
            ]
        )
    )
    def collect_features(given: Any) -> Any:
        broadcast = tff.federated_broadcast(given.weights)
        done = tff.federated_map(collect, (broadcast, given.positions, given.data))
        row = tf.TensorSpec([len(REPORT_COLUMNS)], tf.float32)
        return {"moments": tff.federated_sum(done.moments), "reports": gather(done.report, row)}

    return Collection(settings, task, layout, sent, collect_features)


def retrain(
    collection: Collection, state: AnyState, clients: Sequence[Client], number: int, names: Set[str], seed: int
) -> Retrained:
    """The state with another last layer in the weights that are judged and used.

    Args:
      collection: what is played.
      state: the server's, after the last round.
      clients: all of them.
      number: the round's; its data is used again.
      names: of those that took part in it.
      seed: of the virtual features.
    """
    weights = list(state.mean if isinstance(state, AveragingState) else state.weights)
    asked = [position for position, client in enumerate(clients) if client.name in names]

    def call(present: Sequence[int]) -> Any:
        with judged(Judge(present, [clients[each].examples for each in present], raw=True)):
            data = [clients[each].data(number) for each in present]
            return collection.computation(weights=weights, positions=list(present), data=data)

    down = len(asked) * collection.layout.byte_count()
    result, present, failed = call_without_failing(call, asked, "collecting features for --retrain")
    left_out = {clients[position].name: why for position, why in failed.items()}
    if result is None:
        return Retrained(state, left_out, down, 0)
    for position, ok, examples in np.asarray(result["reports"]).tolist():
        if not ok:
            left_out[clients[int(position)].name] = "features are not finite" if examples else "no usable examples"
    up = len(present) * (byte_count(list(collection.sent)) + 4 * len(REPORT_COLUMNS))
    moments = [np.asarray(value) for value in ClassMoments(**dict(result["moments"]._asdict()))]
    if moments[0].sum() > 0:
        weights = with_new_head(collection, weights, ClassMoments(*moments), seed)
    if isinstance(state, AveragingState):
        return Retrained(state._replace(mean=weights), left_out, down, up)
    return Retrained(state._replace(weights=weights), left_out, down, up)


def with_new_head(collection: Collection, weights: Sequence[Any], moments: ClassMoments, seed: int) -> list[np.ndarray]:
    """The weights, the last layer fitted to virtual features."""
    settings, places = collection.settings, collection.head()
    gaussians = virtual_features.shrunk(virtual_features.pooled(*moments), settings.virtual_shrinkage)
    features, labels = virtual_features.drawn(gaussians, settings.virtual_features, seed)
    head = [np.asarray(weights[place], np.float64) for place in places]
    new = virtual_features.fitted(features, labels, head[0], head[1], settings.virtual_penalty)
    changed = [np.asarray(value) for value in weights]
    for place, value in zip(places, new):
        changed[place] = value.astype(changed[place].dtype)
    return changed


class _Collected(NamedTuple):
    """What one client hands in."""

    moments: ClassMoments
    weight: Any
    report: Any


def _client_work(task: Task, layout: WeightsLayout, sent: ClassMoments) -> tff.Computation:
    model, specs, path = task.model, layout.specs(), path_to_images(task)
    embedding, classes = embedding_of(model), model.output_shape[-1]

    @tf.function
    def totals(batches: tf.data.Dataset) -> ClassMoments:
        counts, sums, squares = (tf.zeros(spec.shape, spec.dtype) for spec in sent)
        for images, labels in iter(batches):
            features = tf.cast(embedding(images, training=False), tf.float64)  # (batch, d)
            own = tf.one_hot(labels, classes, dtype=tf.float64)  # (batch, classes)
            counts += tf.reduce_sum(own, axis=0)
            sums += tf.matmul(own, features, transpose_a=True)
            masked = tf.transpose(own)[:, :, tf.newaxis] * features  # (classes, batch, d)
            squares += tf.matmul(masked, tf.broadcast_to(features, tf.shape(masked)), transpose_a=True)
        return ClassMoments(counts, sums, squares)

    def collect(weights: Tensors, position: tf.Tensor, data: Any) -> _Collected:
        for variable, value in zip(model.weights, weights):
            variable.assign(value)
        for index in path:
            data = data[index]
        found = totals(data)
        examples = tf.reduce_sum(found.counts)
        ok = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in found]) & (examples > 0)
        # Zeroed, not multiplied by zero: 0 · NaN is NaN.
        moments = ClassMoments(*(tf.where(ok, value, tf.zeros_like(value)) for value in found))
        report = tf.stack([tf.cast(value, tf.float32) for value in (position, ok, examples)])
        return _Collected(moments, tf.where(ok, tf.cast(examples, tf.float32), 0.0), report)

    portable = PortableFunction(model, collect, (specs, tf.TensorSpec([], tf.int32), task.client_spec))

    @tff.tensorflow.computation(data_type(specs), np.int32, data_type(task.client_spec))
    def work(weights: Any, position: Any, data: Any) -> Any:
        return portable(list(weights), position, data)

    return work
