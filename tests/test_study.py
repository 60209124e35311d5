"""A trial's key changes with all that could change a number; a study builds a round once and plays a trial once."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from models.assembled import assemble
from tests.conftest import dataset
from tests.evaluation import made
from tffapps import systems
from tffapps.app import App, Common
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.evaluation import evidence, stored
from tffapps.evaluation.metrics import NAMED
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedproto import FedProto
from tffapps.federated.fedprox import FedProx
from tffapps.federated.fpl import FPL
from tffapps.runs import key_of
from tffapps.settings import Flags, Setting, key_values, setting, settings_of
from tffapps.study import TRAINED, Initial, Study, Trial

APP = App("toy", "tests.toy", "", "", (Aggregation, FedAvg), {"smoke": {}}, ("fedavg",))
OWNERS = sorted({(app.name, owner) for app in systems.every() for owner in (Common, *app.settings)}, key=str)


def other(each: Setting):
    """A value that is not the default."""
    if each.several:
        return (*each.default, "x" if each.kind is str else each.kind(7))
    if each.limits.get("choices"):
        return next(choice for choice in each.limits["choices"] if choice != each.default)
    return not each.default if each.kind is bool else each.default + ("x" if each.kind is str else each.kind(1))


@pytest.mark.parametrize(("app", "owner"), OWNERS, ids=[f"{app} {owner.__name__}" for app, owner in OWNERS])
def test_a_changed_setting_changes_the_key_unless_it_says_that_it_does_not(app, owner):
    """That every class is part of some trial's key is in tests/contract.py: both together are the promise."""
    before = key_of({"settings": key_values(owner())})
    for each in settings_of(owner):
        after = key_of({"settings": key_values(dataclasses.replace(owner(), **{each.name: other(each)}))})
        assert (after != before) == each.in_key, f"{owner.__name__}.{each.name}"


class Constant:
    """An evaluator that counts how often it is asked."""

    headline, chosen_by = "accuracy", ""

    def __init__(self) -> None:
        self.asked = 0

    def evaluate(self, trained):
        self.asked += 1
        return {"accuracy": float(np.sum(trained.weights[0]))}

    def predicted(self, trained):
        return pd.DataFrame()

    def summary(self, row, weights):
        return {"accuracy": row["accuracy"], "weights": len(weights())}


@dataclasses.dataclass(frozen=True)
class ToySettings:
    size: int = setting(8, "pixels")
    shown: int = setting(3, "rows of a figure", in_key=False)


@pytest.fixture
def toy(tiny_task, tiny_weights):
    def make(**changes) -> Trial:
        values = {
            "labels": {"method": "fedavg", "seed": 0}, "name": "fedavg-seed0", "method": FedAvg(learning_rate=0.1),
            "task": tiny_task, "clients": lambda: [Client("one", lambda number: dataset(number))],
            "initial": Initial(tiny_weights, {"weights": "random"}), "rounds": 2, "evaluator": Constant(),
            "settings": [ToySettings()], "data": {"images": "abc"}, "size": 1,
        }  # fmt: skip
        return Trial(**{**values, **changes})

    return make


def test_the_precision_is_in_the_key_where_it_is_not_float32(toy):
    mixed = assemble("tiny", input_shape=(8, 8, 3), classes=3, head="gap", precision="bfloat16").whole
    task = toy().task
    assert toy(task=dataclasses.replace(task, model=mixed)).key() == {**toy().key(), "precision": "bfloat16"}
    assert "precision" not in toy().key() and "loss_scale" not in toy().key()["settings"]["FedAvg"]


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {"method": "fedavg", "seed": 1}}, {"method": FedAvg(learning_rate=0.2)}, {"rounds": 3},
        {"aggregation": Aggregation("robust")}, {"settings": [ToySettings(size=9)]}, {"data": {"images": "abd"}},
        {"initial": Initial([], {"weights": "imagenet"})}, {"settings": []}, {"reestimate": True},
        {"size": 3, "clients_per_round": 2},
    ],
    ids=[
        "seed", "method", "rounds", "aggregation", "settings", "data", "initial", "fewer settings", "reestimate",
        "clients a round",
    ],
)  # fmt: skip
def test_the_key_of_a_trial(changes, toy):
    assert key_of(toy(**changes).key()) != key_of(toy().key())


def test_what_says_so_is_not_in_the_key(toy):
    assert toy(settings=[ToySettings(shown=9)]).key() == toy().key()
    assert toy(size=3, clients_per_round=3).key() == toy(size=3).key()  # all of them are all of them


def study(folder, engine, fresh=False) -> Study:
    values = {each.name: each.default for owner in (Common, *APP.settings) for each in settings_of(owner)}
    return Study(APP, Flags({**values, "results": str(folder)}, "smoke", fresh), engine)


def test_a_trial_is_played_once_and_found_again(toy, tmp_path):
    with open_engine("in-process") as engine:
        first = study(tmp_path, engine)
        evaluator = Constant()
        record = first.run(toy(evaluator=evaluator))
        assert evaluator.asked == 2 and first.run(toy(evaluator=evaluator)) is record
        assert record["method"] == "fedavg" and record.rounds["round"].tolist() == [1, 2]
        said = {"accuracy": record.rounds.accuracy.iloc[-1], "weights": len(record.weights()), TRAINED: 0}
        assert record.summary == said and not (record.folder / stored.FILE).exists()
        again = study(tmp_path, engine)
        found = again.run(toy(evaluator=evaluator))
        assert evaluator.asked == 2 and not again._rounds  # neither trained nor built
        assert all(np.array_equal(a, b) for a, b in zip(found.weights(), record.weights()))
        study(tmp_path, engine, fresh=True).run(toy(evaluator=evaluator))
        assert evaluator.asked == 4


def test_a_finished_run_without_its_checkpoint_says_the_way_out(toy, tmp_path):
    with open_engine("in-process") as engine:
        record = study(tmp_path, engine).run(toy())
        (file,) = record.folder.glob("checkpoint-*.npz")
        file.unlink()
        found = study(tmp_path, engine).run(toy())
    with pytest.raises(UserError, match=r"fedavg-seed0-.*: its checkpoint cannot be read; .*--fresh"):
        found.weights()


def test_the_weights_that_validation_chose_stand_for_a_run(toy, tmp_path):
    class Falling(Constant):
        headline = chosen_by = "loss"

        def evaluate(self, trained):
            self.asked += 1
            self.seen = [*getattr(self, "seen", []), trained.weights]
            return {"loss": [3.0, 1.0, float("nan"), 2.0][self.asked - 1]}

        def predicted(self, trained):
            number = next(n for n, seen in enumerate(self.seen, 1) if np.array_equal(seen[0], trained.weights[0]))
            return made.hits(number, 10, ["no", "yes"])  # as many as the round that the weights are of

        def summary(self, row, weights):
            return {"round": int(row["round"]), "same": bool(np.array_equal(weights()[0], self.seen[1][0]))}

    with open_engine("in-process") as engine:
        record = study(tmp_path, engine).run(toy(evaluator=Falling(), rounds=4, trained=12))
    assert record.summary == {"round": 2, "same": True, TRAINED: 12}
    for model, right in ((stored.LAST, 0.4), (stored.CHOSEN, 0.2)):
        run = evidence.classifier_entry({"seed": 0}, record.folder, model=model).run
        assert NAMED["accuracy"](run.labels, run.probabilities) == pytest.approx(right)
    assert record.entry(site="x").labels == {"method": "fedavg", "seed": 0, "site": "x"}
    assert record.entry().run.train_subjects == 12


def test_a_round_knows_the_number_of_clients_where_its_method_counts_them(toy, tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr("tffapps.study.build_round", lambda *arguments: built.append(arguments[3]) or object())
    with open_engine("in-process") as engine:
        runs = study(tmp_path, engine)
        for size in (2, 3, 2):
            runs.round_of(toy(size=size))
        assert built == [2]  # FedAvg's round serves any number
        for size in (2, 3, 2):
            runs.round_of(toy(size=size, method=FPL()))
        assert built == [2, 2, 3]
        runs.round_of(toy(size=4, aggregation=Aggregation("dp")))
        assert built == [2, 2, 3, 4]


def test_statistics_are_reestimated_where_a_trial_says_so(toy, tmp_path):
    assert "reestimate" not in toy().key()  # the key of a run without it is what it was
    with open_engine("in-process") as engine:
        runs = study(tmp_path, engine)
        plain, new = runs.run(toy()), runs.run(toy(reestimate=True))
        again = study(tmp_path, engine).run(toy(reestimate=True))
    assert "statistics_clients" not in plain.rounds and new.rounds.statistics_clients.tolist() == [1, 1]
    assert again.folder == new.folder != plain.folder
    differ = [not np.array_equal(a, b) for a, b in zip(plain.weights(), new.weights())]
    names = [variable.name for variable in toy().task.model.weights]
    assert {name for name, differs in zip(names, differ) if differs} == {name for name in names if "moving" in name}


def test_a_reestimation_is_built_once_where_there_is_something_to_do(toy, tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr("tffapps.study.build_reestimation", lambda *arguments: built.append(arguments))
    with open_engine("in-process") as engine:
        runs = study(tmp_path, engine)
        for method in (FedAvg(), FedProx(), FedProto()):
            runs.reestimation_of(toy(method=method))
        assert built == []
        assert runs.reestimation_of(toy(method=FedProto(), reestimate=True)) is None  # there is no global model
        assert built == []
        for method in (FedAvg(), FedProx()):
            runs.reestimation_of(toy(method=method, reestimate=True))
        assert len(built) == 1
        runs.reestimation_of(toy(reestimate=True, aggregation=Aggregation("secure")))
        assert len(built) == 2


def test_reestimation_under_dp_is_refused_before_anything_runs(toy):
    with pytest.raises(UserError, match=r"--reestimate: --aggregator dp .*; leave out one of the two"):
        toy(reestimate=True, aggregation=Aggregation("dp"))
