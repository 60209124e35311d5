"""Stored features that somebody removes while a run uses them: made anew, or one line, never fewer images unsaid."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.faults.test_mishaps import after_round
from tffapps import cache_command, cli, inputs
from tffapps.fedstyle import APP

ARGUMENTS = [
    "--profile", "smoke", "--methods", "fedavg", "--studies", "none", "--seeds", "0", "--rounds", "3",
    "--train-from", "head",
]  # fmt: skip
FEATURES = Path("data/cache/features")


@pytest.fixture(scope="module")
def whole(place):
    with working_in(place):
        assert cli.main(APP, ARGUMENTS) == 0
        assert len(list(FEATURES.rglob("*.f16"))) > 20
    return record(place / "results" / "fedstyle", "*fedavg*seed0")


@pytest.fixture
def here(whole, place, tmp_path):
    """The stand-in, and nothing else."""
    (source,) = (path for path in (place / "data").iterdir() if path.name != "cache")
    shutil.copytree(source, tmp_path / "data" / source.name)
    return tmp_path


def test_training_goes_on_and_the_test_stops_in_one_line(whole, here, capsys):
    """Every round makes a new pipeline of the training images; the one of the test images was made before."""
    with working_in(here) as patch:
        patch.setattr(inputs, "_HELD", 0)  # else they are in memory by then
        after_round(patch, 1, lambda run: shutil.rmtree(FEATURES))
        assert cli.main(APP, ARGUMENTS) == 3
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("tffapps.fedstyle: stopped: data/cache/features/tiny-")
    assert last.endswith(".f16 is gone; run the same command again: what lies in the cache is made anew")
    with working_in(here):
        assert cli.main(APP, ARGUMENTS) == 0
    rounds, weights = record(here / "results" / "fedstyle", "*fedavg*seed0")
    assert rounds.equals(whole[0]) and largest_difference(weights, whole[1]) == 0


def test_the_command_does_not_clean_while_a_run_goes_on(whole, here, capsys):
    statuses = []
    with working_in(here) as patch:
        after_round(patch, 1, lambda run: statuses.append(cache_command.main(["--clean"])))
        assert cli.main(APP, ARGUMENTS) == 0
        assert "a run or a site uses data/cache; wait for it or end it" in capsys.readouterr().err
        assert statuses == [2] and len(list(FEATURES.rglob("*.f16"))) > 20
        assert cache_command.main(["--clean"]) == 0 and not FEATURES.exists()
    assert record(here / "results" / "fedstyle", "*fedavg*seed0")[0].equals(whole[0])
