"""What may happen while a command runs: files vanish, a worker dies, a checkpoint is damaged."""

from __future__ import annotations

import os
import shutil
import signal

import psutil
import pytest

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tffapps import cli, inputs
from tffapps.classify import APP
from tffapps.errors import RunStopped
from tffapps.runs import Run

ARGUMENTS = ["--profile", "smoke", "--methods", "fedavg", "--rounds", "3"]
NAME = "fedavg-federation-seed0"


@pytest.fixture(autouse=True)
def nothing_is_held(monkeypatch):
    """Images of small networks are held in memory; here every round reads its files."""
    monkeypatch.setattr(inputs, "_HELD", 0)


def after_round(patch: pytest.MonkeyPatch, number: int, happens) -> None:
    """Something happens when a round has been saved."""
    old = Run.save

    def save(self, round_, arrays):
        old(self, round_, arrays)
        if round_ == number:
            happens(self)

    patch.setattr(Run, "save", save)


@pytest.fixture(scope="module")
def whole(place):
    with working_in(place):
        assert cli.main(APP, ARGUMENTS) == 0
    return record(place / "results" / "classify", NAME)


@pytest.fixture
def data(whole, place, tmp_path):
    """The stand-in, to be spoilt."""
    (source,) = (place / "data").glob("textures-*")
    return shutil.copytree(source, tmp_path / "data" / source.name)


def test_a_client_whose_files_vanish_between_rounds_is_left_out_and_named(whole, data, tmp_path, capsys):
    client = sorted(folder.name for folder in data.iterdir() if folder.is_dir())[1]
    with working_in(tmp_path) as patch:
        after_round(patch, 1, lambda run: shutil.rmtree(data / client / "train"))
        assert cli.main(APP, ARGUMENTS) == 0
    rounds, _ = record(tmp_path / "results" / "classify", NAME)
    assert rounds.clients.tolist() == [3, 2, 2] and whole[0].clients.tolist() == [3, 3, 3]
    assert rounds.left_out.isna()[0] and rounds.left_out[1:].str.startswith(f"{client} (").all()
    assert f"left out: {client}" in capsys.readouterr().err
    assert rounds.accuracy[0] == whole[0].accuracy[0] and rounds.training_loss[1] != whole[0].training_loss[1]


def test_too_few_clients_are_left_when_files_vanish(whole, data, tmp_path, capsys):
    """The rounds before stay, and the command goes on when the files are back."""
    client = sorted(folder.name for folder in data.iterdir() if folder.is_dir())[1]
    with working_in(tmp_path) as patch:
        after_round(patch, 1, lambda run: os.rename(data / client / "train", tmp_path / "away"))
        assert cli.main(APP, [*ARGUMENTS, "--min-clients", "3"]) == 3
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("tffapps.classify: stopped: ") and client in last
    assert record(tmp_path / "results" / "classify", NAME)[0]["round"].tolist() == [1]
    os.rename(tmp_path / "away", data / client / "train")
    with working_in(tmp_path):
        assert cli.main(APP, [*ARGUMENTS, "--min-clients", "3"]) == 0
    rounds, weights = record(tmp_path / "results" / "classify", NAME)
    assert rounds.equals(whole[0]) and largest_difference(weights, whole[1]) == 0


def test_a_damaged_checkpoint_falls_back_to_the_one_before(whole, tmp_path, capsys):
    def stop(run: Run) -> None:
        newest = run.folder / "checkpoint-2.npz"
        contents = bytearray(newest.read_bytes())
        contents[len(contents) // 2] ^= 1
        newest.write_bytes(contents)
        raise RunStopped("the power failed")

    with working_in(tmp_path) as patch:
        after_round(patch, 2, stop)
        assert cli.main(APP, ARGUMENTS) == 3
    capsys.readouterr()
    with working_in(tmp_path):
        assert cli.main(APP, ARGUMENTS) == 0
    assert ": 2/3" in capsys.readouterr().err  # the second round was played again
    rounds, weights = record(tmp_path / "results" / "classify", NAME)
    assert rounds.equals(whole[0]) and largest_difference(weights, whole[1]) == 0


def test_a_worker_that_dies_is_replaced(whole, tmp_path):
    found = []

    def kill(run: Run) -> None:
        del run
        found.extend(process for process in psutil.Process().children(recursive=True) if "worker" in process.name())
        for process in found:
            os.kill(process.pid, signal.SIGKILL)

    with working_in(tmp_path) as patch:
        after_round(patch, 1, kill)
        assert cli.main(APP, [*ARGUMENTS, "--engine", "worker"]) == 0
    assert found
    rounds, weights = record(tmp_path / "results" / "classify", NAME)
    assert rounds.clients.tolist() == [3, 3, 3] and largest_difference(weights, whole[1]) < 1e-4
