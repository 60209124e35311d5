"""The examples do what they say."""

import pathlib
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.engine.closed import need_namespaces
from tests.test_commands import environment
from tffapps import cli

ROOT = pathlib.Path(__file__).resolve().parents[1]
SMOKE = ["--profile", "smoke", "--rounds", "1"]


@pytest.fixture(scope="module")
def own():
    """The example, and nothing of it left behind."""
    from examples import own_method
    from tffapps.federated.methods import METHODS

    yield own_method
    METHODS.pop("clipped", None)


def test_a_method_of_ones_own(own, place):
    with working_in(place):
        for largest in ("1000", "1e-6"):
            arguments = ["--methods", "fedavg,clipped", "--largest", largest, "--results", largest]
            assert cli.main(own.APP, [*SMOKE, *arguments]) == 0
    (fedavg, gentle), (_, strict) = (
        [record(place / largest / "classify", f"{method}-federation-seed0")[1] for method in ("fedavg", "clipped")]
        for largest in ("1000", "1e-6")
    )
    assert largest_difference(fedavg, gentle) == 0  # no gradient is that long
    moved = [np.abs(one - other).max() for one, other in zip(fedavg, strict)]
    assert max(moved) > 1e-3
    table = pd.read_csv(place / "1000" / "classify" / "comparison.csv")
    assert list(table.method) == ["fedavg", "clipped"]


def test_it_is_short_and_its_flag_is_in_the_help():
    assert len((ROOT / "examples" / "own_method.py").read_text().splitlines()) < 60
    done = subprocess.run(
        [sys.executable, "-m", "examples.own_method", "--help"], cwd=ROOT, env=environment(), capture_output=True,
        text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "--largest" in done.stdout


@pytest.mark.slow
def test_two_sites(tmp_path):
    need_namespaces()
    done = subprocess.run(
        ["bash", "examples/two_sites.sh", str(tmp_path / "trial")], cwd=ROOT, capture_output=True, text=True,
        env={**environment(), "PYTHON": sys.executable}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("largest difference between the two tables: ") == 2
    assert "took part in round" in done.stdout and "alignment is done" in (tmp_path / "trial/north/log").read_text()
