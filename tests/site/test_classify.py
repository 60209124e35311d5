"""`tffapps.classify` across two sites: the numbers of one machine, and one line for what cannot be."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import signal
import subprocess
import time

import pandas as pd
import pytest

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.site.conftest import PIXELS
from tests.site.federation import Member, flags_for, serving
from tests.test_commands import command, environment
from tffapps import classify, cli
from tffapps.errors import UserError
from tffapps.evaluation import at_sites

SMALL = ["--profile=smoke", f"--size={PIXELS}", "--batch=4", "--rounds=2", "--seeds=0", "--learning-rate=0.1"]


@pytest.fixture(scope="module")
def sites(noise, folder):
    with serving(folder, dict.fromkeys(("a", "b"), noise)) as members:
        yield members


def flags(folder: pathlib.Path, members: list[Member]) -> list[str]:
    return flags_for(folder, *(site.address for site in members))


def test_the_numbers_of_one_machine(sites, folder, noise, tmp_path):
    methods = "--methods=fedavg,separate"
    with working_in(tmp_path):
        assert cli.main(classify.APP, [*SMALL, methods, f"--data={noise}", "--results=here"]) == 0
        assert cli.main(classify.APP, [*SMALL, methods, *flags(folder, sites), "--results=there"]) == 0
    for run in ("fedavg-federation-seed0", "separate-a-seed0", "separate-b-seed0"):
        here, there = (record(tmp_path / place / "classify", run) for place in ("here", "there"))
        pd.testing.assert_frame_equal(there[0], here[0], atol=1e-4)
        assert largest_difference(there[1], here[1]) < 1e-5
    table = pd.read_csv(tmp_path / "there/classify/comparison.csv")
    assert set(table.data) == {"sites a, b"} and list(table.site) == ["federation", "a", "b"]


@pytest.mark.slow
def test_a_coordinator_that_is_killed_goes_on(sites, folder, noise, tmp_path):
    method = "--methods=scaffold"  # whose clients keep something at their sites
    more = [*SMALL, method, "--rounds=12", *flags(folder, sites)]
    program = subprocess.Popen(
        command("tffapps.classify", *more, "--results=killed"),
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("killed/classify/runs/*/checkpoint-1.npz")) and time.monotonic() < deadline:
        time.sleep(0.02)
    program.send_signal(signal.SIGKILL)
    program.wait()
    (rows,) = tmp_path.glob("killed/classify/runs/*/rounds.csv")
    assert 1 <= len(pd.read_csv(rows)) < 12
    with working_in(tmp_path):
        assert cli.main(classify.APP, [*more, "--results=killed"]) == 0
        local = [*SMALL, method, "--rounds=12", f"--data={noise}", "--results=here"]
        assert cli.main(classify.APP, local) == 0
    here, there = (record(tmp_path / place / "classify", "scaffold-federation-seed0") for place in ("here", "killed"))
    assert len(there[0]) == 12
    assert largest_difference(there[1], here[1]) < 1e-4  # twelve rounds of rounding


def test_a_site_that_is_away_is_named_and_needed_at_the_end(members, folder, tmp_path, capsys):
    predict, calls = at_sites.predict, []

    def predict_without_b(*arguments):
        if not calls:
            members[1].kill()
        calls.append(1)
        return predict(*arguments)

    arguments = [*SMALL, "--methods=fedavg", *flags(folder, members)]
    with working_in(tmp_path) as patch:
        patch.setattr(at_sites, "predict", predict_without_b)
        assert cli.main(classify.APP, arguments) == 3
        line = capsys.readouterr().err.splitlines()[-1]
        assert "the test images of b are needed at the end (localhost:" in line and "Connection refused" in line
        (folder_of_run,) = tmp_path.glob("results/classify/runs/fedavg-*")
        (row,) = pd.read_csv(folder_of_run / "rounds.csv").to_dict("records")
        assert row["clients"] == 2 and pd.isna(row["accuracy"])  # blank, not the scores of some of the images
        members[1].start()
        assert cli.main(classify.APP, arguments) == 0
    rows = pd.read_csv(folder_of_run / "rounds.csv")
    assert list(rows.clients) == [2, 2] and list(rows.accuracy.isna()) == [True, False]


SITES = ["--engine=a.example:9000,b.example:9000", "--profile=smoke"]
SHOWN = ["--cert=c.pem", "--key=c.key", "--ca=ca.pem"]
MISTAKES = {
    "no certificates": ([*SITES, "--cert=c.pem"], "sites ask who is calling; give --cert, --key and --ca"),
    "data": (
        [*SITES, *SHOWN, "--data=images"],
        "--data images: with --engine a.example:9000,b.example:9000 every site",
    ),
    "centralised": ([*SITES, *SHOWN, "--methods=centralised"], "cannot run across sites: no site has all the images"),
    "no port": (["--engine=a.example:9000,b.example", *SHOWN], "--engine b.example: expected HOST:PORT"),
    "twice": (["--engine=a:1,a:1", *SHOWN], "--engine a:1,a:1: a:1 is there twice"),
    "certificates for nobody": (["--cert=c.pem"], "--cert c.pem: only sites ask for it, and --engine in-process has"),
    "no files": ([*SITES, *SHOWN], "--cert c.pem: no such file"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, tmp_path, capfd):
    arguments, message = MISTAKES[mistake]
    with working_in(tmp_path):
        assert cli.main(classify.APP, arguments) == 2
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("tffapps.")]
    assert message in line


def test_applications_that_cannot_say_so():
    cannot = dataclasses.replace(classify.APP, not_across_sites=None)
    with pytest.raises(UserError, match=r"tffapps.classify cannot run across sites; use in-process or worker"):
        cli.parse(cannot, [*SITES, *SHOWN])


def test_without_methods_everything_that_can_be_run():
    usual = [method for method in classify.APP.methods if method not in classify.APP.on_request]
    assert usual[-1] == "centralised"
    assert list(cli.parse(classify.APP, [*SITES, *SHOWN]).as_dict()["methods"]) == usual[:-1]


def test_a_stored_run_goes_from_one_machine_to_sites_and_back(tmp_path):
    stored = {"app": "classify", "labels": {"method": "fedavg", "seed": 0}}
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({**stored, "flags": {"data": "images", "engine": "in-process"}}))
    assert cli.parse(classify.APP, [f"--settings={file}", *SITES, *SHOWN]).as_dict()["data"] == ""
    shown = dict(zip(("cert", "key", "ca"), ("c.pem", "c.key", "ca.pem")))
    file.write_text(json.dumps({**stored, "flags": {"engine": "a.example:9000", **shown}}))
    assert cli.parse(classify.APP, [f"--settings={file}"]).as_dict()["cert"] == "c.pem"
    assert cli.parse(classify.APP, [f"--settings={file}", "--engine=worker"]).as_dict()["cert"] == ""
