"""Methods, losses and aggregators that are played when they are named, through the command."""

import json

import pandas as pd
import pytest

from tffapps import cli
from tffapps.app import Common
from tffapps.classify import APP
from tffapps.federated.methods import METHODS, PLAYED

SMOKE = ["--profile", "smoke", "--rounds", "1"]


def test_a_personal_method_under_another_loss(here):
    """Own models on own images, in the table and client by client; the loss and the sampling are in table and key."""
    arguments = [*SMOKE, "--methods", "fedavg,ditto", "--loss", "fedlc", "--sampling", "balanced"]
    assert cli.main(APP, arguments) == 0
    table = pd.read_csv("results/classify/comparison.csv").set_index("method")
    assert table.personal.to_dict() == {"fedavg": "no", "ditto": "yes"}
    assert set(table.loss) == {"fedlc"} and set(table.sampling) == {"balanced"}
    assert table.images.nunique() == 1 and table.mean_client_macro_f1.between(0, 1).all()
    (run,) = here.glob("results/classify/runs/ditto-*")
    rounds = pd.read_csv(run / "rounds.csv")
    assert rounds[["accuracy_client_0", "accuracy_client_1", "accuracy_client_2"]].mean(axis=1)[0] == pytest.approx(
        rounds.accuracy_client_mean[0]
    )
    key = json.loads((run / "settings.json").read_text())["key"]["settings"]
    assert key["ClassBalance"] == {"loss": "fedlc", "sampling": "balanced"} and "byzantine" not in key["Aggregation"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--aggregator", "krum"], "--aggregator krum: with --byzantine 1 it needs 5 clients, and there are 3"),
        (["--methods", "scaffold", "--aggregator", "median"], "it does not cover what the clients of scaffold send"),
        (["--methods", "fedbn", "--norm", "group"], "--methods fedbn: the network has no BatchNorm that is trained"),
    ],
    ids=["krum", "median", "fedbn"],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, line, here, capsys):
    assert cli.main(APP, [*SMOKE, "--methods", "fedavg", *arguments]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert line in last


def test_without_methods_the_usual_ones_are_played():
    played = cli.parse(APP, [])[Common].methods
    assert played == (*PLAYED, "separate", "centralised") and set(PLAYED) < set(METHODS)
    assert cli.parse(APP, ["--methods", "scaffold,fedbn"])[Common].methods == ("scaffold", "fedbn")
