"""Runs of earlier commands in a command's tables, on run folders made by hand."""

import json
import os

import pytest

from tests.evaluation import made
from tffapps import cli
from tffapps.app import Common
from tffapps.classify import APP, METRICS
from tffapps.errors import UserError
from tffapps.evaluation import evidence, stored
from tffapps.finished import with_earlier
from tffapps.runs import Run
from tffapps.study import Record, paths_of

KEY = "images-1"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def flags_of(*arguments):
    return cli.parse(APP, ["--profile", "smoke", "--results", "out", *arguments])


def play(*arguments, right=8, images=KEY, sha=None):
    """A command without its work: each method on each seed is a finished run; its records."""
    flags = flags_of(*arguments)
    values = flags.as_dict()
    records = []
    for method in flags[Common].methods:
        for seed in flags[Common].seeds:
            labels = {"method": method, "site": "federation", "seed": seed, "aggregator": "mean", "rounds": 1}
            key = {"labels": labels, "data": {"images": images}, "initial": {"weights_sha256": sha}}
            key |= {"settings": [name for name in arguments if "rate" in name]}
            about = {"app": APP.name, "labels": labels, "flags": {**values, **paths_of(values)}}
            with Run(APP.folder(flags), f"{method}-seed{seed}", key, about) as run:
                if not run.finished:
                    run.add_round({"round": 1, "accuracy": 0.5}, [{"client": "a"}])
                    stored.write(run.folder, {stored.LAST: made.hits(right, 10, ["no", "yes"])})
                    run.finish({"accuracy": 0.5})
                records.append(Record(labels, run.rounds(), run.clients(), run.summary(), run.folder, list))
    return flags, records


def table(flags, records, images=KEY):
    every = with_earlier(APP, flags, records, images)
    found = evidence.table([record.entry() for record in every], ["method"], METRICS)
    return dict(zip(found.method, found.accuracy.round(9))), dict(zip(found.method, found.seeds))


def test_two_commands_with_other_methods_make_one_table():
    play("--methods", "fedprox,fedavg", "--seeds", "0,1", right=6)
    accuracy, seeds = table(*play("--methods", "separate,fedavg", "--seeds", "2", right=8))
    assert accuracy == {"separate": 0.8, "fedavg": pytest.approx((0.6 + 0.6 + 0.8) / 3), "fedprox": 0.6}
    assert seeds == {"separate": "2", "fedavg": "0 1 2", "fedprox": "0 1"}
    assert list(accuracy) == sorted(accuracy, key=APP.methods.index)


def test_a_command_that_runs_again_has_the_same_table():
    first = table(*play("--methods", "fedavg,fedprox"))
    assert table(*play("--methods", "fedprox")) == table(*play("--methods", "fedavg")) == first


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": ["--learning-rate", "0.5"]},
        {"images": "images-2"},
        {"arguments": ["--weights", "other.npz"], "sha": "b"},
        {"sha": "b"},  # the same name, but the file was another one
    ],
    ids=["setting", "images", "weights", "content of weights"],
)
def test_other_settings_are_not_mixed(other, tmp_path):
    (tmp_path / "other.npz").touch()
    more = other.pop("arguments", [])
    play("--methods", "fedprox,fedavg", *more, right=1, **{"sha": "a", **other})
    accuracy, _ = table(*play("--methods", "fedavg", right=8, sha="a"))
    assert accuracy == {"fedavg": 0.8}


def test_of_runs_with_the_same_labels_the_last_one_counts():
    """Nothing says in what they differ: code has changed, say."""
    for right, rate in ((3, "--a-rate"), (5, "--b-rate")):
        flags, records = play("--methods", "fedprox", right=right)
        folder = records[0].folder
        about = json.loads((folder / "settings.json").read_text())
        with Run(APP.folder(flags), f"fedprox-{right}", {**about["key"], "settings": [rate]}, about) as run:
            run.add_round({"round": 1, "accuracy": 0.5})
            stored.write(run.folder, {stored.LAST: made.hits(right, 10, ["no", "yes"])})
            run.finish({})
        os.utime(run.folder / "finished.json", (right, right))
        os.utime(folder / "finished.json", (1, 1))
    accuracy, seeds = table(*play("--methods", "fedavg", right=8))
    assert accuracy == {"fedavg": 0.8, "fedprox": 0.5} and seeds["fedprox"] == "0"


DAMAGE = {
    "no settings": lambda folder: (folder / "settings.json").unlink(),
    "settings that are none": lambda folder: (folder / "settings.json").write_text("[1"),
    "settings of something else": lambda folder: (folder / "settings.json").write_text('{"key": {"data": []}}'),
    "settings that are a list": lambda folder: (folder / "settings.json").write_text("[" * 99999),
    "a record cut short": lambda folder: (folder / "finished.json").write_text('{"accuracy"'),
    "predictions cut short": lambda folder: os.truncate(folder / stored.FILE, 90),
    "rounds that are none": lambda folder: (folder / "rounds.csv").write_bytes(b"\xff\x00"),
    "another folder's name": lambda folder: folder.rename(folder.with_name("fedprox-seed0-00000000")),
    "not finished": lambda folder: (folder / "finished.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_that_nobody_asked_for_is_passed_over(damage):
    _, (record,) = play("--methods", "fedprox")
    DAMAGE[damage](record.folder)
    (APP.folder(flags_of()) / "runs" / "notes").mkdir()
    assert table(*play("--methods", "fedavg"))[0] == {"fedavg": 0.8}


def test_the_data_may_lie_elsewhere(tmp_path):
    """They are told apart by their content."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    play("--methods", "fedprox", "--data", "here")
    assert set(table(*play("--methods", "fedavg", "--data", "there"))[0]) == {"fedavg", "fedprox"}


def test_weights_of_an_earlier_run_are_not_at_hand():
    play("--methods", "fedprox")
    flags, records = play("--methods", "fedavg")
    earlier = next(record for record in with_earlier(APP, flags, records, {KEY, "other"}) if record not in records)
    with pytest.raises(UserError, match="name its method in --methods"):
        earlier.weights()
