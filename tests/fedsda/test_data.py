"""Where patches come from: four layouts, what is refused, and what the federations train and are tested on."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil

import numpy as np
import pandas as pd
import pytest

from tffapps import Split, cli
from tffapps.data import standin, tissue, wilds
from tffapps.errors import UserError
from tffapps.fedsda import APP
from tffapps.fedsda.data import FEDERATION, folds, load

CENTRES = ["centre0", "centre1", "centre2"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A stand-in of three centres."""
    root = tmp_path_factory.mktemp("drawn") / "t"
    return tissue.write_tissue(root, patches=20, centres=3, size=32, progress=False)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parsed(source="", *flags):
    return cli.parse(APP, ["--profile", "smoke", "--data", str(source), *flags])


def loaded(source="", *flags):
    return load(parsed(source, *flags))


def folds_of(pool, *flags):
    return folds(Split("", pool), parsed("", *flags))


def wilds_folder(drawn, target):
    """A copy that does not say that it was drawn."""
    shutil.copytree(drawn, target)
    for name in (standin.MARKER, tissue.STAINS):
        (target / name).unlink()
    return target


def class_folders(drawn, target, classes=wilds.LABELS):
    """<client>/<class>/*.png"""
    for row in wilds.read(drawn).itertuples():
        if row.label in classes:
            folder = target / row.client / row.label
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(row.path, folder / os.path.basename(row.path))
    return target


def manifest(drawn, target, **columns):
    table = wilds.read(drawn).assign(**columns)
    target.parent.mkdir(exist_ok=True)
    table.drop(columns=[name for name in ("split", "subject") if name not in columns]).to_csv(target, index=False)
    return target


def shares(table):
    """How much of each client is for training."""
    return (table.split == "train").groupby(table.client).mean()


def test_without_data_a_standin_is_drawn(here):
    pool = loaded("", "--standin-centres", "3")
    assert pool.name == "stand-in" and pool.classes == ["normal", "tumour"]
    assert sorted(set(pool.table.client)) == CENTRES and len(pool.table) == 3 * 24
    known = tissue.as_matrices(pool.truth.loc[pool.table.path])
    assert known.shape == (72, 3, 2) and np.isnan(known).any(axis=(1, 2)).sum() == 3  # a blank one in each centre
    assert (here / "data" / "tissue-3x24").is_dir()
    assert len(pool.rejected) == 0 and pool.rejected.columns.tolist() == ["path", "client", "reason"]
    assert loaded("", "--standin-centres", "3").key == pool.key


def test_a_wilds_folder(drawn, here):
    pool = loaded(wilds_folder(drawn, here / "camelyon"))
    assert pool.name == "camelyon" and pool.truth is None and pool.classes == ["normal", "tumour"]
    assert shares(pool.table).to_dict() == {client: 0.8 for client in CENTRES}
    assert np.array_equal(pool.codes(pool.table) == 1, pool.table.label == "tumour")


def test_folders_of_clients_and_classes(drawn, here):
    pool = loaded(class_folders(drawn, here / "aggc"))
    assert pool.name == "aggc" and pool.classes == ["normal", "tumour"] and pool.truth is None
    assert shares(pool.table).between(0.5, 0.7).all() and sorted(set(pool.table.client)) == CENTRES
    assert len(pool.table) == 60 and set(pool.table.split) == {"train", "test"}


def test_the_share_to_train_on_can_be_chosen(drawn, here):
    usual, half = loaded(drawn), loaded(drawn, "--train-share", "0.5")
    assert shares(half.table).between(0.4, 0.6).all() and half.key != usual.key


def test_a_manifest_without_a_test_split(drawn, here, capsys):
    pool = loaded(manifest(drawn, here / "mine.csv"))
    assert [note[:16] for note in pool.notes] == ["no test split in"] and capsys.readouterr().err == ""
    assert pool.name == "mine" and pool.truth is None and len(pool.table) == 60
    assert shares(pool.table).to_dict() == {client: 0.8 for client in CENTRES}


def test_a_manifest_with_subjects_keeps_them_whole(drawn, here):
    subject = wilds.read(drawn).subject
    pool = loaded(manifest(drawn, here / "mine.csv", subject=subject))
    assert (pool.table.groupby("subject")["split"].nunique() == 1).all()


def test_a_manifests_own_split_is_kept(drawn, here):
    split = np.array(["test", "train", "train"])[np.arange(60) % 3]
    pool = loaded(manifest(drawn, here / "mine.csv", split=split))
    assert pool.table.split.tolist() == split.tolist()


def test_a_patch_that_cannot_be_read_is_left_out_and_listed(drawn, here, capsys):
    root = wilds_folder(drawn, here / "camelyon")
    clean = loaded(root)
    bad = clean.table.path[[3, 40]].tolist()
    with open(bad[0], "r+b") as file:
        file.truncate(200)
    with open(bad[1], "wb") as file:
        file.write(b"no image")
    pool = loaded(root)
    assert not set(bad) & set(pool.table.path) and len(pool.table) == 58 and pool.key != clean.key
    assert capsys.readouterr().err == "" and not (here / "results").exists()
    pool.announce(pathlib.Path("results"))
    rejected = pd.read_csv(here / "results" / "rejected.csv")
    assert rejected.path.tolist() == bad and rejected.client.tolist() == clean.table.client[[3, 40]].tolist()
    assert rejected.reason.tolist() == ["truncated PNG", "not a PNG, JPEG, BMP, TIFF, DICOM or NIfTI image"]
    assert "2 of 60 patches cannot be used, listed in results/rejected.csv" in capsys.readouterr().err


def test_a_client_whose_training_patches_cannot_be_read_is_named(drawn, here):
    root = wilds_folder(drawn, here / "camelyon")
    table = wilds.read(root)
    for path in table.path[(table.client == "centre1") & (table.split == "train")]:
        with open(path, "wb"):
            pass
    with pytest.raises(UserError, match=r"a client without training images: .*client centre1"):
        loaded(root)


def no_folder(drawn, target):
    return target


def one_class_in_folders(drawn, target):
    return class_folders(drawn, target, classes=["tumour"])


def one_class_in_a_manifest(drawn, target):
    return manifest(drawn, target.with_suffix(".csv"), label="tumour")


def only_tests(drawn, target):
    return manifest(drawn, target.with_suffix(".csv"), split="test")


def no_patches(drawn, target):
    target.mkdir()
    return target


def file_that_is_no_table(drawn, target):
    target.write_text("hello")
    return target


def patches_that_are_not_there(drawn, target):
    root = wilds_folder(drawn, target)
    os.unlink(wilds.read(root).path[0])
    return root


MISTAKES = {
    no_folder: r"given: no such file or folder",
    one_class_in_folders: "centre0: all of its 10 patches are tumour",
    one_class_in_a_manifest: r"--data: only one class \(tumour\); a classifier needs two or more",
    only_tests: "a client without training images",
    no_patches: "given: no folders in it; lay the patches out as",
    file_that_is_no_table: r"--data .*given: neither a folder nor a \.csv file",
    patches_that_are_not_there: "1 of 60 patches in metadata.csv have no file",
}


@pytest.mark.parametrize("make", MISTAKES, ids=lambda make: make.__name__)
def test_data_that_cannot_be_used_is_refused(make, drawn, here):
    with pytest.raises(UserError, match=MISTAKES[make]):
        loaded(make(drawn, here / "given"))


def test_a_federation_without_each_centre_in_turn(drawn, here):
    pool = loaded(drawn)
    whole, *others = folds_of(pool, "--leave-out")
    assert whole.name == FEDERATION and whole.clients == CENTRES
    assert (len(whole.train), len(whole.test)) == (48, 12)
    assert [fold.name for fold in others] == CENTRES
    for fold in others:
        own = pool.table[pool.table.client == fold.name]
        assert fold.name not in set(fold.train.client) and fold.clients == [c for c in CENTRES if c != fold.name]
        assert sorted(fold.test.path) == sorted(own.path) and len(own) == 20
        assert set(fold.train.path) == set(whole.train.path) - set(own.path)
    assert [fold.name for fold in folds_of(pool)] == [FEDERATION]
    untested = pool.table.split.where(pool.table.client != CENTRES[1], "train")
    others = folds_of(dataclasses.replace(pool, table=pool.table.assign(split=untested)), "--leave-out")[1:]
    assert [fold.name for fold in others] == [CENTRES[0], CENTRES[2]]
    assert all(CENTRES[1] in fold.clients for fold in others)


def test_clients_are_in_their_natural_order(drawn, here):
    names = np.array(["site10", "site9", "site1"])[np.arange(60) % 3]
    (fold,) = folds_of(loaded(manifest(drawn, here / "mine.csv", client=names)))
    assert fold.clients == ["site1", "site9", "site10"]


def test_the_only_centre_cannot_be_left_out(drawn, here):
    pool = loaded(manifest(drawn, here / "mine.csv", client="one"))
    with pytest.raises(UserError, match=r"^--leave-out: there is only one centre"):
        folds_of(pool, "--leave-out")


def test_a_centre_called_like_all_of_them_cannot_be_left_out(drawn, here):
    names = np.array(["federation", "other"])[np.arange(60) % 2]
    pool = loaded(manifest(drawn, here / "mine.csv", client=names))
    assert len(folds_of(pool)) == 1
    with pytest.raises(UserError, match=r"^--leave-out: a centre cannot be called federation"):
        folds_of(pool, "--leave-out")
