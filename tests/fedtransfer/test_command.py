"""`python -m tffapps.fedtransfer` as a user types it: all tables and figures, nothing twice, own images, mistakes."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib

import cv2
import numpy as np
import pandas as pd
import pytest

from models import unet, weights
from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.contract import *  # noqa: F403
from tests.evaluation import made
from tests.faults.disk import attempt, small_disk
from tests.faults.killing import killed
from tffapps import cli, fedtransfer
from tffapps.data import grains
from tffapps.fedtransfer import APP, METHODS, GeneratorSettings
from tffapps.settings import settings_of

SMOKE = ["--profile", "smoke"]
METRICS = [f"{name}{suffix}" for name in fedtransfer.METRICS for suffix in made.SUFFIXES]
SCORES = ["method", "site", "precision", "test", *METRICS, *made.COUNTS, "round", "folds"]
WHAT_RAN = ["data", "profile", "weights", "model"]
TABLES = {
    "data": ["client", "train", "val", "test", "boundary", "boundary_share", "data", "profile"],
    "claims": None,
    "table2_separate_centralised": [*SCORES, *WHAT_RAN],
    "table3_federated": [*SCORES, *WHAT_RAN],
    "generator_precision": [
        "precision", "bytes", "ratio", "pixel_difference", *METRICS[:4], "map_change", *METRICS[4:], *made.COUNTS,
        *WHAT_RAN,
    ],
    "bytes": [
        "method", "precision", "rounds", "images_up", "generators_up", "generators_down", "weights_up", "weights_down",
        "total", *WHAT_RAN,
    ],
    "look": ["images", "look", "count", "share", "share_std", "seeds", *WHAT_RAN],
}  # fmt: skip
FIGURES = ("scores", "validation_loss", "looks", "segmentations")


def call(*arguments):
    assert cli.main(APP, arguments) == 0


@pytest.fixture(scope="module")
def whole(smoke):
    return smoke


def test_every_table_is_there_and_says_what_ran(whole):
    assert sorted(file.stem for file in whole.glob("*.csv")) == sorted(TABLES)
    for name, columns in TABLES.items():
        table = pd.read_csv(whole / f"{name}.csv")
        assert columns is None or table.columns.tolist() == columns, name
        assert len(table) and set(table.data) == {"stand-in"} and set(table.profile) == {"smoke"}, name


def test_every_method_was_run_and_tested_on_every_set(whole):
    second, third = (pd.read_csv(whole / f"{name}.csv") for name in list(TABLES)[2:4])
    for table in (second, third):
        assert list(table.method[-6:]) == ["empty"] * 3 + ["watershed"] * 3 and table["round"][-6:].isna().all()
        assert table.site[-6:].isna().all() and table.grown_map.notna().all()
    second, third = second[:-6], third[:-6]
    assert {*second.method, *third.method} == set(METHODS)
    assert list(second.site[::3]) == ["austenite", "iron", "all data"] and set(third.site) == {"federation"}
    assert list(second.test) == ["austenite", "iron", "global"] * 3
    assert third.precision.fillna("").tolist() == [""] * 3 + ["float32"] * 3 + [""] * 3
    claims = pd.read_csv(whole / "claims.csv")
    assert claims.baseline.str.partition(":")[0].tolist() == [
        "fedavg", "repeated", "best client alone", "repeated", "watershed", "watershed",
    ]  # fmt: skip
    ours = third[(third.method == "fedtransfer") & (third.test == "global")].iloc[0]
    assert claims.method_score[:5].tolist() == pytest.approx([ours["map"]] * 3 + [ours["grown_map"]] * 2)


def test_a_round_is_chosen_by_its_validation_loss_and_clients_count_painted_images(whole):
    rounds, _ = record(whole, "fedtransfer-float32-seed0")
    assert rounds.examples.tolist() == [32, 32]  # 8 real and 8 painted tiles of each of 2
    means = rounds[["validation_loss_austenite", "validation_loss_iron"]].mean(axis=1)
    assert rounds.validation_loss.tolist() == pytest.approx(means.tolist())
    third = pd.read_csv(whole / "table3_federated.csv")
    chosen = int(rounds.loc[rounds.validation_loss.idxmin(), "round"])
    assert set(third["round"][third.method == "fedtransfer"]) == {chosen}
    (folder,) = whole.glob("runs/fedtransfer-float32-seed0-*")
    assert (folder / f"kept-{chosen}-best.npz").exists()
    alone, _ = record(whole, "separate-iron-seed0")
    assert "validation_loss_austenite" not in alone and alone.examples.tolist() == [8, 8]
    assert record(whole, "repeated-seed0")[0].examples.tolist() == [32, 32]


def test_bytes_by_hand(whole):
    table = pd.read_csv(whole / "bytes.csv").fillna({"precision": ""}).set_index(["method", "precision"])
    rounds, _ = record(whole, "fedavg-seed0")
    size = 4 * unet.build(input_shape=(64, 64, 1), width=4, depth=2).count_params()
    assert table.loc[("fedavg", ""), "weights_down"] == rounds.bytes_down.sum() == 2 * 2 * size
    assert table.loc[("separate", ""), "total"] == 0 and table.loc[("centralised", ""), "weights_up"] == 0
    assert table.loc[("centralised", ""), "images_up"] > 0
    sent = table.loc[("fedtransfer", "int8")]
    assert sent.generators_up == sent.generators_down > 0  # two clients: each receives what the other sent
    assert sent.total == sent.generators_up + sent.generators_down + sent.weights_up + sent.weights_down
    precision = pd.read_csv(whole / "generator_precision.csv").set_index("precision")
    assert precision.loc["int8", "ratio"] == pytest.approx(
        sent.generators_up / table.loc[("fedtransfer", "float32"), "generators_up"], rel=1e-4
    )
    assert precision.loc["float32", "pixel_difference"] == 0 < precision.loc["int8", "pixel_difference"]


KILLS = {
    "tffapps.data.cache:store": 5,
    "preprocessing.pix2pix_folder:write": 3,
    "preprocessing.generator_files:save": 1,
    "tffapps.data.made:store": 3,
    "tffapps.runs:Run.save": 2,
    "tffapps.fedtransfer.tables:write_table": 2,
}


@pytest.mark.slow
def test_a_command_that_is_killed_at_every_stage_ends_like_one_that_was_not(whole, tmp_path):
    """Cutting tiles, in and after the training of a generator, painting, in a round, between tables; then on."""
    arguments = [*SMOKE, "--methods", "fedtransfer", "--generator-precision", "float32"]
    for where, number in KILLS.items():
        killed("fedtransfer", arguments, tmp_path, where, number)
    with working_in(tmp_path):
        call(*arguments)
    results = tmp_path / "results" / "fedtransfer"
    found, expected = (record(folder, "fedtransfer-float32-seed0") for folder in (results, whole))
    assert found[0].equals(expected[0]) and largest_difference(found[1], expected[1]) == 0
    tables = [pd.read_csv(folder / "table3_federated.csv") for folder in (results, whole)]
    assert tables[0][METRICS].equals(tables[1][tables[1].method == "fedtransfer"][METRICS].reset_index(drop=True))
    assert not list(tmp_path.rglob("results/**/*.tmp"))


SIZES = (8, 400, 1500, 2400, 6000)  # kB


@pytest.mark.slow
def test_a_disk_that_is_full_at_one_stage_after_another(whole, tmp_path, capsys):
    """Drawing the stand-in, training generators, in a round."""
    arguments = [*SMOKE, "--methods", "fedtransfer", "--generator-precision", "float32"]
    folder, said = tmp_path / "disk", []
    with small_disk(folder) as resize, working_in(folder):
        for size in SIZES:
            resize(size)
            said.append(attempt(APP, arguments, capsys))
        found, expected = (
            record(place, "fedtransfer-float32-seed0") for place in (folder / "results" / "fedtransfer", whole)
        )
    assert said[0] and not said[-1]
    assert "generators" in said[1] + said[2] and "checkpoint-1.npz" in said[3]
    assert found[0].equals(expected[0]) and largest_difference(found[1], expected[1]) == 0


def test_a_flag_is_in_the_keys_of_the_runs_that_depend_on_it(whole):
    def settings(run):
        (file,) = whole.glob(f"runs/{run}-seed0-*/settings.json")
        return json.loads(file.read_text())["key"]["settings"]

    generators = set(settings("fedtransfer-int8")["GeneratorSettings"])
    assert generators == {field.name for field in dataclasses.fields(GeneratorSettings)}
    assert "GeneratorSettings" not in settings("fedavg") and settings("fedavg")["TileSettings"] == {"channels": 1}
    assert "TogetherSettings" in settings("fedavg") and "SeparateSettings" not in settings("fedavg")
    assert "SeparateSettings" in settings("separate-iron") and "TogetherSettings" not in settings("separate-iron")
    known = {}
    for file in whole.glob("runs/*/settings.json"):
        for kind, values in json.loads(file.read_text())["key"]["settings"].items():
            known.setdefault(kind, set()).update(values)
    for kind in APP.settings:
        assert {each.name for each in settings_of(kind) if each.in_key and not each.in_key_when_changed} <= known.get(
            kind.__name__, set()
        ), kind


@pytest.mark.slow
def test_hd_generators_and_colour(whole, here, tmp_path):
    call(
        *SMOKE, "--generator", "hd", "--generator-width", "2", "--generator-epochs", "1", "--channels", "3",
        "--rounds", "1", "--methods", "fedtransfer", "--generator-precision", "float16", "--results", str(tmp_path),
    )  # fmt: skip
    assert set(pd.read_csv(tmp_path / "fedtransfer" / "table3_federated.csv").precision.dropna()) == {"float16"}
    assert pd.read_csv(tmp_path / "fedtransfer" / "generator_precision.csv").ratio.isna().all()


def test_weights_of_a_file_and_folds(whole, here, tmp_path):
    model = unet.build(input_shape=(64, 64, 1), width=4, depth=2, seed=9)
    weights.save_npz(model, tmp_path / "unet.npz")
    call(
        *SMOKE, "--methods", "fedavg", "--rounds", "1", "--folds", "2", "--weights", str(tmp_path / "unet.npz"),
        "--results", str(tmp_path),
    )  # fmt: skip
    table = pd.read_csv(tmp_path / "fedtransfer" / "table3_federated.csv")
    assert set(table.weights) == {"file:unet.npz"} and set(table.folds) == {2} and table.ari_std.notna().all()
    first, second = (record(tmp_path / "fedtransfer", f"fedavg-fold{fold}-seed0")[0] for fold in (0, 1))
    assert first.validation_loss.iloc[0] != second.validation_loss.iloc[0]
    claim = pd.read_csv(tmp_path / "fedtransfer" / "claims.csv").iloc[0]
    assert claim.baseline == "watershed" and claim.seeds == "0 1"  # both folds, which are tested with the same tiles


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--generator-precision", "int4"], "--generator-precision int4: choose one of float32, float16, int8"),
        (["--generator", "cyclegan"], "invalid choice: 'cyclegan'"),
        (["--folds", "0"], "--folds 0: must be 1 or more"),
        (["--folds", "9"], "too few for 9 folds; lower --folds"),
        (["--tile", "65"], "smaller than a tile; choose --tile 64 or less"),
        (["--weights", "imagenet"], "--weights: a U-Net has no ImageNet weights"),
        (["--weights", "nothing.npz"], "--weights"),
        (["--min-clients", "3"], "--min-clients 3: there are only 2 clients"),
        (["--methods", "fedprox"], "--methods fedprox: unknown; choose from separate"),
        (["--data", "missing"], "missing: no such folder"),
        (["--erasing", "1.5"], "--erasing 1.5: must be 1 or less"),
    ],
)
def test_a_mistake_is_one_line(arguments, complaint, whole, here, capsys):
    try:
        status = cli.main(APP, [*SMOKE, "--results", "mistakes", *arguments])
    except SystemExit as stopped:  # argparse
        status = stopped.code
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert status == 2 and complaint in last and "Traceback" not in last
    assert not list(pathlib.Path("mistakes").glob("fedtransfer/*.csv"))


def third_value(folder):
    label = np.full((64, 64), 255, np.uint8)
    label[30], label[:10] = 0, 128
    cv2.imwrite(str(folder / "austenite/labels/m000_0.png"), label)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda folder: (folder / "iron/labels/m001_0.png").unlink(), "1 of 12 images without label of the same name"),
        (third_value, "austenite/labels/m000_0.png: a third value, 128"),
        (
            lambda folder: cv2.imwrite(str(folder / "iron/images/m001_0.png"), np.zeros((70, 64), np.uint8)),
            "64 × 70 pixels, but its label",
        ),
        (lambda folder: (folder / "iron/images/m001_0.png").write_bytes(b"no image"), "iron/images/m001_0.png"),
    ],
)
def test_files_that_will_not_do_are_named(tmp_path, here, capsys, spoil, complaint):
    folder = grains.write_grains(tmp_path / "own", images=12, size=64, progress=False)
    spoil(folder)
    assert cli.main(APP, [*SMOKE, "--data", str(folder), "--results", str(tmp_path / "out")]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert complaint in last and "Traceback" not in last and not (tmp_path / "out").exists()


@pytest.mark.skipif("TFFAPPS_REAL_DATA" not in os.environ, reason="no real data here")
def test_real_micrographs(tmp_path, here):
    data = pathlib.Path(os.environ["TFFAPPS_REAL_DATA"]) / "micrographs"
    call(
        *SMOKE, "--data", str(data), "--tile", "0", "--size", "32", "--tiles", "40", "--methods", "fedavg",
        "--rounds", "1",
        "--results", str(tmp_path / "real"),
    )  # fmt: skip
    table = pd.read_csv(tmp_path / "real" / "fedtransfer" / "table3_federated.csv")
    assert set(table.data) == {"micrographs"} and set(table.test) == {"steel316L", "texture", "global"}
