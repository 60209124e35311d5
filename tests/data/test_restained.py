"""Real tissue in known stains: what clients share, what differs, what is known, and what is refused."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest

from preprocessing import stain
from tffapps.data import manifest, restain, tissue, wilds
from tffapps.data.restained import OWN, SCANNER, Restaining, write
from tffapps.errors import UserError

HOW = Restaining(tumour=("adenoma", "cancer"), size=32, per_image=2)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A source of four classes, and two lenders: one with few patches."""
    root = tmp_path_factory.mktemp("real")
    drawn = wilds.read(
        tissue.write_tissue(root / "t", patches=60, centres=3, size=96, progress=False)
    )  # fmt: skip
    names = {"normal": ("mucosa", "polyp"), "tumour": ("adenoma", "cancer")}
    for number, row in enumerate(drawn.itertuples()):
        label = names["tumour" if "tum" in row.label else "normal"][number // 2 % 2]
        place = root / "source" / label if row.client == "centre0" else root / "stains" / row.client / label
        if row.client == "centre2" and number // 4 % 3:
            continue
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(row.path, place / f"{number}.png")
    return root


@pytest.fixture(scope="module")
def made(real):
    table = write(real / "source", real / "stains", real / "out", HOW, real / "cache")
    return table, pd.read_csv(real / "out" / "truth.csv")


def test_clients_share_the_source_and_the_few_are_never_tested(real, made):
    table, truth = made
    manifest.check(table)
    assert set(table.client) == {OWN, "centre1", "centre2", SCANNER} and set(table.label) == {"tumour", "normal"}
    assert set(table.client[table.split == "test"]) == {OWN, "centre1", SCANNER}  # 20 patches lend, and are not tested
    assert table.groupby(["client", "split"]).label.nunique().eq(2).all()
    assert truth.origin.nunique() <= 60 and len(table) == len(truth) > 100
    assert truth.groupby("origin").client.nunique().max() == 1  # an image is one client's
    tumour = truth.origin.str.startswith(("adenoma", "cancer")).to_numpy()
    assert (tumour == (table.label == "tumour").to_numpy()).all()
    own = truth[truth.client == OWN]
    assert np.allclose(own[["h_gain", "e_gain", "red", "density"]], 1, atol=1e-4)
    scanner = truth[truth.client == SCANNER].iloc[0]
    assert tuple(scanner[["red", "green", "blue", "density"]]) == pytest.approx((*HOW.brightness, HOW.density))


def test_a_second_call_changes_nothing_and_another_is_refused(real, made):
    before = {file: file.stat().st_mtime_ns for file in (real / "out").rglob("*")}
    again = write(real / "source", real / "stains", real / "out", HOW, real / "cache")
    assert again.equals(made[0]) and before == {file: file.stat().st_mtime_ns for file in (real / "out").rglob("*")}
    with pytest.raises(UserError, match="other settings"):
        write(real / "source", real / "stains", real / "out", dataclasses.replace(HOW, seed=1), real / "cache")
    other = write(real / "source", real / "stains", real / "same", HOW, real / "cache")
    for one, two in zip(made[0].path, other.path):
        assert Path(one).read_bytes() == Path(two).read_bytes()


def test_a_patch_has_the_stains_that_the_truth_says(real, made):
    table, truth = made
    images = np.stack([cv2.imread(path)[..., ::-1] for path in table.path])
    found = stain.separate(images, HOW.separation)
    rows = np.flatnonzero(found.ok & (table.client != SCANNER).to_numpy())
    given = truth.iloc[rows, 3:9].to_numpy().reshape(-1, 2, 3).transpose(0, 2, 1)
    cosines = (found.matrices[rows] * given).sum(axis=1)
    assert np.degrees(np.arccos(np.clip(np.median(cosines, axis=0), -1, 1))).max() < 6
    dark = {client: images[(table.client == client).to_numpy()].mean() for client in (OWN, SCANNER)}
    assert dark[SCANNER] < dark[OWN] - 10


def test_what_is_refused(real, tmp_path, capsys):
    good = ["--stains", str(real / "stains"), "--tumour", "adenoma,cancer", "--size", "32"]
    places = [str(real / "source"), str(tmp_path / "o")]
    for flags, said in (
        ([*good, "--tumour", "sarcoma"], "sarcoma"),
        ([*good, "--tumour", "adenoma,cancer,mucosa,polyp"], "every class"),
        ([*good, "--stains", str(tmp_path / "none")], "no such folder"),
        ([*good, "--brightness", "1,1"], "three numbers"),
        ([*good, "--test-share", "1"], "between 0 and 1"),
        ([*good, "--size", "128"], "no image"),
    ):
        assert restain.main([*places, *flags]) == 2
        line = capsys.readouterr().err.strip().splitlines()[-1]
        assert said in line
    assert not (tmp_path / "o").exists() and not list(tmp_path.glob(".o*"))
