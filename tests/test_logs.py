"""What MLflow is told: with a stand-in for it, so that it need not be installed."""

from __future__ import annotations

import sys
import types
from typing import ClassVar

import pytest

from tffapps.app import Common
from tffapps.errors import UserError
from tffapps.logs import logs
from tffapps.runs import Run

ABOUT = {"app": "classify", "labels": {"method": "fedavg", "seed": 0}}


class Client:
    """As much of MlflowClient as is called; remembers everything, in the process."""

    kept: ClassVar[dict[str, dict]] = {}
    broken = False

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def get_experiment_by_name(self, name):
        return types.SimpleNamespace(experiment_id=name) if self.kept else None

    def create_experiment(self, name):
        return name

    def search_runs(self, experiments, filter_string, max_results):
        return [
            types.SimpleNamespace(info=types.SimpleNamespace(run_id=number))
            for number, run in self.kept.items()
            if filter_string == f"tags.tffapps_run = '{run['tags']['tffapps_run']}'"
            and run["experiment"] in experiments
        ]

    def create_run(self, experiment, run_name, tags):
        number = str(len(self.kept))
        self.kept[number] = {"experiment": experiment, "tags": tags, "params": {}, "metrics": [], "uri": self.uri}
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=number))

    def update_run(self, number, status):
        self.kept[number]["status"] = status

    def log_param(self, number, name, value):
        self.kept[number]["params"][name] = value

    def log_metric(self, number, name, value, step):
        if self.broken:
            raise ConnectionError("nobody answers\nfor a long time")
        self.kept[number]["metrics"].append((step, name, value))

    def set_terminated(self, number, status):
        self.kept[number]["status"] = status


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(MlflowClient=Client))
    monkeypatch.setattr(Client, "kept", {})
    return Client


def play(folder, rounds, values=None):
    with Run(folder, "fedavg", {"x": 1}, ABOUT) as run, logs(run, tensorboard=False, mlflow=str(folder / "ml")) as log:
        for number in rounds:
            log(number, values or {"accuracy": number / 10})


def test_a_run_that_goes_on_is_one_run(client, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, (number if number < 3 else interrupt() for number in range(1, 4)))
    ((_, run),) = client.kept.items()
    assert run["status"] == "KILLED" and run["params"] == {"method": "fedavg", "seed": 0}
    assert run["experiment"] == "tffapps.classify" and run["uri"] == (tmp_path / "ml").as_uri()
    play(tmp_path, [3], {"accuracy": 0.3, "auroc": float("nan")})  # MLflow's stores have no NaN
    assert len(client.kept) == 1 and run["status"] == "FINISHED"
    assert run["metrics"] == [(1, "accuracy", 0.1), (2, "accuracy", 0.2), (3, "accuracy", 0.3)]


def interrupt():
    raise KeyboardInterrupt


def test_a_tracker_that_fails_does_not_stop_training(client, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(client, "broken", True)
    play(tmp_path, [1, 2, 3])
    (line,) = capsys.readouterr().err.splitlines()  # once, not in every round
    assert line == "--mlflow: ConnectionError: nobody answers; this run is not logged any further"


def test_without_mlflow(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    Common().check_mlflow()
    with pytest.raises(UserError, match="--mlflow x: no MLflow here; pip install --no-deps -r requirements-mlflow"):
        Common(mlflow="x").check_mlflow()
