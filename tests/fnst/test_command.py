"""`python -m tffapps.fnst` as every system is, and what is its own: tables, kills, sites of one's own, mistakes."""

from __future__ import annotations

import json
import os
import pathlib

import cv2
import numpy as np
import pandas as pd
import pytest

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.contract import *  # noqa: F403
from tests.evaluation import made
from tests.faults.killing import killed
from tffapps import cli
from tffapps.fnst import APP, PLAYED

SMOKE = ["--profile", "smoke"]
SCORES = made.columns("accuracy", "macro_f1", "auroc", worst="macro_f1")
WHAT_RAN = ["chosen", "data", "profile", "weights", "model", "vgg"]
TABLES = {
    "claims": None,
    "data": ["client", "split", "normal", "serrated", "adenoma", "adenocarcinoma", "images", "data", "profile"],
    "rejected": ["path", "client", "reason"],
    "table1_centralised": ["method", "site", *SCORES, *WHAT_RAN],
    "table2_single_and_federated": ["method", "site", "rare", *SCORES, *WHAT_RAN],
    "table3_fnst": ["method", "rare", "augmentation", "made", *SCORES, *WHAT_RAN],
    "table4_gains": None,
    "f1_per_class": None,
    "exchange": ["method", "augmentation", "seed", "sender", "receiver", "label", "styles", "bytes", *WHAT_RAN],
    "gram_attack": None,
}
FIGURES = ("classes", "macro_f1", "f1_per_class", "styled", "gram_attack")


def call(*arguments):
    assert cli.main(APP, arguments) == 0


def test_every_table_is_there_and_says_what_ran(smoke):
    assert sorted(file.stem for file in smoke.glob("*.csv")) == sorted(TABLES)
    for name, columns in TABLES.items():
        table = pd.read_csv(smoke / f"{name}.csv")
        if columns:
            assert table.columns.tolist() == columns, name
        if name != "rejected":
            assert len(table) and set(table.data) == {"stand-in"} and set(table.profile) == {"smoke"}, name
        if "vgg" in table:
            assert set(table.vgg) == {"random, width 4"}


def test_every_method_was_run(smoke):
    tables = [pd.read_csv(smoke / f"{name}.csv") for name in list(TABLES)[3:6]]
    assert {method for table in tables for method in table.method} == set(PLAYED)
    second, third = tables[1:]
    assert set(second.site) == {"client1", "client2", "client3", "client4", "federation"} and set(second.rare) == {2}
    assert set(third.augmentation) == {"S2C2"} and set(third.made) == {4 * 3 * 4}
    rounds, _ = record(smoke, "fnst-S2C2-seed0")
    last = third[third.method == "fnst"].iloc[0]
    assert last.macro_f1 == pytest.approx(rounds.macro_f1.iloc[-1], abs=1e-5)
    claims = pd.read_csv(smoke / "claims.csv")
    assert claims.method_score.tolist() == pytest.approx([last.macro_f1] * 2) and set(claims.images) == {last.images}
    assert rounds.examples.tolist() == [4 * 16 + 48] * 2  # every training image and every one made, once an epoch


def test_every_figure_is_drawn(smoke):
    assert sorted(file.stem for file in smoke.glob("*.png")) == sorted(FIGURES)


def test_a_run_depends_on_the_settings_of_its_own_method(smoke):
    """A flag of style transfer makes fnst new, and nothing else; the attack and the stand-in's size, none."""
    common = {"FnstSettings", "FedAvg", "Aggregation"}
    styles = {"GramSettings", "TransferSettings"}
    expected = {
        "separate": common | {"AloneSettings"}, "centralised": common | {"AloneSettings"},
        "fedavg": common | {"FederationSettings"}, "repeated": common | {"FederationSettings"},
        "fnst": common | {"FederationSettings"} | styles,
    }  # fmt: skip
    keys = [json.loads(file.read_text())["key"] for file in smoke.glob("runs/*/settings.json")]
    assert len(keys) == 8
    for key in keys:
        assert set(key["settings"]) == expected[key["labels"]["method"]]
        assert set(key["data"]) == ({"images", "made", "vgg"} if key["labels"]["method"] == "fnst" else {"images"})


KILLS = {
    "tffapps.data.standin:cv2.imencode": 9,
    "preprocessing.gram_files:save": 3,
    "tffapps.data.made:store": 17,
    "tffapps.runs:Run.save": 2,
    "tffapps.fnst.tables:write_table": 2,
}


@pytest.mark.slow
def test_a_command_that_is_killed_at_every_stage_ends_like_one_that_was_not(smoke, tmp_path):
    """Drawing the stand-in, measuring styles, making images, in a round, between tables; then to its end."""
    arguments = [*SMOKE, "--methods", "fnst", "--no-attack"]
    for where, number in KILLS.items():
        killed("fnst", arguments, tmp_path, where, number)
    with working_in(tmp_path):
        call(*arguments)
    results = tmp_path / "results" / "fnst"
    found, expected = (record(folder, "fnst-S2C2-seed0") for folder in (results, smoke))
    assert found[0].equals(expected[0]) and largest_difference(found[1], expected[1]) == 0
    tables = [pd.read_csv(folder / "table3_fnst.csv") for folder in (results, smoke)]
    assert tables[0].equals(tables[1][tables[1].method == "fnst"].reset_index(drop=True))
    assert not list(tmp_path.rglob("results/**/*.tmp"))


def write(folder: pathlib.Path, clients: dict[str, dict[str, int]]) -> pathlib.Path:
    """A manifest of noise, two test images of each class."""
    rng = np.random.default_rng(0)
    rows = []
    for client, counts in clients.items():
        for label, count in counts.items():
            for number in range(count + 2):
                path = folder / f"{client}-{label}-{number}.png"
                cv2.imwrite(str(path), rng.integers(0, 256, (32, 32, 3), np.uint8))
                rows.append((path.name, label, client, "train" if number < count else "test"))
    pd.DataFrame(rows, columns=["path", "label", "client", "split"]).to_csv(folder / "sites.csv", index=False)
    return folder / "sites.csv"


def test_sites_of_ones_own_keep_their_clients(tmp_path, here):
    file = write(tmp_path, {"north": {"good": 6, "bad": 2}, "south": {"good": 2, "bad": 5}})
    call(
        *SMOKE,
        "--data",
        str(file),
        "--results",
        str(tmp_path / "own"),
        "--methods",
        "separate,fedavg,fnst",
        "--no-attack",
    )
    results = tmp_path / "own" / "fnst"
    second, third = (pd.read_csv(results / f"{name}.csv") for name in list(TABLES)[4:6])
    assert set(second.site) == {"north", "south", "federation"} and second.rare.isna().all()
    assert set(third.made) == {2 * 4} and set(third.data) == {"sites"}
    gains = pd.read_csv(results / "table4_gains.csv")
    assert gains.gain.notna().all() and gains.baseline.str.startswith("best client alone").sum() == 3
    for table in (second, third, gains):  # the paper's values are of its own images
        assert not [name for name in table.columns if name.startswith("paper_")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--augmentations", "five"], "--augmentations five: write styles and contents as S5C20"),
        (["--augmentations", "S2C3"], "--augmentations S2C3: contents are all rare images of a class: add 3 to --rare"),
        (["--rare", "7", "--augmentations", "S2C7"], "too few to give 7 to each of 3 clients"),
        (["--rare", "0"], "--rare 0: must be 1 or more"),
        (["--vgg-weights", "nothing.h5"], "--vgg-weights"),
        (["--vgg-weights", "imagenet"], "those weights are for width 64, this network has 4"),
        (["--min-clients", "5"], "--min-clients 5: there are only 4 clients"),
        (["--style-images", "best"], "invalid choice: 'best'"),
    ],
)
def test_a_mistake_of_its_own_is_one_line(arguments, complaint, smoke, here, capsys):
    try:
        status = cli.main(APP, [*SMOKE, "--results", "mistakes", *arguments])
    except SystemExit as stopped:  # argparse
        status = stopped.code
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert status == 2 and complaint in last and "Traceback" not in last
    assert not list(pathlib.Path("mistakes").glob("fnst/table*"))


def test_one_client_has_nobody_to_learn_from(tmp_path, here, capsys):
    file = write(tmp_path, {"only": {"good": 6, "bad": 2}})
    assert cli.main(APP, [*SMOKE, "--data", str(file), "--results", str(tmp_path / "own")]) == 2
    assert "only one client; styles travel between sites" in capsys.readouterr().err


@pytest.mark.skipif("TFFAPPS_REAL_DATA" not in os.environ, reason="no real data here")
def test_real_patches(tmp_path, here):
    data = pathlib.Path(os.environ["TFFAPPS_REAL_DATA"]) / "colon"
    call(
        *SMOKE, "--data", str(data), "--rare", "1", "--augmentations", "S1C1", "--style-steps", "2",
        "--methods", "fnst", "--rounds", "1", "--no-attack", "--results", str(tmp_path / "real"),
    )  # fmt: skip
    table = pd.read_csv(tmp_path / "real" / "fnst" / "table3_fnst.csv")
    assert set(table.data) == {"colon"} and table.auroc.between(0, 1).all() and set(table.made) == {12}
