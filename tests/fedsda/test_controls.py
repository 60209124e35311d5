"""The rivals and controls of FedSDA: what each of them changes, what it leaves, and a run without classes."""

from __future__ import annotations

import cv2
import numpy as np
import pandas as pd
import pytest

from preprocessing import stain_augment
from preprocessing.stain import StainSettings
from tests.fedsda.test_alignments import KnownStains, apart, at_home, flags_of, kept, stack
from tffapps import cli
from tffapps.data import tissue, wilds
from tffapps.engine import open_engine
from tffapps.evaluation.image_quality import ssim
from tffapps.fedsda import APP, SIDES_ON_REQUEST
from tffapps.fedsda.alignments import StainAlignment, in_views, numbers_of
from tffapps.fedsda.controls import ControlAlignment, in_order
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.quality import density_ssim, grey_ssim

SETTINGS = StainSettings(lambda_matrix=0.02)
CONTROLS = [side for side in SIDES_ON_REQUEST if side not in ("own", "gaussian", "gaussian-dp")]
NORMALISED = ("reinhard", "macenko", "vahadane")


@pytest.fixture(scope="module")
def fold(tmp_path_factory):
    root = tissue.write_tissue(tmp_path_factory.mktemp("t") / "t", patches=24, centres=3, size=48, progress=False)
    table = wilds.read(root)
    return Fold(FEDERATION, table[table.split == "train"], table[table.split == "test"])


@pytest.fixture(scope="module")
def sides(fold, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, open_engine("in-process"):
        patch.chdir(tmp_path_factory.mktemp("made"))
        flags = flags_of("--stain-lambda", "0.02", "--views", "2")
        return {side: ControlAlignment(side, flags).of(fold, 0) for side in CONTROLS}


@pytest.mark.parametrize("side", CONTROLS)
def test_a_side_makes_images_of_the_same_tissue(side, fold, sides):
    made = sides[side]
    views = 1 if side in NORMALISED else 2
    assert len(made.train) == views * len(fold.train) and (~kept(made)).mean() > 0.8
    assert made.train.label.tolist() == fold.train.label.tolist() * views
    changed = made.train[~kept(made)]
    assert ssim(stack(changed.source), stack(changed.path)).mean() > 0.6
    assert (made.test is fold.test) == (side not in NORMALISED) == made.usable  # none can be told to a bundle
    assert views == 1 or made.train.path[: len(fold.train)].tolist() != made.train.path[len(fold.train) :].tolist()


def test_what_comes_of_the_clients_colours(fold, sides):
    before = apart(fold.train)
    for side in ("fedsda+", *NORMALISED):
        assert apart(sides[side].train) < 0.6 * before
    assert apart(sides["hed-jitter"].train) > 0.6 * before  # jitter brings nobody together
    changed = sides["fedsda+"].train[~kept(sides["fedsda+"])]
    assert np.mean(density_ssim(stack(changed.source), stack(changed.path), SETTINGS)) > 0.9


def test_a_patch_restyled_by_its_own_look_stays(fold):
    images = stack(fold.train.path[:8])
    looks, ok = stain_augment.looks(images, SETTINGS)
    again = stain_augment.restyled(images, looks.tolist(), SETTINGS)
    assert [picture is not None for picture in again] == ok.tolist() and ok.sum() >= 6
    assert ssim(images[ok], np.stack([picture for picture in again if picture is not None])).min() > 0.97
    moments = stain_augment.lab_moments(images)
    assert np.abs(stain_augment.reinhard(images, moments.tolist()).astype(int) - images).max() <= 3
    still = np.tile([1, 1, 1, 0, 0, 0], (8, 1))
    assert np.abs(stain_augment.hed_jitter(images, still.tolist()).astype(int) - images).max() <= 1


def test_grey_levels_are_told_apart_from_colours(fold):
    images = stack(fold.train.path[:4])
    assert grey_ssim(images, np.clip(images * 0.8 + 20, 0, 255).astype(np.uint8)) == pytest.approx([1] * 4, abs=0.02)
    assert max(grey_ssim(images, images[::-1])) < 0.5


def test_the_strongest_get_the_strongest():
    drawn, rows = np.zeros((5, 8)), np.array([4, 0, 2])
    drawn[rows, 6:] = [[3.0, 0.3], [1.0, 0.1], [2.0, 0.2]]
    own = np.zeros((3, 8))
    own[:, 6:] = [[5, 9], [7, 8], [6, 7]]
    in_order(drawn, rows, own)
    assert drawn[rows, 6].tolist() == [1, 3, 2] and drawn[rows, 7].tolist() == [0.3, 0.2, 0.1]
    assert not drawn[[1, 3]].any() and not drawn[:, :6].any()


def test_a_stain_is_made_twice_as_strong_at_most(fold):
    images = stack(fold.train.path[:4])
    looks, ok = stain_augment.looks(images, SETTINGS)
    wanted = looks.copy()
    wanted[:, 6:] *= 50
    again = stain_augment.restyled(images[ok], wanted[ok].tolist(), SETTINGS)
    wanted[:, 6:] = stain_augment.STRONGER * looks[:, 6:]
    assert np.array_equal(again, stain_augment.restyled(images[ok], wanted[ok].tolist(), SETTINGS))
    assert np.mean(density_ssim(images[ok], np.stack(again), SETTINGS)) > 0.95


def test_own_draws_from_a_patches_own_client(fold, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = KnownStains()
    aligned = StainAlignment(flags_of("--views", "2"), at_home(), model, own=True).of(fold, 0)
    assert all(np.array_equal(numbers, numbers_of(fold)) for numbers in model.numbers) and len(model.numbers) == 2
    assert in_views(aligned, fold, 2) is aligned and len(aligned.train) == 2 * len(fold.train)


def test_quality_alone_needs_no_classes(fold, tmp_path, monkeypatch):
    """As MITOS-ATYPIA-14's frames have none."""
    monkeypatch.chdir(tmp_path)
    for row in fold.train[fold.train.client != "centre2"].itertuples():
        file = tmp_path / "frames" / row.client / "tissue" / row.path.rpartition("/")[2]
        file.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(file), cv2.imread(row.path))
    flags = ["--profile", "smoke", "--data", "frames", "--quality-only", "--sides", "none,reinhard", "--results", "r"]
    assert cli.main(APP, flags) == 0
    (file,) = tmp_path.rglob("table3_alignment.csv")
    table = pd.read_csv(file).set_index("side")
    assert table.ssim["none"] == 1 and table.wd["reinhard"] < table.wd["none"] and "auroc" not in table
    assert not list(tmp_path.rglob("rounds.csv"))
    assert cli.main(APP, [flag for flag in flags if flag != "--quality-only"]) == 2
