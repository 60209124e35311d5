"""`python -m tffapps.fedsda` as a user types it: all tables and figures, nothing twice, both engines, mistakes."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

import cv2
import numpy as np
import pandas as pd
import pytest

from models import inception
from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.contract import *  # noqa: F403
from tests.evaluation import made
from tests.faults.killing import killed
from tests.test_commands import environment
from tffapps import cli, study
from tffapps.fedsda import APP, HARMOFL, METHODS, SIDES, SIDES_ON_REQUEST

SMOKE = ["--profile", "smoke"]
PLAIN = [*SMOKE, "--sides", "none", "--methods", "fedavg"]
SCORES = [*made.columns("auroc", "auprc", "accuracy", worst="auroc"), "positive", "rounds"]
WHAT_RAN = ["chosen", "data", "profile", "weights", "model"]
QUALITY = ["ssim", "fid", "kid", "wd", "density_ssim", "grey_ssim", "spread", "features"]
CLAIMS = [
    "claim", "metric", "method", "baseline", "role", "method_score", "method_low", "method_high", "baseline_score",
    "baseline_low", "baseline_high", "gain", "gain_low", "gain_high", "p", "test", *made.COUNTS, "p_holm", "verdict",
]  # fmt: skip
TABLES = {
    "claims": [*CLAIMS, *WHAT_RAN],
    "by_centre": ["method", "side", *made.columns("auroc"), "centre", *WHAT_RAN],
    "data": ["client", "split", "normal", "tumour", "patches", "subjects", "data"],
    "rejected": ["path", "client", "reason"],
    "unmeasured": ["path", "reason"],
    "separation": [
        "client", "patches", "separated", "not_separated", "h_degrees", "e_degrees", "reconstruction_ssim", "method",
        "lambda", "data",
    ],
    "table1_diffusion": [
        "block", "hidden", "heads", "parameters", "clients", "rounds", "epochs", "fd", "worst_client_fd", "wd",
        "fd_raw", "wd_raw", "mmd", "c2st", "fd_between_clients", "fd_between_nearest", "data", "profile",
    ],
    "rounds_vs_epochs": ["local_epochs", "round", "epochs_in_all", "fd", "wd", "data", "profile"],
    "table2_optimisers": ["method", "side", *SCORES, *WHAT_RAN],
    "table3_alignment": ["method", "side", *SCORES, *QUALITY, *WHAT_RAN, "vgg"],
}  # fmt: skip
FIGURES = ("auroc", "frechet", "stains", "tsne", "patches")


@pytest.fixture(scope="module", autouse=True)
def one_inception():
    """Takes seconds to build, and is never trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inception, "build", functools.cache(inception.build))
        yield


def call(*arguments):
    assert cli.main(APP, arguments) == 0


@pytest.fixture(scope="module")
def whole(smoke):
    return smoke


def test_every_table_is_there_and_says_what_ran(whole):
    assert sorted(file.stem for file in whole.glob("*.csv")) == sorted(TABLES)
    for name, columns in TABLES.items():
        table = pd.read_csv(whole / f"{name}.csv")
        assert table.columns.tolist() == columns, name
        if "data" in columns:
            assert len(table) and set(table.data) == {"stand-in"}, name
        if "weights" in columns:
            assert set(table.weights) == {"random, base trained"} and set(table.model) == {"tiny"}


def test_every_method_and_side_was_run(whole):
    second, third = (pd.read_csv(whole / f"{name}.csv") for name in ("table2_optimisers", "table3_alignment"))
    assert set(zip(second.method, second.side)) == {(m, s) for m in METHODS for s in ("none", "fedsda")}
    assert list(zip(third.method, third.side)) == [*(("fedavg", side) for side in SIDES), HARMOFL]
    for name in ("auroc", "auprc", "accuracy"):
        assert second[name].between(0, 1).all()
    rounds, _ = record(whole, "fedfa-fedsda-seed0")
    row = second[(second.method == "fedfa") & (second.side == "fedsda")].iloc[0]
    assert row[["auroc", "auprc", "accuracy"]].tolist() == pytest.approx(
        rounds[["auroc", "auprc", "accuracy"]].iloc[-1].tolist(), abs=1e-5
    )
    assert (third.ssim[third.side == "none"] == 1).all() and (third.ssim[third.side != "none"] < 1).all()
    assert set(third.features) == {"InceptionV3 random, 75 px"}


def test_both_blocks_and_the_other_schedule_were_run(whole):
    first = pd.read_csv(whole / "table1_diffusion.csv")
    assert first.block.tolist() == ["transformer", "token-mlp", "gaussian", "mixture", "transformer"]
    assert set(first.clients) == {2}
    assert np.isfinite(first[["fd", "worst_client_fd", "wd", "fd_raw", "mmd", "c2st"]]).all(axis=None)
    assert first.fd[first.block == "gaussian"].max() < first.fd[first.block == "transformer"].min()
    sweep = pd.read_csv(whole / "rounds_vs_epochs.csv")
    assert sweep[["local_epochs", "round", "epochs_in_all"]].values.tolist() == [[2, 2, 4], [4, 1, 4]]


def test_patches_are_counted(whole):
    counts, separation = (pd.read_csv(whole / f"{name}.csv") for name in ("data", "separation"))
    assert counts.groupby("client").patches.sum().tolist() == [24, 24]
    train = counts[counts.split == "train"]
    assert separation.patches.tolist() == train.patches.tolist()
    assert separation.separated.sum() + len(pd.read_csv(whole / "unmeasured.csv")) == train.patches.sum()
    assert (separation[["h_degrees", "e_degrees"]] < 8).all(axis=None) and (separation.reconstruction_ssim > 0.97).all()


def test_one_side_needs_no_stain_model_and_no_judge_of_pictures(whole, here):
    call(*PLAIN, "--results", "plain")
    results = here / "plain" / "fedsda"
    assert {file.stem for file in results.glob("*.csv")} == {
        "by_centre", "claims", "data", "rejected", "unmeasured", "separation", "table2_optimisers",
    }  # fmt: skip
    assert [file.stem for file in results.glob("*.png")] == ["auroc"]
    assert [folder.name.rpartition("-")[0] for folder in results.glob("runs/*")] == ["fedavg-none-seed0"]
    (rounds, weights), (usual, expected) = (record(folder, "fedavg-none-seed0") for folder in (results, whole))
    assert rounds.equals(usual) and largest_difference(weights, expected) == 0


def test_both_engines_give_the_same_numbers(whole, here):
    """The worker reads files where the other engine holds images."""
    call(*PLAIN, "--engine", "worker", "--results", "worker")
    found, expected = (record(folder, "fedavg-none-seed0") for folder in (here / "worker" / "fedsda", whole))
    assert largest_difference(found[1], expected[1]) < 1e-4
    numbers = ["auroc", "auprc", "accuracy", "training_loss", "examples"]
    assert found[0][numbers].to_numpy() == pytest.approx(expected[0][numbers].to_numpy(), abs=1e-4)


KILLS = {
    "fedsda": [
        ("preprocessing.stain:matrices_of", 1), ("os:replace", 2), ("tffapps.runs:Run.save", 2),
        ("tffapps.data.made:store", 5), ("tffapps.runs:Run.save", 1),
    ],
    "ccst": [("tffapps.runs:Run.save", 1), ("tffapps.data.made:store", 5), ("tffapps.fedsda.tables:write_table", 2)],
}  # fmt: skip
LEARNED = {"fedsda": "stains-transformer-2-epochs", "ccst": "ccst-decoder-federation"}


@pytest.mark.slow
@pytest.mark.parametrize("side", KILLS)
def test_a_command_that_is_killed_at_every_stage_ends_like_one_that_was_not(side, whole, here):
    """Measuring stains, as they are put in their place, in a round of the stain model or of CCST's decoder, making
    images, in a round of the classifier, between tables; then to its end."""
    arguments = [
        *SMOKE, "--methods", "fedavg", "--sides", side, "--blocks", "transformer", "--sweep-epochs", "2",
        "--results", f"killed-{side}",
    ]  # fmt: skip
    shutil.rmtree("data/cache/aligned")
    shutil.rmtree("data/cache/stains")
    for where, number in KILLS[side]:
        killed("fedsda", arguments, here, where, number)
    call(*arguments)
    for run in (LEARNED[side], f"fedavg-{side}-seed0"):
        found, expected = (record(folder, run) for folder in (here / f"killed-{side}" / "fedsda", whole))
        assert found[0].equals(expected[0]) and largest_difference(found[1], expected[1]) == 0


OUT = [
    *SMOKE, "--methods", "fedavg,silobn", "--sides", "none,fedsda,own", "--blocks", "mlp", "--leave-out",
    "--leave-out-sides", "none,fedsda", "--results", "out",
]  # fmt: skip


@pytest.fixture(scope="module")
def out(whole, place):
    """The results of federations that miss a centre each."""
    with working_in(place):
        call(*OUT)
    return place / "out" / "fedsda"


def test_each_centre_is_left_out_in_turn(out):
    table = pd.read_csv(out / "left_out.csv")
    assert table.columns.tolist() == ["left_out", "method", "side", *SCORES, *WHAT_RAN]
    assert set(zip(table.left_out, table.method, table.side)) == {
        (centre, "fedavg", side) for centre in ("centre0", "centre1") for side in ("none", "fedsda")
    }
    assert len(table) == 4 and set(table.data) == {"stand-in"}
    second = pd.read_csv(out / "table2_optimisers.csv")
    # Of the whole federation; silobn's are each centre's own models.
    assert sorted(zip(second.method, second.side)) == [
        (method, side) for method in ("fedavg", "silobn") for side in ("fedsda", "none")
    ]  # fmt: skip
    rounds, _ = record(out, "fedavg-none-seed0-without-centre0")
    assert rounds.clients.tolist() == [1] and rounds.examples.tolist() == [20]
    assert table.auroc.iloc[0] == pytest.approx(rounds.auroc.iloc[-1], abs=1e-5)


def test_the_same_command_again_trains_nothing(out, here, capsys, monkeypatch):
    def content():
        return {file.name: file.read_text() for file in out.glob("*.csv")}

    def times():
        files = [*out.glob("runs/*/[!.]*"), *(here / "data" / "cache").rglob("*.*")]
        return {file: file.stat().st_mtime_ns for file in files}

    built = []
    for name in ("build_round", "build_reestimation"):  # not even traced
        monkeypatch.setattr(study, name, lambda *_: built.append(1))
    before = content(), times()
    # Classifiers: two methods on two sides, one on the third, one on both folds; then stain models and a schedule.
    assert len(list(out.glob("runs/*/rounds.csv"))) == 2 * 2 + 1 + 2 * 2 + 3 + 1
    capsys.readouterr()
    call(*OUT)
    errors = capsys.readouterr().err
    assert "1/1" not in errors and "2/2" not in errors  # no round was played
    assert (content(), times()) == before and not built


MISTAKES = {
    "unknown side": (["--sides", "none,blue"], "--sides blue: choose one of none, fedsda, ccst, amp-norm"),
    "unknown block": (["--blocks", "cnn"], "--blocks cnn: choose one of transformer, token-mlp, mlp"),
    "unknown method": (["--methods", "sgd"], "--methods sgd: unknown; choose from fedavg"),
    "too many clients": (["--min-clients", "3"], "--min-clients 3: there are only 2 clients"),
    "too many when one is left out": (
        ["--min-clients", "2", "--leave-out"], "--min-clients 2: there are only 1 clients",
    ),
    "no such data": (["--data", "nowhere"], "nowhere: no such file or folder"),
    "no such weights": (["--weights", "nothing.h5"], "--weights: nothing.h5: no such file"),
    "no such VGG": (
        ["--ccst-weights", "nothing.h5"], "--ccst-weights: nothing.h5: no such file",
    ),
    "no such Inception": (["--inception", "nothing.h5"], "--inception: nothing.h5: no such file"),
    "nothing to run": (["--methods", "fedprox", "--sides", "ccst"], "nothing to run: --pairs paper"),
    "a share that is all": (["--train-share", "1"], "--train-share 1.0: must be less than 1"),
    "too many centres": (["--standin-centres", "6"], "--standin-centres 6: must be 5 or less"),
    "images too small": (["--size", "4"], "--size 4: must be 8 or more"),
    "a side left out of a fold that there is not": (["--leave-out-sides", "none"], "no centre is left out"),
    "a side that is not there": (
        ["--sides", "none", "--leave-out", "--leave-out-sides", "ccst"], "--leave-out-sides ccst: not one of --sides",
    ),
    "no statistics to keep": (
        ["--methods", "silobn", "--sides", "none", "--norm", "group"], "--methods silobn: the network has no BatchNorm",
    ),
    "an only centre left out": (["--standin-centres", "1", "--leave-out"], "--leave-out: there is only one centre"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, whole, here, capsys):
    arguments, message = MISTAKES[mistake]
    assert cli.main(APP, [*SMOKE, *arguments, "--results", "untouched"]) == 2
    errors = capsys.readouterr().err
    (line,) = (line for line in errors.splitlines() if "error:" in line)
    assert line.startswith("tffapps.fedsda: error: ") and message in line and "Traceback" not in errors
    assert not list((here / "untouched").rglob("rounds.csv"))


def test_a_mistake_as_a_user_sees_it(place):
    done = subprocess.run(
        [sys.executable, "-m", "tffapps.fedsda", "--sides", "blue"],
        cwd=place, env=environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    sides = ", ".join((*SIDES, *SIDES_ON_REQUEST))
    assert done.stderr == f"tffapps.fedsda: error: --sides blue: choose one of {sides}\n"


def test_patches_of_two_sizes_and_formats(whole, here, tmp_path):
    """One client's patches are larger, and some are JPEGs; every side but amp-norm takes them."""
    for file in sorted((here / "data" / "tissue-2x24" / "patches").rglob("*.png")):
        number = int(file.parent.name.split("_")[1])
        row = sum(map(ord, file.name)) % 2
        image = cv2.imread(str(file))
        if number >= 20:
            image = cv2.resize(image, (64, 64), interpolation=cv2.INTER_AREA)
        target = tmp_path / ("large" if number >= 20 else "small") / ("ab"[row])
        target.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(target / f"{file.stem}.{'jpg' if row else 'png'}"), image)
    flags = ["--data", str(tmp_path), "--methods", "fedavg", "--sides", "fedsda", "--blocks", "mlp"]
    call(*SMOKE, *flags, "--results", "sizes")
    table = pd.read_csv(here / "sizes" / "fedsda" / "table2_optimisers.csv")
    assert set(table.data) == {os.path.basename(tmp_path)} and np.isfinite(table.auroc).all()
    rounds, _ = record(here / "sizes" / "fedsda", "fedavg-fedsda-seed0")
    train = pd.read_csv(here / "sizes" / "fedsda" / "data.csv").query("split == 'train'")
    assert rounds.examples.tolist() == [train.patches.sum()] and rounds.clients.tolist() == [2]
