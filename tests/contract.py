"""What every system keeps to, as tests of one smoke run each.

A system's test file says which system it is about and takes the tests over:

    from tests.contract import *  # noqa: F403
    APP = tffapps.fnst.APP

The smoke run is made once for the file (`smoke`), with the arguments SMOKE of the file, if it has any; its own tests
may use it as well. A file whose smoke run is in several parts has fixtures of its own, `smoke` and `run_folders`.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import cv2
import pandas as pd
import pytest

from tests.applications import working_in
from tests.test_commands import PROBE, environment
from tests.use.moved import check_moved
from tffapps import cli, systems
from tffapps.app import App, Common
from tffapps.data import check
from tffapps.evaluation.metrics import NAMED
from tffapps.report import section
from tffapps.settings import settings_of

__all__ = [
    "app",
    "run_folders",
    "smoke",
    "smoke_arguments",
    "test_a_mistake_is_one_clear_line",
    "test_a_stored_run_is_run_again_alone",
    "test_a_table_of_scores_has_intervals_and_says_of_how_many",
    "test_every_setting_is_in_the_key_of_a_run_that_depends_on_it",
    "test_every_table_of_its_section_is_there_and_says_what_ran",
    "test_figures_show_something",
    "test_help_does_not_wait_for_tensorflow",
    "test_its_bundles_predict_elsewhere_what_the_run_predicted",
    "test_the_data_check_reads_its_stand_in",
    "test_the_same_command_again_trains_nothing",
]


@pytest.fixture(scope="module")
def app(request) -> App:
    return request.module.APP


@pytest.fixture(scope="module")
def smoke_arguments(request) -> list[str]:
    return getattr(request.module, "SMOKE", ["--profile", "smoke"])


@pytest.fixture(scope="module")
def smoke(app, smoke_arguments, place) -> pathlib.Path:
    """The results of its smoke run."""
    with working_in(place):
        assert cli.main(app, [*smoke_arguments, "--results", "whole"]) == 0
    return place / "whole" / app.name


@pytest.fixture(scope="module")
def run_folders(smoke) -> list[pathlib.Path]:
    """Of runs that together depend on every setting."""
    return list(smoke.glob("runs/*"))


def test_help_does_not_wait_for_tensorflow(app):
    code = PROBE.format(module="tffapps").replace('["x", ', f'["x", "{app.name}", ')
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment(), **_search_path()}, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    assert "usage: " in done.stdout and "--min-clients" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def _search_path() -> dict[str, str]:
    """Where this process finds systems that lie beside the package."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (environment()["PYTHONPATH"], os.environ.get("PYTHONPATH"))))}


def test_every_table_of_its_section_is_there_and_says_what_ran(app, smoke):
    section = systems.find(app.name).part("page").PAGE
    for table in section.tables:
        file = smoke / table.file
        if not file.exists():
            assert table.flag, f"{table.file} is not there"
            continue
        content = pd.read_csv(file)
        if len(content) and "data" in content:
            assert set(content.data) == {"stand-in"}, table.file
            assert set(content.get("profile", ["smoke"])) == {"smoke"}, table.file
    known = {table.file for table in section.tables}
    assert {file.name for file in smoke.glob("*.csv")} <= known


def test_a_table_of_scores_has_intervals_and_says_of_how_many(app, smoke):
    for table in app.part("page").PAGE.tables:
        file = smoke / table.file
        assert table.kind in (section.SCORES, section.COUNTS, section.COSTS, section.TRACE)
        content = pd.read_csv(file) if file.exists() and file.read_text().strip() else pd.DataFrame()
        numbers = content.dropna(axis="columns", how="all").select_dtypes("number").columns  # blank: not a score here
        scores = [name for name in numbers if name in NAMED or name in ("map", "mvi", "ari", "method_score")]
        if table.kind != section.SCORES:
            assert table.kind == section.TRACE or not scores, f"{table.file} has {scores[0]}: what kind is it?"
            continue
        for name in ("images", "subjects", "seeds"):
            assert not len(content) or (content[name].notna()).all(), f"{table.file}: {name}"
        for name in scores:
            stem = name.removesuffix("_score")
            low, high = content[f"{stem}_low"], content[f"{stem}_high"]
            within = (low <= content[name] + 1e-6) & (content[name] <= high + 1e-6)
            none = content[name].isna() | (content.subjects < 2) & low.isna() & high.isna()  # one subject has no spread
            assert (within | none).all(), f"{table.file}: {name}"


def test_figures_show_something(app, smoke):
    figures = dict(app.part("page").PAGE.figures)
    assert {file.name for file in smoke.glob("*.png")} <= set(figures)
    for name in figures:
        if (smoke / name).exists():
            assert cv2.imread(str(smoke / name)).std() > 1, name


def test_the_same_command_again_trains_nothing(app, smoke_arguments, smoke, here, capsys):
    def times() -> dict[pathlib.Path, int]:
        return {file: file.stat().st_mtime_ns for file in smoke.glob("runs/*/*") if file.name != ".lock"}

    def tables() -> dict[str, str]:
        return {file.name: file.read_text() for file in smoke.glob("*.csv")}

    before, written = times(), tables()
    for file in smoke.glob("*.csv"):
        file.unlink()
    assert cli.main(app, [*smoke_arguments, "--results", smoke.parent.name]) == 0
    assert times() == before and tables() == written
    assert "/2  " not in capsys.readouterr().err  # no round was played


def test_a_stored_run_is_run_again_alone(app, smoke):
    for file in smoke.glob("runs/*/settings.json"):
        labels = json.loads(file.read_text())["labels"]
        if labels["method"] not in app.methods:  # a stage of its own, such as a stain model
            continue
        flags = cli.parse(app, ["--settings", str(file)])
        assert flags[Common].methods == (labels["method"],) and flags[Common].seeds == (labels["seed"],)
        assert flags[Common].results == f"{smoke.parent.name}-again" and flags.profile == "smoke"
        for label, flag in app.narrowed:
            if labels.get(label):
                assert flags.as_dict()[flag] == (labels[label],)


def test_every_setting_is_in_the_key_of_a_run_that_depends_on_it(app, run_folders):
    """Or it says itself that it is not: in_key=False. That a changed value changes the key is tests/test_study.py's."""
    seen: dict[str, set[str]] = {}
    for folder in run_folders:
        for name, values in json.loads((folder / "settings.json").read_text())["key"]["settings"].items():
            seen.setdefault(name, set()).update(values)
    for owner in app.settings:
        if getattr(owner, "name", "") in app.on_request:  # a method that the smoke run does not play
            continue
        wanted = {each.name for each in settings_of(owner) if each.in_key and not each.in_key_when_changed}
        covered = set().union(*(seen.get(kind.__name__, set()) for kind in _with_subclasses(owner)))
        assert wanted <= covered, f"{owner.__name__}: {', '.join(sorted(wanted - covered))} in no key"


def _with_subclasses(owner: type) -> list[type]:
    return [owner, *(kind for each in owner.__subclasses__() for kind in _with_subclasses(each))]


MISTAKES = {
    "unknown method": (["--methods", "sgd"], "--methods sgd: unknown; choose from "),
    "unknown engine": (["--engine", "gpu"], "--engine gpu: unknown"),
    "no such data": (["--data", "nowhere"], "nowhere"),
    "no seeds": (["--seeds", ""], "--seeds: give at least one value"),
    "a negative seed": (["--seeds=-1"], "--seeds -1: must be 0 or more"),
    "a rate that is no number": (["--learning-rate", "nan"], "--learning-rate nan: must be a finite number"),
    "no such settings": (["--settings", "nothing.json"], "--settings nothing.json: not a settings.json"),
    "certificates without sites": (["--cert", "a.pem"], "--cert a.pem: only sites ask for it"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, app, smoke_arguments, here, capsys):
    wrong, message = MISTAKES[mistake]
    assert cli.main(app, [*smoke_arguments, *wrong, "--results", "untouched"]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert len(lines) == 1 and message in lines[0]
    assert not (here / "untouched").exists()


def test_the_data_check_reads_its_stand_in(app, smoke_arguments, smoke, here):
    pool = app.part("data").look(cli.parse(app, smoke_arguments))
    assert pool.name == "stand-in" and len(pool.table) and f"{pool.noun}: {len(pool.table)}" in check.report(pool)


def test_its_bundles_predict_elsewhere_what_the_run_predicted(smoke, place, tmp_path):
    """One of each kind: moved, without the training data, they give the probabilities that the run has stored."""
    bundles = {}
    for folder in sorted(smoke.glob("runs/*/bundle")):
        about = json.loads((folder / "bundle.json").read_text())
        kind = json.dumps([about["network"], about["images"], len(about["classes"]), sorted(about["models"])])
        bundles.setdefault(kind, folder)
    assert bundles, "no run has left a bundle"
    for number, folder in enumerate(bundles.values()):
        check_moved(folder, place / "data", tmp_path / str(number))
