"""The aggregation process of a round: trained weights and statistics together or apart, as `Aggregation` says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow_federated as tff

from tffapps.federated.aggregation import Aggregation
from tffapps.federated.task import WeightsLayout

_WEIGHT = tff.TensorType(np.float32)


class Update(NamedTuple):
    """How far one client's weights have moved, in two parts."""

    trained: list
    statistics: list


def update_type(layout: WeightsLayout) -> tff.Type:
    return tff.to_type(Update(layout.trained(layout.types()), layout.statistics(layout.types())))


def build_aggregator(aggregation: Aggregation, layout: WeightsLayout, clients: int) -> tff.templates.AggregationProcess:
    """A process whose `next` takes (state, update, weight), whatever the factories behind it take."""
    kind = update_type(layout)
    factory = aggregation.factory(clients)
    if not aggregation.statistics_apart:
        return _taking_weights(factory.create(kind), kind)
    trained = factory.create(kind.trained, _WEIGHT)
    statistics = aggregation.statistics_factory().create(kind.statistics, _WEIGHT) if len(kind.statistics) else None
    return _apart(trained, statistics, kind)


def _apart(
    trained: tff.templates.AggregationProcess,
    statistics: tff.templates.AggregationProcess | None,
    kind: tff.Type,
) -> tff.templates.AggregationProcess:
    @tff.federated_computation
    def initialize():
        states = (trained.initialize(), statistics.initialize()) if statistics else (trained.initialize(),)
        return tff.federated_zip(states)

    @tff.federated_computation(initialize.type_signature.result, *_at_clients(kind))
    def next_(state, update, weight):
        first = trained.next(state[0], update.trained, weight)
        if statistics is None:
            result = tff.federated_zip(Update(first.result, tff.federated_value([], tff.SERVER)))
            return tff.templates.MeasuredProcessOutput(tff.federated_zip((first.state,)), result, first.measurements)
        second = statistics.next(state[1], update.statistics, weight)
        return tff.templates.MeasuredProcessOutput(
            tff.federated_zip((first.state, second.state)),
            tff.federated_zip(Update(first.result, second.result)),
            first.measurements,
        )

    return tff.templates.AggregationProcess(initialize, next_)


def _taking_weights(unweighted: tff.templates.AggregationProcess, kind: tff.Type) -> tff.templates.AggregationProcess:
    @tff.federated_computation(unweighted.initialize.type_signature.result, *_at_clients(kind))
    def next_(state, update, weight):
        del weight  # every client counts the same
        return unweighted.next(state, update)

    return tff.templates.AggregationProcess(unweighted.initialize, next_)


def _at_clients(kind: tff.Type) -> tuple[tff.Type, tff.Type]:
    return tff.FederatedType(kind, tff.CLIENTS), tff.FederatedType(_WEIGHT, tff.CLIENTS)
