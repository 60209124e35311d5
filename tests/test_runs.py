"""Run folders: rows, checkpoints, resuming, corruption, locks."""

import json
import os
import stat

import numpy as np
import pytest

from tffapps.errors import RunStopped, UserError
from tffapps.files import as_name, from_name, replacing
from tffapps.runs import Run, key_of

SETTINGS = {"method": "fedavg", "seed": 0}


def state(number: int) -> list[np.ndarray]:
    return [np.full((2, 3), number, np.float32), np.array(number, np.int64)]


def play(run: Run, numbers) -> None:
    for number in numbers:
        run.add_round({"round": number, "accuracy": number / 10, "left_out": ""})
        run.save(number, state(number))


def test_a_run_goes_on_where_it_stopped(tmp_path):
    with Run(tmp_path, "a", SETTINGS) as run:
        play(run, [1, 2, 3])
    with Run(tmp_path, "a", SETTINGS) as run:
        number, arrays = run.latest()
        assert number == 3
        assert np.array_equal(arrays[0], state(3)[0]) and arrays[1].dtype == np.int64 and arrays[1] == 3
        assert run.rounds()["round"].tolist() == [1, 2, 3]
        assert len(list(run.folder.glob("checkpoint-*"))) == 2


def test_a_row_without_its_checkpoint_is_dropped(tmp_path):
    with Run(tmp_path, "a", SETTINGS) as run:
        play(run, [1, 2])
        run.add_round({"round": 3, "accuracy": 0.9, "left_out": ""})
        assert run.latest()[0] == 2
        assert run.rounds()["round"].tolist() == [1, 2]


@pytest.mark.parametrize("damage", [b"", b"PK nonsense", None])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, damage):
    with Run(tmp_path, "a", SETTINGS) as run:
        play(run, [1, 2, 3])
        newest = run.folder / "checkpoint-3.npz"
        content = bytearray(newest.read_bytes())
        content[len(content) // 3] ^= 0xFF  # one flipped byte inside an array
        newest.write_bytes(content if damage is None else damage)
        number, arrays = run.latest()
        assert number == 2 and arrays[1] == 2
        assert run.rounds()["round"].tolist() == [1, 2]


def test_other_settings_are_another_run_and_fresh_starts_over(tmp_path):
    with Run(tmp_path, "a", SETTINGS) as first, Run(tmp_path, "a", {**SETTINGS, "seed": 1}) as second:
        assert first.folder != second.folder
        play(first, [1])
    with Run(tmp_path, "a", SETTINGS, fresh=True) as run:
        assert run.latest() is None and run.rounds().empty


@pytest.mark.parametrize("fresh", [False, True])
def test_two_processes_do_not_share_a_run(tmp_path, fresh):
    with Run(tmp_path, "a", SETTINGS) as run:
        play(run, [1])
        with pytest.raises(UserError, match="another process"):
            Run(tmp_path, "a", SETTINGS, fresh=fresh)
        assert run.latest()[0] == 1


def test_numbers_survive_being_written_again(tmp_path):
    values = np.random.default_rng(0).random(200)
    with Run(tmp_path, "a", SETTINGS) as run:
        for number, value in enumerate(values):
            run.add_round({"round": number, "accuracy": value})
        assert run.rounds().accuracy.tolist() == values.tolist()


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    with Run(tmp_path, "a", SETTINGS) as run:
        left = run.folder / ".checkpoint-1.npz.123.tmp"
        left.write_text("half")
    with Run(tmp_path, "a", SETTINGS):
        assert not left.exists()


def test_settings_and_summary_are_kept(tmp_path):
    with Run(tmp_path, "a", SETTINGS, {"app": "x"}) as run:
        assert not run.finished
        run.finish({"accuracy": 0.5})
    with Run(tmp_path, "a", SETTINGS) as run:
        assert run.finished and run.summary() == {"accuracy": 0.5}
        assert json.loads((run.folder / "settings.json").read_text()) == {"app": "x", "key": SETTINGS}
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1}) != key_of({"a": 1, "b": 3})


@pytest.mark.parametrize("name", ["settings.json", "rounds.csv", "clients.csv", "predictions.csv", "finished.json"])
def test_damage_to_a_finished_run_is_found(name, tmp_path):
    """One digit, or the last line: both are still a table."""
    with Run(tmp_path, "a", SETTINGS) as run:
        for number in (1, 2):
            run.add_round({"round": number, "accuracy": 0.25}, [{"client": "x", "loss": 0.25}])
        (run.folder / "predictions.csv").write_text("image,p_a\n1,0.25\n2,0.25\n")
        run.finish({"accuracy": 0.25})
        assert run.summary() == {"accuracy": 0.25}
        file = run.folder / name
        whole = file.read_text()
        changes = [whole.replace("0.25", "0.26", 1), whole[: whole.rstrip().rindex("\n") + 1], "{}"]
        for changed in [change for change in changes if change != whole]:
            file.write_text(changed)
            with pytest.raises(UserError, match=f"{name} cannot be understood; remove its folder"):
                run.summary()
            file.write_text(whole)
        assert run.summary() == {"accuracy": 0.25}


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path, synced, sync = tmp_path / "table.csv", [], os.fsync
    path.write_text("old")
    with pytest.raises(KeyError), replacing(path) as file:
        file.write("half")
        raise KeyError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)) or sync(descriptor))
    with replacing(path) as file:
        file.write("new")
    assert path.read_text() == "new"
    # Contents, then the name: both are on the disk.
    assert [stat.S_ISDIR(one.st_mode) for one in synced] == [False, True] and synced[0].st_size == 3


def test_a_full_disk_is_said_plainly(tmp_path):
    with pytest.raises(RunStopped, match="no space left"), replacing(tmp_path / "x") as file:
        file.close()
        with open("/dev/full", "w") as full:
            full.write("x")


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(UserError, match="--results"):
        Run(tmp_path, "a", SETTINGS)


def test_what_clients_keep_goes_with_the_checkpoints(tmp_path):
    with Run(tmp_path, "a", SETTINGS) as run:
        assert run.kept(0) is None
        for number in (1, 2, 3):
            run.keep(number, 0, state(10 * number))
            if number == 1:
                run.keep(number, 12, state(7))  # left out from then on
            play(run, [number])
        assert run.kept(0)[1] == 30 and run.kept(12)[1] == 7 and run.kept(1) is None
        names = {path.name for path in run.folder.glob("kept-*")}
        assert names == {"kept-2-0.npz", "kept-3-0.npz", "kept-1-12.npz"}
        run.keep(4, 12, state(8))  # and killed before the checkpoint
        assert run.latest()[0] == 3 and run.kept(12)[1] == 7
        run.finish({})
        assert not (run.folder / "kept-2-0.npz").exists() and run.kept(12)[1] == 7


def test_the_best_weights_are_kept_by_name(tmp_path):
    with Run(tmp_path, "a", SETTINGS) as run:
        for number in (1, 2, 3):
            if number != 2:  # which was worse
                run.keep(number, "best", state(10 * number))
            play(run, [number])
        assert run.kept("best")[1] == 30 and (run.folder / "kept-1-best.npz").exists()  # checkpoint 2 may need it
        run.keep(4, "best", state(40))  # and killed before the checkpoint
        assert run.latest()[0] == 3 and run.kept("best")[1] == 30
        run.finish({})
        assert [path.name for path in run.folder.glob("kept-*")] == ["kept-3-best.npz"]


def test_a_damaged_file_of_a_client_takes_its_checkpoint_with_it(tmp_path):
    with Run(tmp_path, "a", SETTINGS) as run:
        for number in (1, 2):
            run.keep(number, 0, state(number))
            play(run, [number])
        (run.folder / "kept-2-0.npz").write_bytes(b"half")
        with pytest.raises(UserError, match=r"kept-2-0.npz cannot be read"):
            run.kept(0)
        assert run.latest()[0] == 1 and run.kept(0)[1] == 1
        (run.folder / "checkpoint-1.npz").unlink()
        assert run.latest() is None and run.kept(0) is None


@pytest.mark.parametrize("client", ["iron", "St. John's / 2", "..", "ü%2F", ".hidden"])
def test_any_client_s_name_is_a_file_name(client, tmp_path):
    name = as_name(client)
    (tmp_path / name).write_text("x")
    assert from_name(name) == client and [path.name for path in tmp_path.iterdir()] == [name] and name[0] != "."
