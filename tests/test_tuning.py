"""--splits, --select and --tune from the command line on, with classify: two folds, two methods, two settings."""

import json

import pandas as pd
import pytest

from tests.applications import working_in
from tffapps import cli, grids
from tffapps.app import Common
from tffapps.classify import APP
from tffapps.errors import UserError
from tffapps.evaluation import stored
from tffapps.fedtransfer import APP as FEDTRANSFER

ARGUMENTS = [
    "--profile", "smoke", "--methods", "fedavg,fedprox", "--splits", "2", "--group", "image", "--select", "validation",
    "--tune", "mu=0,100", "--results", "tuned",
]  # fmt: skip


@pytest.fixture(scope="module")
def results(place):
    with working_in(place):
        assert cli.main(APP, ARGUMENTS) == 0
    return place / "tuned" / "classify"


def folders(results, method, split, tuning):
    found = results.glob(f"runs/{method}-federation-{split}-*")
    return sorted(folder for folder in found if ("-tuning-" in folder.name) == tuning)


def images(folder, part):
    return set(stored.read(folder, part=part).image)


def test_every_method_is_tested_on_the_same_images_and_each_image_once(results):
    tested = []
    for split in ("r0f0", "r0f1"):
        ((avg,), (prox,)) = (folders(results, method, split, False) for method in ("fedavg", "fedprox"))
        assert images(avg, "test") == images(prox, "test") and images(avg, "val") == images(prox, "val")
        assert not images(avg, "test") & images(avg, "val")
        tested.append(images(avg, "test"))
    assert not tested[0] & tested[1] and len(tested[0] | tested[1]) == 90
    table = pd.read_csv(results / "by_split.csv")
    assert table.groupby("method")["split"].agg(" ".join).to_dict() == {"fedavg": "r0f0 r0f1", "fedprox": "r0f0 r0f1"}
    assert set(table.seed) == {0} and set(table["round"]) <= {1, 2}  # one seed a split, unless more are asked for
    whole = pd.read_csv(results / "comparison.csv")
    assert (
        list(whole.images) == [90, 90]
        and list(whole.splits) == [2, 2]
        and set(whole.chosen) == {"lowest validation loss"}
    )


def test_tuning_sees_no_test_image(results):
    for split in ("r0f0", "r0f1"):
        (played,) = folders(results, "fedprox", split, False)
        for folder in folders(results, "fedprox", split, True):
            assert images(folder, "test") == images(played, "val")
            assert not images(folder, "val")
            labels = json.loads((folder / "settings.json").read_text())["labels"]
            assert labels["split"] == f"{split} tuning"


def test_every_method_has_the_same_budget(results):
    """FedAvg has no mu: it plays its one setting with two seeds."""
    for split in ("r0f0", "r0f1"):
        assert len(folders(results, "fedavg", split, True)) == len(folders(results, "fedprox", split, True)) == 2
    table = pd.read_csv(results / "tuning.csv", dtype={"seeds": str})
    assert table.groupby("method").seeds.agg(set).to_dict() == {"fedavg": {"0 1"}, "fedprox": {"0"}}
    assert table.mu[table.method == "fedavg"].isna().all()
    assert list(table.groupby(["method", "split"]).taken.sum()) == [1, 1, 1, 1]


def test_what_was_chosen_is_the_best_and_is_written_down(results):
    table = pd.read_csv(results / "tuning.csv")
    for (method, split), rows in table.groupby(["method", "split"]):
        (taken,) = rows[rows.taken].to_dict("records")
        assert taken["score"] == rows.score.max()
        (folder,) = folders(results, method, split, False)
        about = json.loads((folder / "settings.json").read_text())
        if method == "fedprox":
            assert about["tuned"] == {"mu": taken["mu"]} and about["flags"]["mu"] == taken["mu"]
            assert about["flags"]["tune"] == "" and about["key"]["settings"]["FedProx"]["mu"] == taken["mu"]
            flags = cli.parse(APP, ["--settings", str(folder / "settings.json")])
            assert flags[Common].only_splits == (split,) and flags[Common].seeds == (0,)
        else:
            assert "tuned" not in about
    assert set(pd.read_csv(results / "comparison.csv").tuned.fillna("").str.contains("mu=")) == {True, False}


def test_the_same_command_goes_on_where_it_was(results, here):
    """One tuning run is taken away: it alone is played again."""
    (gone, *_) = folders(results, "fedprox", "r0f1", True)
    tables = {file.name: file.read_text() for file in results.glob("*.csv")}
    times = {file: file.stat().st_mtime_ns for file in results.glob("runs/*/finished.json")}
    (gone / "finished.json").unlink()
    assert cli.main(APP, ARGUMENTS) == 0
    assert {file.name: file.read_text() for file in results.glob("*.csv")} == tables
    again = {file: file.stat().st_mtime_ns for file in results.glob("runs/*/finished.json")}
    assert {file for file in times if again[file] != times[file]} == {gone / "finished.json"}


MISTAKES = {
    "--splits 1": (APP, ["--splits", "1"], "a cross-validation has 2 folds or more"),
    "repeats": (APP, ["--repeats", "2"], "--repeats: there is one split, the data's own; give --splits 2"),
    "only": (APP, ["--only-splits", "r0f0"], "--only-splits: there is one split"),
    "its own folds": (FEDTRANSFER, ["--splits", "3"], "divides its images in its own way; use --folds"),
    "no such rule": (APP, ["--select", "paper"], "--select paper: tffapps.classify has last, validation"),
    "cannot be tuned": (FEDTRANSFER, ["--tune", "batch=1,2"], "--tune: tffapps.fedtransfer cannot"),
    "no such setting": (APP, ["--tune", "depth=1,2"], "--tune depth: no setting that can be tuned; choose from model"),
    "a common flag": (APP, ["--tune", "splits=2,3"], "--tune splits: no setting that can be tuned"),
    "no values": (APP, ["--tune", "mu"], "--tune mu: write a setting and its values"),
    "one value": (APP, ["--tune", "mu=1"], "--tune: 1 settings to try; give 2 to"),
    "twice": (APP, ["--tune", "mu=1,2", "--tune", "mu=3,4"], "--tune mu: given twice"),
    "no number": (APP, ["--tune", "mu=1,x"], "--tune mu=x: expected a value of type float"),
    "out of bounds": (APP, ["--tune", "learning_rate=1,-1"], "--tune: --learning-rate -1.0: must be more than 0"),
    "not a choice": (APP, ["--tune", "model=tiny,huge"], "--tune: --model huge: choose one of"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake, capsys, tmp_path, monkeypatch):
    app, arguments, message = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    assert cli.main(app, ["--profile", "smoke", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line and not list(tmp_path.iterdir())


def test_a_grid_is_every_combination():
    grid = grids.parse(" learning-rate=0.1,0.01; epochs=1,2,2 ;", APP)
    assert len(grid) == 4
    assert list(grid.points())[:3] == [
        {"learning_rate": 0.1, "epochs": 1}, {"learning_rate": 0.1, "epochs": 2}, {"learning_rate": 0.01, "epochs": 1},
    ]  # fmt: skip
    with pytest.raises(UserError, match="no setting"):
        grids.parse(" ; ", APP)


def test_several_splits_need_one_seed_only():
    assert cli.parse(APP, ["--splits", "3"])[Common].seeds == (0,)
    assert cli.parse(APP, ["--splits", "3", "--seeds", "1,2"])[Common].seeds == (1, 2)
    assert cli.parse(APP, [])[Common].seeds == (0, 1, 2)
