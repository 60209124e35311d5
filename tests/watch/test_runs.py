"""What is said of runs: their state, rounds, time left; while they write, and of files that are odd."""

import json
import os
import threading

import pytest

from tests.watch.conftest import make_run, round_row
from tffapps.watch import record, runs
from tffapps.watch.runs import Runs

pytestmark = pytest.mark.usefixtures("at_once")


def of(found: dict, name: str) -> dict:
    (run,) = [run for run in found["runs"].values() if run["name"].startswith(name)]
    return run


def test_running_finished_and_stopped(tmp_path):
    make_run(tmp_path / "classify", "stopped", 3).__exit__()
    make_run(tmp_path / "small" / "plfl", "finished", 4, finished=True).__exit__()
    with make_run(tmp_path / "classify", "running", 4, last={"left_out": "north (no answer)", "clients": 2}):
        found = Runs(tmp_path).listing()
    running, stopped, finished = (of(found, name) for name in ("running", "stopped", "finished"))
    assert [run["state"] for run in (running, stopped, finished)] == ["running", "stopped", "finished"]
    assert (running["done"], running["of"], running["seconds_left"]) == (4, 10, 12.0)  # six rounds of two seconds
    assert stopped["seconds_left"] is None and finished["seconds_left"] is None
    assert (running["clients"], running["left_out"], running["rounds_with_left_out"]) == (2, "north (no answer)", 1)
    assert (running["bytes_down"], running["bytes_up"], running["peak_memory_mb"]) == (4000, 8000, 404)
    assert (running["headline"], running["last"], running["curve"]) == ("accuracy", 0.54, [0.51, 0.52, 0.53, 0.54])
    assert running["labels"] == {"method": "running", "seed": "0"} and running["app"] == "classify"
    assert finished["place"] == "small/plfl"
    assert of(Runs(tmp_path / "classify" / "runs").listing(), "stopped")["place"] == ""
    assert of(Runs(tmp_path).listing(), "running")["state"] == "stopped"  # closed by now


def test_asking_takes_no_lock(tmp_path):
    """A run that starts while the page asks must find its lock free."""
    make_run(tmp_path, "often", 1).__exit__()
    watched, done = Runs(tmp_path), threading.Event()

    def keep_asking():
        while not done.is_set():
            watched.listing()

    thread = threading.Thread(target=keep_asking)
    thread.start()
    try:
        for _ in range(40):
            make_run(tmp_path, "often", 0).__exit__()
    finally:
        done.set()
        thread.join()


def test_time_left_is_of_the_last_rounds():
    rows = [round_row(number, seconds=100 if number == 1 else number) for number in range(1, 9)]
    assert mean_of(rows) == 6  # of 4, 5, 6, 7, 8
    assert mean_of(rows[:1]) == 100  # nothing else to go by


def mean_of(rows: list[dict]) -> float:
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rounds.csv"
        path.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]))
        return record.read_rounds(path).round_seconds


def test_only_what_has_changed_is_read_and_told(tmp_path, monkeypatch):
    made = [make_run(tmp_path, "same", 2, seed=seed, finished=True) for seed in range(20)]
    for run in made:
        run.__exit__()
    watched = Runs(tmp_path)
    first = watched.listing()
    assert len(first["runs"]) == len(first["names"]) == 20
    reads = []
    read = record._bounded
    monkeypatch.setattr(record, "_bounded", lambda path: reads.append(path) or read(path))
    again = watched.listing(first["version"])
    assert reads == [] and again["runs"] == {} and again["names"] is None
    made[7].add_round(round_row(3))
    third = watched.listing(again["version"])
    assert reads == [made[7].folder / "rounds.csv"] and [run["done"] for run in third["runs"].values()] == [3]
    with make_run(tmp_path, "new", 0):
        fourth = watched.listing(third["version"])
    assert [run["state"] for run in fourth["runs"].values()] == ["running"] and len(fourth["names"]) == 21
    assert fourth["runs"].popitem()[1]["headline"] == ""


def test_a_run_that_is_removed_is_gone(tmp_path):
    run = make_run(tmp_path, "gone", 2)
    run.__exit__()
    watched = Runs(tmp_path)
    first = watched.listing()
    for path in run.folder.iterdir():
        path.unlink()
    run.folder.rmdir()
    assert watched.listing(first["version"])["names"] == []
    assert watched.details(first["names"][0]) is None


def test_it_reads_while_a_run_writes(tmp_path):
    watched = Runs(tmp_path)
    with make_run(tmp_path, "busy", 0, of=60) as run:
        thread = threading.Thread(target=lambda: [run.add_round(round_row(number)) for number in range(1, 61)])
        thread.start()
        seen = []
        while thread.is_alive() or not seen:
            found = of(watched.listing(), "busy")
            assert found["problems"] == []
            seen.append(found["done"])
        thread.join()
        assert of(watched.listing(), "busy")["done"] == 60 and seen == sorted(seen)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("settings.json", "{", "settings.json is no JSON"),
        ("settings.json", "[1]", "settings.json is no settings"),
        ("settings.json", "[" * 10**5, "settings.json is no JSON"),
        ("settings.json", '{"labels": 3, "key": {"rounds": "many"}, "app": ["x"]}', None),
        ("settings.json", '{"labels": {"method": "\\ud800"}}', None),
        ("rounds.csv", "a,b\n1,2\n", "rounds.csv has rows without a round"),
        ("rounds.csv", "round\n1e400\n", "rounds.csv has rows without a round"),
        ("rounds.csv", "", None),
        ("rounds.csv", "round,accuracy,clients,seconds,bytes_up\n1,inf,nan,,x\n2,0.5,2,1,7,extra\n3\n", None),
        ("rounds.csv", b"round\n\xff\xfe", "rounds.csv is no text"),
    ],
)
def test_odd_files(name, content, problem, tmp_path):
    run = make_run(tmp_path, "odd", 2)
    run.__exit__()
    (run.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = of(Runs(tmp_path).listing(), "odd")
    assert found["problems"] == ([problem] if problem else [])
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()  # neither half characters nor NaN


def test_a_pipe_a_link_and_a_large_file_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "_MOST_BYTES", 1000)
    for seed, (make, problem) in enumerate(
        [
            (os.mkfifo, "is no file"),
            (lambda path: path.symlink_to("/dev/zero"), "is no file"),
            (lambda path: path.write_text("round\n" + "1\n" * 1000), "is larger than 1000 bytes"),
        ]
    ):
        run = make_run(tmp_path / str(seed), "odd", 1)
        run.__exit__()
        (run.folder / "rounds.csv").unlink()
        make(run.folder / "rounds.csv")
        (found,) = Runs(tmp_path / str(seed)).listing()["runs"].values()
        assert found["problems"] == [f"rounds.csv {problem}"]


def test_links_to_folders_are_not_followed(tmp_path):
    make_run(tmp_path / "outside", "elsewhere", 1).__exit__()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "results" / "round").symlink_to(tmp_path / "results")
    assert Runs(tmp_path / "results").listing()["runs"] == {}


def test_long_curves_are_thinned():
    values = tuple(float(number) for number in range(1000))
    thin = runs.thinned(values, 60)
    assert len(thin) == 60 and (thin[0], thin[-1]) == (0, 999) and thin == sorted(thin)
    assert runs.thinned(values[:3], 60) == [0, 1, 2]
