"""A run that re-estimates BatchNorm's statistics: what is judged, kept and gone on with has them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import dataset, largest_difference
from tests.test_training import CLIENTS, ROUNDS, Interrupted
from tffapps.engine import open_engine
from tffapps.federated.cohort import Client
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.statistics import build_reestimation
from tffapps.federated.task import Task, cross_entropy
from tffapps.runs import BEST, Run
from tffapps.training import MEASURED_COLUMNS, train

LABELS = np.array([0, 1, 0, 1, 1, 0], np.int32)
PICTURES = np.where(LABELS == 1, 101.0, 99.0).astype(np.float32)[:, None]


@pytest.fixture(scope="module")
def lagging():
    """A network that tells the classes apart once it knows that their mean is 100; it begins with 0. Its weights."""
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((1,)), layers.BatchNormalization(), layers.Dense(2, "softmax")])
    spec = (tf.TensorSpec([None, 1], tf.float32), tf.TensorSpec([None], tf.int32))
    first = [[1.0], [0.0], [0.0], [1.0], [[-2.0, 2.0]], [0.0, 0.0]]  # gamma, beta, mean, variance; kernel, bias
    return Task.of_batches(model, spec, cross_entropy), [np.array(value, np.float32) for value in first]


@pytest.mark.parametrize("average_from", [0, 1])
def test_a_model_whose_statistics_lag_is_right_after_one_round(average_from, lagging, tmp_path):
    task, start = lagging
    # Their means are 100 and 99, and that of the eight pictures together 99.75.
    halves = {"one": slice(0, 6, 1), "two": slice(0, 3, 2)}
    clients = [
        Client(name, lambda _, part=part: tf.data.Dataset.from_tensors((PICTURES[part], LABELS[part])))
        for name, part in halves.items()
    ]
    round_ = build_round(task, FedAvg(learning_rate=1e-6, average_from=average_from))
    found, rows = {}, {}

    def evaluate(trained):
        task.model.set_weights([np.asarray(value) for value in trained.weights])
        predicted = np.argmax(task.model(PICTURES, training=False), axis=1)
        return {"accuracy": float(np.mean(predicted == LABELS)), "error": float(np.mean(predicted != LABELS))}

    for name, reestimation in {"moving": None, "new": build_reestimation(task)}.items():
        with open_engine("in-process") as engine, Run(tmp_path, name, {}) as run:
            final = train(
                run, round_, start, clients, rounds=1, engine=engine, evaluate=evaluate, chosen_by="error",
                reestimation=reestimation,
            ).weights  # fmt: skip
            rows[name] = run.rounds().iloc[0]
            found[name] = final
            count = len(start)
            arrays = run.latest()[1]
            stored = arrays[-count:] if average_from else arrays[:count]
            assert largest_difference(stored, final) == largest_difference(run.kept(BEST), final) == 0
    assert rows["moving"].accuracy == 0.5 and rows["new"].accuracy == 1.0
    seen = np.concatenate([PICTURES[part] for part in halves.values()])
    assert found["new"][2] == pytest.approx([seen.mean()]) and found["new"][3] == pytest.approx([seen.var()], rel=1e-5)
    assert found["moving"][2][0] < 2 and largest_difference(found["new"][4:], found["moving"][4:]) < 1e-6
    # Down: 4 × (4 + 4) bytes of weights to two clients; up: 2 sums of 8 bytes and 3 numbers of a report.
    models = 2 if average_from else 1
    assert rows["new"].bytes_down - rows["moving"].bytes_down == models * 2 * 32
    assert rows["new"].bytes_up - rows["moving"].bytes_up == models * 2 * (2 * 8 + 3 * 4)
    assert rows["new"].statistics_clients == 2 and "statistics_clients" not in rows["moving"]


def test_interrupted_and_resumed_it_ends_the_same(tiny_task, tiny_weights, tmp_path):
    round_, reestimation = build_round(tiny_task, FedAvg(learning_rate=0.1)), build_reestimation(tiny_task)
    seen = {}

    def run_once(folder, stop_at=0):
        def evaluate(trained):
            if trained.number == stop_at:
                raise Interrupted
            seen.setdefault(folder, []).append(trained.weights)
            return {"accuracy": float(trained.weights[0].sum())}

        with open_engine("in-process") as engine, Run(folder, "run", {}) as run:
            final = train(
                run, round_, tiny_weights, CLIENTS, rounds=ROUNDS, engine=engine, evaluate=evaluate,
                reestimation=reestimation,
            ).weights  # fmt: skip
            return final, run.rounds().drop(columns=list(MEASURED_COLUMNS))

    expected, record = run_once(tmp_path / "whole")
    for stop_at in (1, 3):
        with pytest.raises(Interrupted):
            run_once(tmp_path / "parts", stop_at)
    final, found = run_once(tmp_path / "parts")
    assert largest_difference(final, expected) == 0 and found.equals(record)
    assert largest_difference(seen[tmp_path / "whole"][-1], expected) == 0  # judged as they are returned


def test_who_fails_in_it_is_in_the_record_and_in_the_round(tiny_task, tiny_weights, tmp_path):
    asked = []

    def once(number):
        asked.append(number)
        return dataset(number) if len(asked) == 1 else dataset(number).take(0)

    round_, reestimation = build_round(tiny_task, FedAvg(learning_rate=0.1)), build_reestimation(tiny_task)
    clients = [CLIENTS[0], Client("brief", once)]
    with open_engine("in-process") as engine, Run(tmp_path, "run", {}) as run:
        train(
            run, round_, tiny_weights, clients, rounds=1, engine=engine, evaluate=lambda trained: {},
            reestimation=reestimation,
        )  # fmt: skip
        row = run.rounds().iloc[0]
    assert (row.clients, row.statistics_clients) == (2, 1)
    assert row.left_out == "brief (of the statistics: no usable examples)"
