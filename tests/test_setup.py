"""scripts/setup.sh: does nothing twice, and every way it can fail is one clear line before anything is downloaded."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOOLS = (
    "bash", "sh", "uname", "grep", "df", "awk", "cmp", "cp", "cat", "env", "dirname", "rm", "mkdir", "tail", "chmod",
)  # fmt: skip


@pytest.fixture
def clone(tmp_path):
    """A project with the set-up script and one small requirement file."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / "scripts")
    (tmp_path / "requirements.txt").write_text("a-package-that-does-not-exist==1.0\n")
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return tmp_path


def add_tool(clone: pathlib.Path, name: str, script: str) -> None:
    path = clone / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


def add_python(clone: pathlib.Path) -> None:
    add_tool(clone, "python3", f'exec {sys.executable} "$@"')


def setup(clone: pathlib.Path, **variables: str) -> subprocess.CompletedProcess:
    environment = {"PATH": str(clone / "bin"), "HOME": str(clone), **variables}
    script = ". scripts/setup.sh requirements.txt && echo ready $PYTHON"
    return subprocess.run(
        [shutil.which("bash"), "-c", script], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )


def only_line(done: subprocess.CompletedProcess) -> str:
    lines = [line for line in done.stderr.splitlines() if "installing" not in line]
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    return lines[0]


def test_no_python(clone):
    assert "no Python 3.10–3.11 with venv found. Install one" in only_line(setup(clone))


def test_a_python_out_of_range(clone):
    add_tool(clone, "python3", "exit 1")  # what the version check answers on 3.12
    assert "no Python 3.10–3.11" in only_line(setup(clone))


def test_uv_provides_python(clone):
    add_tool(clone, "uv", "echo the call: $@ >> uv.log; exit 1")
    assert "uv could not provide" in only_line(setup(clone))
    assert "venv --quiet --clear --seed --python 3.11 .venv" in (clone / "uv.log").read_text()


def test_a_named_python_that_does_not_work(clone):
    add_python(clone)
    assert "TFFAPPS_PYTHON=/nowhere/python" in only_line(setup(clone, TFFAPPS_PYTHON="/nowhere/python"))


@pytest.mark.parametrize("answers", ["Darwin arm64", "Linux aarch64"])
def test_another_platform(clone, answers):
    system, machine = answers.split()
    add_tool(clone, "uname", f'[ "$1" = -s ] && echo {system} || echo {machine}')
    line = only_line(setup(clone))
    assert f"this is {system} on {machine}" in line
    assert not (clone / ".venv").exists()


def test_no_disk(clone):
    add_python(clone)
    assert "MB free in" in only_line(setup(clone, TFFAPPS_MIN_DISK_MB="999999999"))


def test_no_network(clone):
    add_python(clone)
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1", "PIP_CONFIG_FILE": os.devnull}
    assert "no network: the package index cannot be reached" in only_line(setup(clone, **nowhere))
    assert not (clone / ".venv" / ".installed-requirements.txt").exists()


def test_unchanged_pins_are_not_installed_again_and_changed_ones_are(clone):
    add_python(clone)
    (clone / "requirements.txt").write_text("# nothing\n")
    first = setup(clone)
    assert first.returncode == 0 and "installing requirements.txt" in first.stderr
    second = setup(clone)
    assert second.returncode == 0 and second.stderr == ""
    assert second.stdout.strip() == f"ready {clone}/.venv/bin/python"
    (clone / "requirements.txt").write_text("# still nothing\n")
    assert "installing" in setup(clone).stderr


def test_the_command_is_of_this_clone_also_after_it_has_moved(clone, tmp_path_factory):
    add_python(clone)
    (clone / "requirements.txt").write_text("# nothing\n")
    (clone / "tffapps").mkdir()
    (clone / "tffapps" / "__main__.py").write_text(
        "import sys\ndef main():\n    print(__file__, *sys.argv[1:])\n    return 5\n"
    )
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    moved = elsewhere / "with a space"
    for folder in (clone, moved):
        if folder is moved:
            clone.rename(moved)
        assert setup(folder).returncode == 0
        command = [folder / ".venv" / "bin" / "tffapps", "plfl", "--results", "a b"]
        done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)
        assert done.stdout == f"{folder}/tffapps/__main__.py plfl --results a b\n" and done.returncode == 5, done.stderr


def test_a_missing_requirement_file(clone):
    (clone / "requirements.txt").unlink()
    assert "requirements.txt is missing" in only_line(setup(clone))


FILES = tuple(f"requirements{part}.txt" for part in ("", "-dev", "-gpu", "-export", "-mlflow"))


def pins(text: str) -> list[str]:
    """A line for each package, its hashes included."""
    return re.sub(r" *\\\n *", " ", text).splitlines()


def without_platforms(lines: Iterable[str]) -> set[str]:
    return {re.sub(r" ; .*?(?= --hash)", "", line) for line in lines}


def test_the_pins_are_complete_and_name_no_index():
    for name in FILES:
        text = (ROOT / name).read_text()
        assert all("==" in line for line in pins(text)), name
        assert "index" not in text and "http" not in text, name
    runtime = set(pins((ROOT / "requirements.txt").read_text()))
    assert any(line.startswith("tensorflow-federated==0.87.0 --hash=sha256:") for line in runtime)
    assert all("--hash=sha256:" in line for line in runtime)
    for name in ("requirements-dev.txt", "requirements-gpu.txt"):  # the same files, on more platforms perhaps
        assert without_platforms(runtime) <= without_platforms(pins((ROOT / name).read_text())), name
    packages = {line.partition("==")[0] for line in runtime}
    for name in ("requirements-export.txt", "requirements-mlflow.txt"):  # beside those: they change none of them
        added = {line.partition("==")[0] for line in (ROOT / name).read_text().splitlines()}
        assert added and not added & packages, name


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fast"], "--fast: unknown argument"),
        (["--profile"], "--profile needs a value"),
        (["--profile", "big"], "--profile big: choose smoke, small, demo or paper"),
        (["--results="], "--results needs a value"),
        (["--at-once", "0"], "--at-once 0: from 1 to 9 systems"),
    ],
)
def test_run_all_refuses_what_it_does_not_know_before_anything_else(arguments, complaint, tmp_path):
    shutil.copy(ROOT / "run_all.sh", tmp_path)
    done = subprocess.run(["bash", "run_all.sh", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and complaint in done.stderr and len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == ["run_all.sh"]


@pytest.fixture
def run_all(tmp_path):
    """run_all.sh with a Python that knows three systems and otherwise only says what it was asked for."""
    shutil.copy(ROOT / "run_all.sh", tmp_path)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "setup.sh").write_text("PYTHON=./python\n")
    listing = "if [ $2 = tffapps.systems ]; then echo first second; echo third; exit; fi"
    (tmp_path / "python").write_text(f'#!/bin/sh\n{listing}\necho "$@"\n[ "$3" != second ]\n')
    (tmp_path / "python").chmod(0o755)
    options = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    return lambda *arguments: subprocess.run(["bash", "run_all.sh", *arguments], **options)


def test_run_all_runs_what_it_is_told_to_and_ends_with_the_summary(run_all):
    done = run_all("--only=third,first", "--profile", "smoke", "--at-once", "1")
    assert done.returncode == 0 and done.stdout.splitlines() == [
        "-m tffapps.doctor",
        "== third (1 of 2)",
        "third | -m tffapps third --profile smoke --results results",
        "== first (2 of 2)",
        "first | -m tffapps first --profile smoke --results results",
        "-m tffapps.report --summary --results results",
    ]


FIRST = 'case "$3" in first) touch began; {};; '
SLOW = FIRST + "third) while [ ! -e began ]; do sleep 0.05; done; exit 3;; esac"


def test_two_systems_run_side_by_side_and_the_first_that_fails_decides(run_all, tmp_path):
    """The third fails as soon as it sees that the first has begun, which then ends by itself."""
    python = tmp_path / "python"
    lines = python.read_text().splitlines()
    python.write_text("\n".join([*lines[:2], SLOW.format("sleep 0.5"), "echo ended $3"]) + "\n")
    done = run_all("--only=first,third,second")
    assert done.returncode == 3 and "first | ended first" in done.stdout.splitlines()
    assert "== second" not in done.stdout  # nothing begins after a failure


def test_ctrl_c_ends_what_runs(run_all, tmp_path):
    python = tmp_path / "python"
    python.write_text("\n".join([*python.read_text().splitlines()[:2], SLOW.format("sleep 30")]) + "\n")
    process = subprocess.Popen(["bash", "run_all.sh", "--only=first"], cwd=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 20
    while not (tmp_path / "began").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130 and time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("profile", "folders"),
    [("small", ["out/small"]), ("demo", ["out", "out/small"]), ("smoke", ["out"])],
)
def test_run_all_makes_the_page_of_the_small_network_apart(run_all, tmp_path, profile, folders):
    (tmp_path / "out" / "small").mkdir(parents=True)  # as a system leaves it that has no pretrained weights
    done = run_all("--only=first", "--profile", profile, "--results", "out")
    pages = [f"-m tffapps.report --summary --results {folder}" for folder in folders]
    assert done.returncode == 0 and done.stdout.splitlines()[3:] == pages


def test_run_all_stops_where_one_fails(run_all):
    done = run_all("--results", "out", "--at-once=1")
    assert done.returncode == 1 and done.stdout.splitlines() == [
        "-m tffapps.doctor",
        "== first (1 of 2)",
        "first | -m tffapps first --profile demo --results out",
        "== second (2 of 2)",
        "second | -m tffapps second --profile demo --results out",
    ]


def test_run_all_refuses_a_system_that_is_not_on_the_list(run_all):
    done = run_all("--only", "first,nope")
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert "--only nope: choose from first, second, third; usage: " in done.stderr


def test_the_list_that_run_all_asks_for(tmp_path):
    """Those of the papers in their order, then the others, one's own among them; no package but Python's is needed."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TFFAPPS_SYSTEMS": "somewhere.mine"}
    command = [sys.executable, "-S", "-m", "tffapps.systems"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "plfl fedsda fnst fedstyle fedtransfer\nclassify mine\n"
