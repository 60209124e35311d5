"""The examples do what they say."""

import hashlib
import json
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
from tffapps import classify, cli

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


def test_a_network_of_ones_own(place, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT))
    with working_in(place):
        arguments = [*SMOKE, "--model", "examples.own_network:small", "--methods", "fedavg", "--results", "network"]
        assert cli.main(classify.APP, arguments) == 0
        table = pd.read_csv(place / "network" / "classify" / "comparison.csv")
        assert list(table.model) == ["examples.own_network:small"]
        (stored,) = (place / "network" / "classify" / "runs").glob("*/settings.json")
        known = json.loads(stored.read_text())
        source = hashlib.sha256((ROOT / "examples" / "own_network.py").read_bytes()).hexdigest()
        assert known["key"]["initial"]["source_sha256"] == source
        # A file may not name code; a cut that the network does not have and weights that there are not are one line.
        for refused, words in (
            (["--settings", str(stored)], "names examples.own_network:small, code of your own"),
            ([*arguments, "--train-from", "block1"], "--train-from block1: examples.own_network:small cannot be cut"),
            ([*arguments, "--weights", "imagenet"], "is a network of your own and has none; give --weights random"),
            ([*SMOKE, "--model", "examples.no_such:f"], "--model examples.no_such:f: no module examples.no_such"),
        ):
            capsys.readouterr()
            assert cli.main(classify.APP, refused) == 2
            said = capsys.readouterr().err.strip()
            assert words in said and "\n" not in said


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
