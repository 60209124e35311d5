"""The example of a system of one's own: beside the package, found by one name, it has what every system has."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.contract import *  # noqa: F403
from tests.site.conftest import folder, noise, signals  # noqa: F401  the fixtures
from tests.site.federation import flags_for, serving
from tffapps import cli, systems

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
from own_system import APP  # noqa: E402

FILES = ("__init__", "data", "page", "trials")


@pytest.fixture(autouse=True, scope="module")
def registered():
    """With one name, here and in every process that is started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFFAPPS_SYSTEMS", "own_system")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES), str(EXAMPLES.parent)]))
        yield


def test_it_is_short():
    assert sum(len((EXAMPLES / "own_system" / f"{name}.py").read_text().splitlines()) for name in FILES) < 150


def tool(place, *arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tffapps", *map(str, arguments)]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_finds_it(place):
    listed = tool(place)
    assert listed.returncode == 0 and "talk often or work long" in listed.stdout
    wrong = tool(place, "own_system", "--methods", "never")
    assert wrong.returncode == 2 and "--methods never: unknown; choose from often, long" in wrong.stderr


def test_its_section_of_the_page(place, smoke):
    done = tool(place, "report", "--results", smoke.parent)
    assert done.returncode == 0, done.stderr
    page = (smoke.parent / "index.html").read_text()
    assert "Talk often or work long" in page and "own_system/comparison.csv" in page


def test_a_folder_is_checked_for_it(place, noise):  # noqa: F811
    done = tool(place, "data", noise, "--for", "own_system")
    assert done.returncode == 0 and "fit for tffapps.own_system" in done.stdout, done.stderr


def test_two_sites_give_the_numbers_of_one_machine(noise, folder, tmp_path):  # noqa: F811
    flags = ["--profile=smoke", "--methods=long"]
    with working_in(tmp_path):
        with serving(folder, {"a": noise, "b": noise}) as members:
            across = flags_for(folder, *(member.address for member in members))
            assert cli.main(APP, [*flags, *across, "--results", "sites"]) == 0
        assert cli.main(APP, [*flags, "--data", str(noise), "--results", "here"]) == 0
        (first, one), (second, two) = (
            record(pathlib.Path(name) / "own_system", "long-seed0") for name in ("sites", "here")
        )
        assert largest_difference(one, two) < 1e-5 and np.allclose(first.accuracy, second.accuracy)
        tables = [pd.read_csv(pathlib.Path(name) / "own_system" / "comparison.csv") for name in ("sites", "here")]
        assert np.allclose(tables[0].accuracy, tables[1].accuracy)
    assert systems.find("own_system") is APP
