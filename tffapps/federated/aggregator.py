"""The aggregation process of a round: the parts of an update together or apart, as `Aggregation` says."""

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated.aggregation import Aggregation
from tffapps.federated.task import WeightsLayout, data_type

_WEIGHT = tff.TensorType(np.float32)


class Update(NamedTuple):
    """What one client hands in: how far its weights have moved, in two parts, and what its method sends besides."""

    trained: list[Any]
    statistics: list[Any]
    sent: list[Any]


def update_type(layout: WeightsLayout, sent: Sequence[tf.TensorSpec]) -> tff.Type:
    trained, statistics = layout.trained(layout.types()), layout.statistics(layout.types())
    return tff.to_type(Update(trained, statistics, data_type(list(sent))))


def build_aggregator(
    aggregation: Aggregation, layout: WeightsLayout, clients: int, sent: Sequence[tf.TensorSpec] = ()
) -> tff.templates.AggregationProcess:
    """A process whose `next` takes (state, update, weight), whatever the factories behind it take."""
    kind = update_type(layout, sent)
    factory = aggregation.factory(clients)
    if not aggregation.statistics_apart:
        return _taking_weights(factory.create(kind), kind)
    parts = {"trained": factory.create(kind.trained, _WEIGHT)} if len(kind.trained) else {}
    for name in ("statistics", "sent"):
        part = getattr(kind, name)
        if len(part):
            parts[name] = aggregation.statistics_factory().create(part, _WEIGHT)
    return _apart(parts, kind)


def _apart(parts: dict[str, tff.templates.AggregationProcess], kind: tff.Type) -> tff.templates.AggregationProcess:
    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_zip(tuple(part.initialize() for part in parts.values()))

    @tff.federated_computation(initialize.type_signature.result, *_at_clients(kind))
    def next_(state: Any, update: Any, weight: Any) -> Any:
        outputs = {
            name: part.next(state[index], getattr(update, name), weight)
            for index, (name, part) in enumerate(parts.items())
        }
        results = (
            outputs[name].result if name in outputs else tff.federated_value([], tff.SERVER) for name in Update._fields
        )
        return tff.templates.MeasuredProcessOutput(
            tff.federated_zip(tuple(output.state for output in outputs.values())),
            tff.federated_zip(Update(*results)),
            tff.federated_zip(collections.OrderedDict((name, out.measurements) for name, out in outputs.items())),
        )

    return tff.templates.AggregationProcess(initialize, next_)


def _taking_weights(unweighted: tff.templates.AggregationProcess, kind: tff.Type) -> tff.templates.AggregationProcess:
    @tff.federated_computation(unweighted.initialize.type_signature.result, *_at_clients(kind))
    def next_(state: Any, update: Any, weight: Any) -> Any:
        return unweighted.next(state, update)

    return tff.templates.AggregationProcess(unweighted.initialize, next_)


def _at_clients(kind: tff.Type) -> tuple[tff.Type, tff.Type]:
    return tff.FederatedType(kind, tff.CLIENTS), tff.FederatedType(_WEIGHT, tff.CLIENTS)
