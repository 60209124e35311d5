"""A run's ledger is ahead of its rounds, whatever happens between; the table adds up all that was spent."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from tests.conftest import dataset
from tests.test_study import Constant, ToySettings, study
from tffapps.engine import open_engine
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client
from tffapps.federated.fedavg import FedAvg
from tffapps.privacy.accounting import spent
from tffapps.privacy.release import CLIENT, GAUSSIAN, RECORD, Release
from tffapps.privacy_table import TOGETHER, UNPROTECTED
from tffapps.runs import Run
from tffapps.study import Initial, Trial

DELTA = 1e-5


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def trial():
    import tensorflow as tf

    from tffapps.federated.task import Task, cross_entropy

    spec = (tf.TensorSpec([None, 8, 8, 3], tf.float32), tf.TensorSpec([None], tf.int32))
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((8, 8, 3)), layers.Flatten(), layers.Dense(3, activation="softmax")])
    task, weights = Task.of_batches(model, spec, cross_entropy), model.get_weights()

    def make(seed=0, noise=0.8, aggregation=None, **changes) -> Trial:
        return Trial(
            labels={"method": "fedavg", "seed": seed, "side": "none"}, name=f"fedavg-seed{seed}",
            method=FedAvg(learning_rate=0.1, record_dp=noise), task=task,
            clients=lambda: [Client(name, lambda number: dataset(number, 8), passes=2) for name in ("a", "b")],
            initial=Initial(weights, {"weights": "random"}), rounds=2, evaluator=Constant(), settings=[ToySettings()],
            data={"images": "abc"}, size=2, aggregation=aggregation or Aggregation(), **changes,
        )  # fmt: skip

    return make


def gaussians(noise, count, unit=CLIENT):
    return [Release("x", GAUSSIAN, noise, count=count, unit=unit)]


def test_a_round_that_a_kill_makes_happen_twice_is_counted_twice(trial, tmp_path, monkeypatch):
    save = Run.save

    def killed(run, number, values):
        if number == 2:
            raise Killed
        save(run, number, values)

    with open_engine("in-process") as engine:
        monkeypatch.setattr(Run, "save", killed)
        with pytest.raises(Killed):
            study(tmp_path, engine).run(trial())
        monkeypatch.setattr(Run, "save", save)
        record = study(tmp_path, engine).run(trial())
        whole = study(tmp_path / "whole", engine).run(trial())
    # 2 passes a round, 3 rounds in all; the numbers of the run itself are those of one that was never stopped.
    assert record.rounds.epsilon_record.tolist() == pytest.approx(
        [spent(gaussians(0.8, passes, RECORD), DELTA, RECORD).rdp for passes in (2, 6)], abs=1e-4
    )
    assert whole.rounds.epsilon_record.iloc[-1] < record.rounds.epsilon_record.iloc[-1]
    assert all(np.array_equal(a, b) for a, b in zip(record.weights(), whole.weights()))  # seeded noise
    row = pd.read_csv(record.folder.parents[1] / "privacy.csv").iloc[0]
    assert (row["method"], row["stage"], row["rounds"], row["again"], row["clients"]) == ("fedavg", "none", 2, 1, 2)


def test_the_whole_study_adds_up(trial, tmp_path):
    """Two seeds of DP at the clients; one run of client-level DP, which hides an image half as well; one of neither."""
    with open_engine("in-process") as engine:
        first = study(tmp_path, engine)
        for each in (trial(0), trial(1), trial(2, 0.0, Aggregation("dp", dp_noise=3.0)), trial(3, 0.0)):
            record = first.run(each)
        fresh = study(tmp_path, engine, fresh=True).run(trial(0))
    table = pd.read_csv(fresh.folder.parents[1] / "privacy.csv").set_index("run")
    own = table.loc[fresh.folder.name]
    once = spent(gaussians(0.8, 8, RECORD), DELTA, RECORD)  # what was released before --fresh stays released
    assert (own.epsilon_rdp, own.epsilon_pld) == pytest.approx(tuple(once), abs=1e-4) and own.again == 2
    together = table.loc[TOGETHER].set_index("unit")
    of_images = [*gaussians(0.8, 12, RECORD), *gaussians(1.5, 2, RECORD)]
    assert together.loc["record"].epsilon_rdp == pytest.approx(spent(of_images, DELTA, RECORD).rdp, abs=1e-4)
    assert together.loc["record"].epsilon_pld == pytest.approx(spent(of_images, DELTA, RECORD).pld, abs=1e-4)
    assert np.isinf(together.loc["client"].epsilon_rdp)  # what hides an image does not hide a client
    assert table.loc[UNPROTECTED].runs == 1 and not (record.folder / "ledger.jsonl").exists()


def test_an_update_that_is_hidden_twice_is_counted_once_for_each_unit(trial, tmp_path):
    with open_engine("in-process") as engine:
        record = study(tmp_path, engine).run(trial(0, 0.8, Aggregation("dp", dp_noise=2.0)))
    last = record.rounds.iloc[-1]
    assert last.epsilon == pytest.approx(spent(gaussians(2.0, 2), DELTA).rdp, abs=1e-4)
    assert last.epsilon_record == pytest.approx(spent(gaussians(0.8, 4, RECORD), DELTA, RECORD).rdp, abs=1e-4)
    assert dataclasses.replace(trial(), aggregation=Aggregation("dp")).private and not trial(0, 0.0).private
