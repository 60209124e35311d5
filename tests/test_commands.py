"""The commands as a user types them: help, mistakes, kill and go on, nothing left running."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from tffapps import classify, cli
from tffapps.app import Common
from tffapps.training import MEASURED_COLUMNS

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMANDS = ("tffapps.classify", "tffapps.doctor")
PROBE = """
import runpy, sys
sys.argv = ["x", "--help"]
try:
    runpy.run_module("{module}", run_name="__main__")
except SystemExit:
    pass
print([name for name in ("tensorflow", "tensorflow_federated", "pandas") if name in sys.modules])
"""
SMALL = ["--profile", "smoke", "--methods", "fedavg", "--rounds", "4"]


def command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


def run(place, *arguments: str, module: str = "tffapps.classify") -> subprocess.CompletedProcess:
    options = {"cwd": place, "env": environment(), "capture_output": True, "text": True, "timeout": 300}
    return subprocess.run(command(module, *arguments), check=False, **options)


def call(place, *arguments: str) -> int:
    """The same in this process, which has TensorFlow already."""
    from tests.applications import working_in

    with working_in(place):
        return cli.main(classify.APP, arguments)


@pytest.mark.parametrize("module", COMMANDS)
def test_help_does_not_wait_for_tensorflow(module):
    code = PROBE.format(module=module)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "usage: python -m" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


MISTAKES = {
    "unknown method": (["--methods", "fedsgd"], "--methods fedsgd: unknown; choose from fedavg"),
    "unknown engine": (["--engine", "gpu"], "--engine gpu: unknown"),
    "no such data": (["--data", "nowhere"], "--data nowhere: no such file or folder"),
    "no such settings": (["--settings", "nothing.json"], "--settings nothing.json: not a settings.json"),
    "no such weights": (["--profile", "smoke", "--weights", "nothing.h5"], "--weights: nothing.h5"),
    "unknown flag": (["--round", "3"], "unrecognized arguments: --round 3"),
    "no rounds": (["--rounds", "0"], "--rounds 0: must be 1 or more"),
    "no batch": (["--batch", "-5"], "--batch -5: must be 1 or more"),
    "no epochs": (["--epochs", "0"], "--epochs 0: must be 1 or more"),
    "no seeds": (["--seeds", ""], "--seeds: give at least one value"),
    "a negative seed": (["--seeds=-1"], "--seeds -1: must be 0 or more"),
    "a rate that is no number": (["--learning-rate", "nan"], "--learning-rate nan: must be a finite number"),
    "too much momentum": (["--momentum", "1.5"], "--momentum 1.5: must be less than 1"),
    "too many clients asked for": (["--profile", "smoke", "--min-clients", "99"], "there are only 3 clients"),
    "not a number": (["--rounds", "many"], "argument --rounds: invalid int value: 'many'"),
}


NEED_TENSORFLOW = ("no such data", "no such weights", "too many clients asked for")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, place, capsys):
    arguments, message = MISTAKES[mistake]
    if mistake in NEED_TENSORFLOW:
        status = call(place, *arguments, "--results", "untouched")
        errors = capsys.readouterr().err
    else:
        done = run(place, *arguments, "--results", "untouched")
        status, errors = done.returncode, done.stderr
    assert status == 2 and message in errors and "Traceback" not in errors
    assert len([line for line in errors.splitlines() if "error:" in line]) == 1
    assert not list((place / "untouched").rglob("*.csv"))


def record(results: pathlib.Path) -> pd.DataFrame:
    (file,) = results.rglob("rounds.csv")
    return pd.read_csv(file).drop(columns=list(MEASURED_COLUMNS))


def weights(results: pathlib.Path) -> list[np.ndarray]:
    (file,) = results.rglob("checkpoint-4.npz")
    with np.load(file) as content:
        return [content[name] for name in content.files]


def rounds_so_far(results: pathlib.Path) -> int:
    return max((int(file.stem.rpartition("-")[2]) for file in results.rglob("checkpoint-*.npz")), default=0)


@pytest.fixture(scope="module")
def whole(place) -> pathlib.Path:
    """The results of a run that nothing interrupted."""
    assert call(place, *SMALL, "--results", "whole") == 0
    return place / "whole"


def test_killed_and_started_again(place, whole):
    results = place / "killed"
    program = subprocess.Popen(
        command("tffapps.classify", *SMALL, "--results", "killed"),
        cwd=place, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while rounds_so_far(results) < 2 and time.monotonic() < deadline:
        time.sleep(0.002)
    program.kill()
    program.wait()
    assert 2 <= rounds_so_far(results) < 4
    assert call(place, *SMALL, "--results", "killed") == 0
    assert record(results).equals(record(whole))
    for first, second in zip(weights(results), weights(whole)):
        assert np.array_equal(first, second)


def test_the_table_says_what_ran(whole):
    table = pd.read_csv(whole / "classify" / "comparison.csv")
    row = table.iloc[0]
    assert (row.method, row.data, row.profile, row.weights, row.model) == (
        "fedavg",
        "stand-in",
        "smoke",
        "random, base trained",
        "tiny",
    )
    assert row.accuracy == pytest.approx(record(whole).accuracy.iloc[-1], abs=1e-5)


def test_a_finished_run_is_not_run_again_and_its_settings_run_it_again(place, whole, capsys):
    assert call(place, *SMALL, "--results", "whole") == 0 and "4/4" not in capsys.readouterr().err
    table = (whole / "classify" / "comparison.csv").read_text()
    (settings,) = whole.rglob("settings.json")
    content = json.loads(settings.read_text())
    assert content["versions"]["tensorflow-federated"] and content["key"]["rounds"] == 4
    assert call(place, "--settings", str(settings)) == 0 and "4/4" in capsys.readouterr().err
    assert record(place / "whole-again").equals(record(whole))
    assert (whole / "classify" / "comparison.csv").read_text() == table


@pytest.mark.parametrize(
    "damage",
    [{"app": "plfl"}, {"labels": "text"}, {"labels": {}}, {"flags": {"rounds": "3"}}, {"flags": {"model": "vgg"}}],
    ids=str,
)
def test_damaged_settings_are_refused(damage, place, whole):
    (settings,) = whole.rglob("settings.json")
    file = place / "damaged.json"
    file.write_text(json.dumps({**json.loads(settings.read_text()), **damage}))
    done = run(place, "--settings", str(file), "--results", "untouched")
    assert done.returncode == 2 and "Traceback" not in done.stderr and "error: --" in done.stderr


def test_seeds_count_once():
    common = cli.parse(classify.APP, ["--seeds", "0,1,0", "--methods", "fedavg,fedavg"])[Common]
    assert common.seeds == (0, 1) and common.methods == ("fedavg",)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_a_signal(number, place):
    marker = f"{time.time_ns()}"
    program = subprocess.Popen(
        command("tffapps.classify", *SMALL, "--engine", "worker", "--rounds", "500", "--results", "signal"),
        cwd=place, env={**environment(), "TFFAPPS_TEST_MARK": marker},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in program.stderr:
        if "/500" in line:
            break
    program.send_signal(number)
    errors = program.communicate(timeout=60)[1]
    assert program.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert "Traceback" not in errors
    assert not marked(marker)


def marked(marker: str) -> list[int]:
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_doctor_finds_nothing_wrong(place):
    done = run(place, module="tffapps.doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("federated mean of 1, 2, 3, 4 = 2.5") == 2
    (rate, *_) = re.findall(r"^device [CG]PU:0 .* trains tiny at 64x64 with (\d+) images/s$", done.stdout, re.MULTILINE)
    assert int(rate) > 0
    assert all(f"\n{needed} " in done.stdout for needed in ("Landlock", "seccomp filters", "namespaces"))
    assert done.stdout.splitlines()[-1] == "everything works"


def test_doctor_reports_an_engine_that_does_not_answer(place):
    done = run(place, "--timeout", "0.5", module="tffapps.doctor")
    assert done.returncode == 1
    assert "PROBLEM  engine in-process: no result within 0.5 s" in done.stdout


@pytest.mark.parametrize("arguments", [["--head=nope"], ["--rouns=2"], ["--seeds=a"]])
def test_a_wrong_flag_is_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.parse(classify.APP, arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert stopped.value.code == 2 and line.startswith("tffapps.classify: error: ") and "--help" in line


def test_help_says_what_each_profile_has(capsys):
    with pytest.raises(SystemExit):
        cli.parse(classify.APP, ["--help"])
    said = " ".join(capsys.readouterr().out.split())
    rounds = {name: values.get("rounds") for name, values in classify.PROFILES.items()}
    assert f"smoke {rounds['smoke']}, small {rounds['small']}, demo {rounds['demo']}, paper" in said
