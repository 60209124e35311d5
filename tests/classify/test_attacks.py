"""`classify --attack` on ten clients dealt from the stand-in: the mean fails where it must, and the median does not."""

import json

import pandas as pd
import pytest

from tests.applications import working_in
from tffapps import cli
from tffapps.classify import APP

PLAIN = ["--profile", "smoke", "--clients", "10", "--standin-images", "40", "--rounds", "3"]
STUDY = [*PLAIN, "--attack", "sign-flip,backdoor", "--aggregators", "mean,median"]


@pytest.fixture(scope="module")
def study(place):
    with working_in(place):
        assert cli.main(APP, STUDY) == 0
    return place / "results" / "classify"


@pytest.fixture(scope="module")
def table(study):
    return pd.read_csv(study / "attacks.csv").set_index(["attack", "aggregator"])


def test_the_mean_fails_where_the_median_does_not(table):
    assert table.loc[("sign-flip", "mean"), "macro_f1_high"] < table.loc[("none", "mean"), "macro_f1_low"]
    assert table.loc[("sign-flip", "mean"), "verdict"] == "behind"
    assert table.loc[("sign-flip", "median"), "verdict"] == "level"
    assert table.loc[("sign-flip", "median"), "macro_f1_low"] > table.loc[("sign-flip", "mean"), "macro_f1_high"]


def test_a_backdoor_opens_under_the_mean(table):
    success = table.backdoor_success
    assert success["backdoor", "mean"] > success["none", "mean"] + 0.2
    assert success["backdoor", "median"] < success["backdoor", "mean"]
    assert ((table.backdoor_success_low <= success) & (success <= table.backdoor_success_high)).all()


def test_the_table_says_what_was_played(table):
    assert set(table.clients) == {10} and table.byzantine.isna().all() and set(table.outcome) == {"finished"}
    assert table.attackers.groupby("attack").first().to_dict() == {"none": 0, "sign-flip": 2, "backdoor": 2}
    clean = table.xs("none")
    assert clean.difference.isna().all() and clean.verdict.isna().all()
    mine, without = table.loc[("backdoor", "mean")], table.loc[("none", "mean")]
    assert mine.difference == pytest.approx(mine.macro_f1 - without.macro_f1, abs=1e-5)


def test_the_key_has_the_attack_where_there_is_one(study):
    keys = {
        file.parent.name: json.loads(file.read_text())["key"]["settings"] for file in study.glob("runs/*/settings.json")
    }
    attacked = {name: key["Attack"] for name, key in keys.items() if "Attack" in key}
    assert len(keys) == 6 and len(attacked) == 4
    for name, key in attacked.items():
        backdoor = "backdoor" in name
        assert key["name"] in name and key["attackers"] == 2 and key["factor"] == (5 if backdoor else -10)
        assert bool(key["target"]) == bool(key["patch"]) == backdoor
    assert not list(study.glob("runs/*-sign-flip-*/bundle"))  # of no use to anybody


def test_the_same_command_again_trains_nothing_and_the_clean_run_is_the_ordinary_one(study, here, capsys):
    before = {file: file.stat().st_mtime_ns for file in study.glob("runs/*/rounds.csv")}
    written = (study / "attacks.csv").read_text()
    assert cli.main(APP, STUDY) == 0 and (study / "attacks.csv").read_text() == written
    assert cli.main(APP, [*PLAIN, "--methods", "fedavg"]) == 0
    assert {file: file.stat().st_mtime_ns for file in study.glob("runs/*/rounds.csv")} == before
    assert "1/3" not in capsys.readouterr().err
    assert len(pd.read_csv(study / "comparison.csv")) == 1  # runs under attack are no rows of it
    (file,) = study.glob("runs/fedavg-median-sign-flip-*/settings.json")
    flags = cli.parse(APP, ["--settings", str(file)]).as_dict()
    assert flags["attack"] == ("sign-flip",) and flags["aggregators"] == ("median",) and flags["aggregator"] == "mean"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--aggregators", "krum", "--attackers", "0.4"], "--byzantine 4 it needs 11 clients, and there are 10"),
        (["--methods", "ditto"], "--attack: ditto has no global model to be judged; leave it out of --methods"),
        (["--methods", "fedavg,separate"], "--attack: separate has no clients that could attack"),
        (["--methods", "scaffold"], "it does not cover what the clients of scaffold send"),
        (["--attackers", "0.01"], "--attackers 0.01: of 10 clients that is 0"),
        (["--aggregator", "median"], "--attack: give the aggregators of the study as --aggregators A,B"),
        (["--aggregators", "secure"], "--aggregators secure: choose one of mean, robust"),
        (["--attack", "bribery"], "--attack bribery: choose one of sign-flip"),
        (["--backdoor-target", "dog"], "--backdoor-target dog: no such class; choose from class_0"),
        (["--tune", "learning_rate=0.1,0.2"], "--attack: nothing is tuned under attack"),
        (["--clients", "0", "--dirichlet", "0.3"], "--dirichlet 0.3: say among how many, such as --clients 10"),
    ],
)
def test_what_cannot_be_combined_is_refused_in_one_line(arguments, line, here, capsys):
    assert cli.main(APP, [*STUDY, *arguments, "--results", "refused"]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert line in last and not (here / "refused" / "classify" / "runs").exists()


def test_a_model_that_diverges_under_attack_is_a_row_and_no_end(study, table, here, capsys):
    arguments = [*PLAIN, "--attack", "scaling", "--scaling-factor", "1e30", "--aggregators", "mean"]
    assert cli.main(APP, [*arguments, "--seeds", "0"]) == 0
    found = pd.read_csv(study / "attacks.csv").set_index("attack")
    assert found.outcome.to_dict() == {"none": "finished", "scaling": "diverged: seed 0"}
    assert (
        found.macro_f1.notna().to_dict() == {"none": True, "scaling": False} and "diverged" in capsys.readouterr().out
    )
