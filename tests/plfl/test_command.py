"""`python -m tffapps.plfl` as a user types it: all tables, nothing twice, kill and go on, mistakes, odd data."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

import cv2
import numpy as np
import pandas as pd
import pytest

from tests.contract import *  # noqa: F403
from tests.faults.killing import killed as ends_killed
from tests.test_commands import command, environment
from tffapps import cli
from tffapps.data import knees, oai
from tffapps.errors import UserError
from tffapps.plfl import APP, data, parameters, trials
from tffapps.training import MEASURED_COLUMNS

TABLES = (
    "best", "claims", "comparison", "confusion", "models", "poisoning", "pseudo_labels", "rejected", "rounds", "splits",
    "times",
)  # fmt: skip
FIGURES = ("accuracy", "confusion", "macro_f1", "poisoning", "pseudo_labels", "steps")
ROUNDS = 5
SMALL = ["--profile", "smoke", "--size", "32", "--standin-images", "100", "--plfl-rounds", str(ROUNDS)]


@contextlib.contextmanager
def working_in(folder):
    """For calls in this process: they start no other processes and leave out the thesis's large networks."""
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(os, "cpu_count", lambda: 1)
        patch.setattr(parameters, "table_of", lambda *arguments: pd.DataFrame({"model": ["left out"]}))
        yield folder
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def here(place):
    with working_in(place):
        yield place


def call(*arguments):
    """The work of the command, in this process."""
    trials.run(cli.parse(APP, arguments))


@pytest.fixture(scope="module")
def smoke(place):
    with working_in(place):
        assert cli.main(APP, [*SMALL, "--results", "whole"]) == 0
    return place / "whole" / "plfl"


@pytest.fixture(scope="module")
def smoke_arguments():
    return SMALL


@pytest.fixture(scope="module")
def whole(smoke):
    """The results of a run that nothing interrupted."""
    return smoke


@pytest.fixture(scope="module")
def standin(tmp_path_factory):
    """A hundred knees to make other data of."""
    return knees.write_knees(tmp_path_factory.mktemp("knees") / "k", images=100, size=32, progress=False)


def record(results: pathlib.Path, run: str) -> pd.DataFrame:
    (file,) = results.glob(f"runs/{run}-????????/rounds.csv")
    return pd.read_csv(file).drop(columns=list(MEASURED_COLUMNS))


def test_every_table_and_figure_is_there(whole):
    assert sorted(file.stem for file in whole.glob("*.csv")) == sorted(TABLES)
    assert sorted(file.stem for file in whole.glob("*.png")) == sorted(FIGURES)
    table, ends = pd.read_csv(whole / "rounds.csv", dtype={"round": str}), pd.read_csv(whole / "comparison.csv")
    assert set(table.framework) == set(ends.framework) == {"gold", "csfl", "plfl", "plfl+", "fssfl"}
    assert set(table.data) == {"stand-in"} and set(table.weights) == {"random, base trained"}
    last = table[(table.framework == "plfl") & (table.site == "server")].iloc[-1]
    assert last["round"] == str(ROUNDS - 1)
    assert last.accuracy == pytest.approx(record(whole, "plfl-tiny-seed0").accuracy.iloc[-1], abs=1e-5)
    assert last.accuracy == pytest.approx(ends.set_index("framework").accuracy["plfl"], abs=1e-5)
    assert pd.read_csv(whole / "claims.csv").baseline.unique().tolist() == ["gold only"]
    assert pd.read_csv(whole / "poisoning.csv").share.tolist() == [0, 1] * 3
    rejected = pd.read_csv(whole / "rejected.csv")
    assert len(rejected) and rejected.reason.str.contains("dark|cut off|not found").all()


AGAIN = [*SMALL, "--methods", "plfl", "--poison", "", "--results", "killed"]


@pytest.fixture(scope="module")
def killed(whole, place):
    """The results of a run that was killed as it prepared images, and in its third round or later, and went on."""
    results, cache = place / "killed" / "plfl", place / "data" / "cache" / "knees"
    count = len(list(cache.rglob("*.*")))
    shutil.rmtree(cache)
    ends_killed("plfl", AGAIN, place, "concurrent.futures:Future.result", 130)  # a hundred for their keys
    assert 0 < len(list(cache.rglob("*.*"))) < count
    program = subprocess.Popen(
        command("tffapps.plfl", *AGAIN),
        cwd=place, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 200
    while not list(results.glob("runs/plfl-*/checkpoint-2.npz")) and time.monotonic() < deadline:
        time.sleep(0.002)
    program.kill()
    program.wait()
    assert 2 <= len(record(results, "plfl-tiny-seed0")) < ROUNDS
    with working_in(place):
        call(*AGAIN)
    return results


@pytest.mark.slow
def test_a_killed_run_ends_like_one_that_was_not(whole, killed):
    for run in ("gold-tiny-seed0", "plfl-tiny-seed0"):
        assert record(killed, run).equals(record(whole, run))  # though other frameworks ran there too
    assert len(record(killed, "plfl-tiny-seed0")) == ROUNDS
    assert sorted(file.stem for file in killed.glob("*.csv")) == sorted(set(TABLES) - {"poisoning"})


def folder_of(standin, target, keep=lambda file: True):
    """A copy of the stand-in that does not say that it is one."""
    for file in standin.rglob("*.png"):
        if keep(file):
            copy = target / file.relative_to(standin)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    return target


def no_grades(standin, target):
    (target / "train" / "healthy").mkdir(parents=True)
    return target


def empty_grade(standin, target):
    folder_of(standin, target, lambda file: file.parent.name != "3")
    for split in ("train", "val", "test"):
        (target / split / "3").mkdir(parents=True, exist_ok=True)
    return target


def all_black(standin, target):
    for file in folder_of(standin, target).rglob("*.png"):
        # Not all equal: the same image in two grades would be another mistake.
        cv2.imwrite(str(file), np.full((32, 32), int(file.parent.name), np.uint8))
    return target


def one_class(standin, target):
    table = oai.read_oai(standin).assign(label="knee")
    table[["path", "label", "subject"]].to_csv(f"{target}.csv", index=False)
    return pathlib.Path(f"{target}.csv")


BAD_DATA = {
    no_grades: "none of the grade folders 0, 1, 2, 3, 4",
    empty_grade: "no image of grade 3 (moderate)",
    all_black: "--data: no usable image of healthy, moderate, severe is left",
    one_class: "--data: only one class (knee)",
}
BAD_FLAGS = {
    "unknown model": (["--models", "vgg"], "--models vgg: choose one of mobilenetv2"),
    "too much poison": (["--poison", "2"], "--poison 2.0: must be 1 or less"),
    "no poison at all": (["--poison", "0"], "--poison 0.0: must be more than 0"),
    "images too small": (["--models", "tiny", "--size", "16"], "--size 16: must be 32 or more"),
    "too high a target": (["--target-accuracy", "1.5"], "--target-accuracy 1.5: must be 1 or less"),
    "too many clients": (["--min-clients", "3"], "--min-clients 3: there are only 2 clients"),
    "no such data": (["--data", "nowhere"], "--data nowhere: no such file or folder"),
    "no such weights": ([*SMALL, "--weights", "nothing.h5"], "--weights: nothing.h5"),
}


def complaint(capsys, *arguments) -> str:
    """The one line about what is wrong, of a call that must end with status 2."""
    assert cli.main(APP, [*arguments, "--results", "untouched"]) == 2
    errors = capsys.readouterr().err
    (line,) = (line for line in errors.splitlines() if "error:" in line)
    assert line.startswith("tffapps.plfl: error: ") and "Traceback" not in errors
    return line


@pytest.mark.parametrize("mistake", BAD_FLAGS)
def test_a_wrong_flag_is_one_clear_line(mistake, here, capsys):
    arguments, message = BAD_FLAGS[mistake]
    assert message in complaint(capsys, *arguments)
    assert not list((here / "untouched").rglob("rounds.csv"))


@pytest.mark.parametrize("make", BAD_DATA, ids=lambda make: make.__name__)
def test_unusable_data_is_one_clear_line(make, standin, here, tmp_path, capsys):
    source = make(standin, tmp_path / "given")
    assert BAD_DATA[make] in complaint(capsys, *SMALL, "--data", str(source))


def test_a_mistake_as_a_user_sees_it(place):
    done = subprocess.run(
        command("tffapps.plfl", "--poison", "2"),
        cwd=place, env=environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tffapps.plfl: error: --poison 2.0: must be 1 or less\n"


def test_a_truncated_image_is_named_and_left_out(standin, here, tmp_path, capsys):
    folder = folder_of(standin, tmp_path / "given")
    bad = min(folder.glob("train/0/*.png"))
    bad.write_bytes(bad.read_bytes()[:-40])
    flags = cli.parse(APP, [*SMALL, "--data", str(folder)])
    clean, pool = data.load(flags.replaced(data=str(standin))), data.load(flags)
    pool.announce(tmp_path / "results")
    assert len(pool.table) == len(clean.table) - 1 and pool.key != clean.key
    assert (pool.name, clean.name) == ("given", "stand-in")
    reasons = pd.read_csv(tmp_path / "results" / "rejected.csv").set_index("path").reason
    assert reasons[str(bad)].startswith("truncated PNG")
    assert f"{len(reasons)} of 100 images cannot be used" in capsys.readouterr().err


def manifest_of(standin, target):
    """JPEGs of two classes with names of their own, and one truncated PNG."""
    rows = []
    for number, row in enumerate(oai.read_oai(standin).to_dict("records")):
        path = target / f"{number}.jpg"
        cv2.imwrite(str(path), cv2.imread(row["path"], cv2.IMREAD_UNCHANGED))
        rows.append((path.name, "fit" if row["label"] == "healthy" else "worn", row["subject"]))
    (target / "bad.png").write_bytes(pathlib.Path(row["path"]).read_bytes()[:100])
    rows.append(("bad.png", "fit", "P1"))
    pd.DataFrame(rows, columns=["path", "label", "subject"]).to_csv(target / "knees.csv", index=False)
    return target / "knees.csv"


def test_a_manifest_with_classes_of_its_own(standin, here, tmp_path):
    """Poisoned too: ruined images are PNGs among JPEGs."""
    file = manifest_of(standin, tmp_path)
    flags = ["--data", str(file), "--preprocess", "none", "--methods", "plfl", "--threshold", "0"]
    call(*SMALL, *flags, "--plfl-rounds", "1", "--results", "manifest")
    results = here / "manifest" / "plfl"
    rejected = pd.read_csv(results / "rejected.csv")
    assert rejected.path.tolist() == [str(tmp_path / "bad.png")] and rejected.reason.tolist() == ["truncated PNG"]
    table = pd.read_csv(results / "confusion.csv")
    assert table.columns[3:5].tolist() == ["predicted_fit", "predicted_worn"] and set(table.data) == {"knees"}
    assert table.true.tolist() == ["fit", "worn"] * 2
    splits = pd.read_csv(results / "splits.csv")
    assert splits[splits.part == "all"][["fit", "worn"]].to_numpy().sum() == 100
    kept = pd.read_csv(results / "pseudo_labels.csv")
    assert set(kept["class"]) == {"fit", "worn"} and "paper_kept" not in kept
    clients = {"client1", "client2"}
    third = splits[(splits.part == "all") & splits.site.isin(clients)].set_index("site").images
    assert kept.groupby("client").kept.sum().to_dict() == third.to_dict()  # every image: the threshold is 0
    for run in ("plfl-tiny-seed0", "plfl-tiny-seed0-poison1"):
        (row,) = record(results, run).to_dict("records")
        assert row["clients"] == 2, f"{run}: left out {row['left_out']}"


def test_a_manifest_without_subjects_says_so(standin, here, tmp_path, capsys):
    table = oai.read_oai(standin).drop(columns=["subject", "client", "split"])
    table.to_csv(tmp_path / "m.csv", index=False)
    flags = cli.parse(APP, [*SMALL, "--data", str(tmp_path / "m.csv"), "--preprocess", "none"])
    pool = data.load(flags)
    assert capsys.readouterr().err == "" and "no column subject" in " ".join(pool.notes)
    assert pool.table.subject.is_unique
    (tmp_path / "gone.csv").write_text("path,label\nnothing.png,a\n")
    with pytest.raises(UserError, match=r"a file that does not exist: .*nothing\.png"):
        data.load(flags.replaced(data=str(tmp_path / "gone.csv")))
