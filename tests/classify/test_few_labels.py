"""A part of the images labelled: who knows which, what is refused, and runs through the command."""

import json

import numpy as np
import pandas as pd
import pytest

from tffapps import Pool, RunStopped, UserError, cli, training
from tffapps.classify import APP, LabelSettings, labels
from tffapps.training import MEASURED_COLUMNS

SMOKE = ["--profile", "smoke"]
FEW = [*SMOKE, "--labelled-share", "0.2"]
SERVER = [*FEW, "--labels", "server"]


@pytest.fixture(scope="module")
def pool():
    """Two clients, two classes, ten subjects of four images each at each client."""
    rows = [
        (f"{client}{subject}{number}.png", "xy"[subject % 2], client, "train", f"{client}{subject}")
        for client in "ab"
        for subject in range(10)
        for number in range(4)
    ]
    rows.append(("t.png", "x", "a", "test", "t"))
    return Pool("p", pd.DataFrame(rows, columns=["path", "label", "client", "split", "subject"]), ["x", "y"], "key")


def test_a_share_of_every_client_and_class_by_subject(pool):
    asked = LabelSettings(labelled_share=0.2)
    divided = labels.divide(pool, asked, "auto", 0)
    for client in "ab":
        known, unknown = divided.known[client], divided.unknown[client]
        assert len(known) == 8 and set(known.label) == {"x", "y"} and not set(known.subject) & set(unknown.subject)
        assert sorted([*known.path, *unknown.path]) == sorted(pool.part("train", client).path)
    again, other = (labels.divide(pool, asked, "auto", seed).known["a"].path.tolist() for seed in (0, 1))
    assert again == divided.known["a"].path.tolist() != other
    assert divided.at_server is None


def test_the_servers_labels_are_nobody_elses(pool):
    divided = labels.divide(pool, LabelSettings(labelled_share=0.2, labels="server"), "auto", 0)
    assert list(divided.known) == ["server"] and len(divided.at_server) == 16
    kept = pd.concat(list(divided.unknown.values()))
    assert len(kept) == 64 and not set(kept.subject) & set(divided.at_server.subject)
    whole = labels.divide(pool, LabelSettings(), "auto", 0)
    assert not whole.unknown and whole.at_server is None and len(whole.known["a"]) == 40


def test_too_few_labels_are_refused(pool):
    table = pool.table.assign(label=np.where(pool.table.path == "a00.png", "z", pool.table.label))
    rare = Pool("p", table, ["x", "y", "z"], "key")
    with pytest.raises(UserError, match=r"--labelled-share 0\.1: no labelled image of class z is left; raise it"):
        labels.divide(rare, LabelSettings(labelled_share=0.1), "image", 0)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            [*SMOKE, "--methods", "fixmatch"],
            "--methods fixmatch: it learns from unlabelled images, and all are labelled",
        ),
        ([*FEW, "--methods", "semifl"], "--methods semifl: its clients have no labels; give --labels server"),
        ([*SERVER, "--methods", "separate"], "--methods separate: with --labels server no client has labels"),
        ([*FEW, "--methods", "freematch", "--loss", "fedlc"], "--loss, --sampling: not with freematch"),
        ([*FEW, "--methods", "fedavg,fixmatch", "--retrain", "ccvr"], "fixmatch trains on images without labels"),
        ([*SMOKE, "--methods", "fedavg", "--retrain", "ccvr", "--aggregator", "secure"], "does not cover the means"),
    ],
    ids=["all", "semifl", "separate", "loss", "retrain", "secure"],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, line, here, capsys):
    assert cli.main(APP, [*arguments, "--results", "untouched"]) == 2
    assert line in capsys.readouterr().err.strip().splitlines()[-1]
    assert not list((here / "untouched").rglob("rounds.csv"))


def record(here, results, method):
    (run,) = here.glob(f"{results}/classify/runs/{method}-*")
    table = pd.read_csv(run / "rounds.csv").drop(columns=list(MEASURED_COLUMNS))
    return run, table, pd.read_csv(run / "clients.csv")


@pytest.mark.slow
def test_a_run_that_is_stopped_ends_like_one_that_is_not(here, monkeypatch):
    """The server has the labels: its round first, then pseudo-labels; the control has the labelled images alone."""
    assert cli.main(APP, [*SERVER, "--methods", "fedavg,semifl", "--semifl-tau", "0.2", "--results", "whole"]) == 0
    table = pd.read_csv("whole/classify/comparison.csv").set_index("method")
    assert set(table["labels"]) == {"server"} and set(table.labelled_share) == {0.2} and table.images.nunique() == 1
    run, rounds, clients = record(here, "whole", "semifl")
    assert clients[clients["round"] == 1].confident.sum() == 0 < clients[clients["round"] == 2].confident.sum()
    key = json.loads((run / "settings.json").read_text())["key"]["settings"]
    assert key["LabelSettings"] == {"labelled_share": 0.2, "labels": "server"}
    _, _, control = record(here, "whole", "fedavg")
    assert control.client.unique().tolist() == ["server"] and set(control.examples) == {13}  # a fifth of 63

    play = training.play

    def stops(round_, state, clients, number, *arguments):
        if number == 2:
            raise RunStopped("the power is gone")
        return play(round_, state, clients, number, *arguments)

    again = [*SERVER, "--methods", "semifl", "--semifl-tau", "0.2", "--results", "again"]
    with monkeypatch.context() as patch:
        patch.setattr(training, "play", stops)
        assert cli.main(APP, again) != 0
    assert len(record(here, "again", "semifl")[1]) == 1
    assert cli.main(APP, again) == 0
    assert record(here, "again", "semifl")[1].equals(rounds)


def test_the_last_layer_is_retrained_after_the_last_round(here):
    """The rounds before are those of a run without it, and the key tells the two apart."""
    for results, more in (("plain", []), ("retrained", ["--retrain", "ccvr"])):
        assert cli.main(APP, [*SMOKE, "--methods", "fedavg", *more, "--results", results]) == 0
    (run, plain, _), (other, found, _) = (record(here, results, "fedavg") for results in ("plain", "retrained"))
    assert run.name != other.name and plain.iloc[:1].equals(found.iloc[:1])
    assert plain.loss[1] != found.loss[1] and found.bytes_up[1] > found.bytes_up[0] == plain.bytes_up[1]
    assert "Retraining" not in (run / "settings.json").read_text()
    assert pd.read_csv("retrained/classify/comparison.csv").retrain.tolist() == ["ccvr"]
    stored = pd.read_csv(other / "predictions.csv").query("part == 'test'")
    picked = stored.filter(like="p_").to_numpy().argmax(1)
    names = [name[2:] for name in stored.filter(like="p_").columns]
    assert np.mean([names[code] for code in picked] == stored.label) == pytest.approx(found.accuracy[1])
