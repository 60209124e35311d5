"""A site that sends other numbers than it should: named, left out, and the others end as they would without it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.conftest import largest_difference
from tests.engine.closed import need_namespaces
from tests.site.conftest import files
from tests.site.federation import Member
from tests.site.liar import change, lying, part
from tests.site.rounds import batches, clients, table_of
from tffapps.engine import open_engine
from tffapps.errors import RunStopped
from tffapps.evaluation import at_sites
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import State, build_round
from tffapps.federated.statistics import build_reestimation, reestimate

UPDATE, WEIGHT, REPORT = (0, 0), (0, 1), (0, 2)  # of an answer: the fields of what the client's work results in


@pytest.fixture(scope="module")
def federation(noise, folder):
    """An engine over an honest site a and a site b that lies, and the latter."""
    need_namespaces()
    honest, other = sites = [Member(noise, folder, name) for name in ("a", "b")]
    try:
        with (
            lying(folder, "b", other.port) as (address, liar),
            open_engine(f"{honest.address},{address}", files(folder, "coordinator")) as engine,
        ):
            yield engine, liar
    finally:
        for site in sites:
            site.close()


@pytest.fixture
def lie(federation):
    """Sets what b does to its answers."""
    engine, liar = federation

    def begin(alter):
        liar.alter = alter
        return engine

    yield begin
    liar.alter = None


@pytest.fixture(scope="module")
def averaging(tiny_task):
    return build_round(tiny_task, FedAvg(learning_rate=0.1))


@pytest.fixture(scope="module")
def alone(averaging, noise, tiny_weights):
    """The state after a round of site a alone."""
    with open_engine("in-process") as engine:
        everyone = clients(table_of(engine, noise))
        return play(averaging, averaging.start(tiny_weights), everyone, 1, 1, asked=[0]).state


def report(column: int, number: float):
    def changed(row: np.ndarray) -> np.ndarray:
        row = row.copy()
        row[column] = number
        return row

    return lambda answer: change(part(answer, *REPORT), changed)


def claims(examples: float):
    def alter(answer):
        change(part(answer, *WEIGHT), lambda weight: 0 * weight + examples)
        report(2, examples)(answer)

    return alter


LIES = {
    "its update is not finite": lambda answer: change(part(answer, *UPDATE), lambda value: value * np.nan),
    "its update has the length .*, at most": lambda answer: change(part(answer, *UPDATE), lambda value: -1e4 * value),
    "its weight is 1e.12, and it reports 36": lambda answer: change(part(answer, *WEIGHT), lambda one: 0 * one + 1e12),
    "it reports 1e.12 examples, and can have 36 at most": claims(1e12),
    "it reports as client 0, and is client 1": report(0, 0.0),
    "it reports as client 999, and is client 1": report(0, 999.0),
    "its report is none": report(3, np.nan),
    "left itself out, and sends an update": lambda answer: (
        change(part(answer, *WEIGHT), lambda one: 0 * one),
        report(1, 0.0)(answer),
    ),
    "expected a struct of 3 elements, found a struct of 2": lambda answer: part(answer, *UPDATE).struct.element.pop(),
    "trained.0. expected float32.3,3,3,8., found an array of 2 dimensions": lambda answer: part(
        answer, *UPDATE, 0, 0
    ).array.shape.dim.__setitem__(slice(None), [8, 27]),
}


@pytest.mark.parametrize("said", LIES)
def test_a_lie_is_named_and_left_out(said, lie, averaging, alone, noise, tiny_weights):
    engine = lie(LIES[said])
    outcome = play(averaging, averaging.start(tiny_weights), clients(table_of(engine, noise)), 1, min_clients=1)
    assert list(outcome.left_out) == ["b"] and list(outcome.reports) == ["a"]
    message = outcome.left_out["b"]
    assert message.startswith("failed: localhost:") and "refused what site b answered: " in message
    assert re.search(said, message)
    assert largest_difference(outcome.state.weights, alone.weights) < 1e-5


def test_the_least_number_of_clients_holds(lie, averaging, noise, tiny_weights):
    engine = lie(LIES["its update is not finite"])
    with pytest.raises(RunStopped, match=r"only 1 of 2 .* 2 needed .* b: failed: .*site b answered: its update is"):
        play(averaging, averaging.start(tiny_weights), clients(table_of(engine, noise)), 1, min_clients=2)


def test_lies_about_test_images(lie, noise, tiny_task, tiny_weights):
    predictor = at_sites.predictor(tiny_task.model, tiny_task.client_spec.element_spec)
    engine = lie(None)
    table = table_of(engine, noise)
    test = {site: rows for site, rows in table[table.split == "test"].groupby("client")}
    data = {site: batches(rows, shuffle=False) for site, rows in test.items()}
    labels = {site: np.array(2 * [int(label[-1]) for label in rows.label]) for site, rows in test.items()}  # two epochs
    assert at_sites.predict(engine, predictor, tiny_weights, data, labels).missing == {}

    def fewer(answer):
        array = part(answer, 0).array
        array.shape.dim[:], array.content = [1], array.content[:4]

    def others(answer):
        part(answer, 0).array.content = bytes(len(part(answer, 0).array.content))

    for alter, said in (
        (fewer, "1 labels and 12 predictions of 12 images"),
        (others, "other labels than its images have"),
    ):
        found = at_sites.predict(lie(alter), predictor, tiny_weights, data, labels)
        assert found.missing == {"b": f"refused what site b answered: {said}"} and len(found.labels) == 12


def test_lies_about_statistics(lie, noise, tiny_task, tiny_weights):
    start = State(list(tiny_weights), (), (), [])
    engine = lie(lambda answer: change(part(answer, *WEIGHT), lambda one: 0 * one + 1e12))
    done = reestimate(build_reestimation(tiny_task), start, clients(table_of(engine, noise)), 1, {"a", "b"})
    assert done.clients == 1 and "its weight is 1e+12, and it reports 36" in done.left_out["b"]


def test_a_lie_under_a_rule_against_bad_clients(lie, noise, tiny_task, tiny_weights):
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.1), Aggregation("robust"), clients=2)
    for said in list(LIES)[:2]:
        engine = lie(LIES[said])
        outcome = play(round_, round_.start(tiny_weights), clients(table_of(engine, noise)), 1, min_clients=1)
        assert list(outcome.left_out) == ["b"] and re.search(said, outcome.left_out["b"])
        assert largest_difference(outcome.state.weights, tiny_weights) < 10


def test_lies_under_an_aggregator_that_packs_updates(lie, noise, tiny_task, tiny_weights):
    """Its parts are no fields of what the client's work results in, but for weight and report."""
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.1), Aggregation("compressed"), clients=2)
    for alter, said in (
        (lambda answer: change(answer, lambda value: value * np.nan), "its update is not finite"),
        (lambda answer: change(part(answer, 1), lambda one: 0 * one + 1e12), "its weight is 1e"),
    ):
        engine = lie(alter)
        outcome = play(round_, round_.start(tiny_weights), clients(table_of(engine, noise)), 1, min_clients=1)
        assert list(outcome.left_out) == ["b"] and said in outcome.left_out["b"]
