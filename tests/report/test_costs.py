import json

from tests.report.conftest import write
from tffapps.report.costs import as_sheet, runs

ROUNDS = "round,accuracy,bytes_down,bytes_up,seconds,peak_memory_mb\n1,0.5,100,110,1.5,800\n2,0.6,100,110,0.5,900\n"


def a_run(folder, name, profile="demo", finished=True, rounds=ROUNDS):
    write(folder / "runs" / name / "rounds.csv", rounds)
    write(folder / "runs" / name / "settings.json", json.dumps({"labels": {}, "flags": {"profile": profile}}))
    if finished:
        write(folder / "runs" / name / "finished.json", "{}")


def test_means_over_the_runs_of_a_method(tmp_path):
    a_run(tmp_path, "fedavg-none-seed0-0123abcd")
    a_run(tmp_path, "fedavg-none-seed1-4567cdef", rounds=ROUNDS + "3,0.6,100,110,4,700\n")
    a_run(tmp_path, "stains-mlp-5-epochs-af666393")
    found, problems = runs(tmp_path, "demo")
    assert not problems and sum(run.seconds for run in found) == 10
    first, second = as_sheet(found).rows
    assert first == {
        "run": "fedavg-none", "runs": "2", "rounds": "2.5", "seconds": "4.00", "seconds_per_round": "1.600",
        "bytes_up": "275", "bytes_down": "250", "peak_memory_mb": "900",
    }  # fmt: skip
    assert second["run"] == "stains-mlp-5-epochs"


def test_other_profiles_and_unfinished_runs_do_not_count(tmp_path):
    a_run(tmp_path, "fedavg-seed0-0123abcd", profile="smoke")
    a_run(tmp_path, "fedavg-seed0-89ab0123", finished=False)
    assert runs(tmp_path, "demo") == ([], [])


def test_runs_of_the_version_before_do_not_count(tmp_path):
    a_run(tmp_path, "fedavg-seed0-0123abcd")
    a_run(tmp_path, "fedavg-seed0-89ab0123")
    old = {"app": "classify", "settings": {"method": "fedavg", "seed": 0}, "flags": {"profile": "demo"}}
    write(tmp_path / "runs" / "fedavg-seed0-89ab0123" / "settings.json", json.dumps(old))
    found, problems = runs(tmp_path, "demo")
    assert len(found) == 1 and not problems


def test_a_broken_record_is_one_line(tmp_path):
    a_run(tmp_path, "fedavg-seed0-0123abcd", rounds="a,b\n1\n")
    a_run(tmp_path, "fedavg-seed1-0123abcd")
    write(tmp_path / "runs" / "fedavg-seed1-0123abcd" / "settings.json", "{")
    found, problems = runs(tmp_path, "demo")
    assert not found
    assert problems == [
        "runs/fedavg-seed0-0123abcd: row 2 has 1 fields, the row of column names 2",
        "runs/fedavg-seed1-0123abcd: settings.json cannot be read",
    ]
