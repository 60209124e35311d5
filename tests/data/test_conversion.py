"""DICOM, TIFF and NIfTI in tables: what becomes of paths, names, subjects and keys."""

import os
import pathlib
import shutil
import stat

import cv2
import nibabel
import numpy as np
import pandas as pd
import pytest
import tifffile

from preprocessing import formats
from tests.preprocessing.medical import write_dicom
from tffapps.data import conversion, labelled, layouts, manifest, pipeline, pseudonyms, unreadable
from tffapps.data.__main__ import main
from tffapps.errors import UserError
from tffapps.files import short
from tffapps.site import data as site_data

RNG = np.random.default_rng(5)


def noise():
    return RNG.integers(0, 4096, (8, 8)).astype(np.uint16)


def fill(root):
    """<client>/<split>/<class>/ with one file of each format, without a suffix too."""
    for place, split in enumerate(("train", "test")):
        for label in ("benign", "malign"):
            folder = root / "north" / split / label
            folder.mkdir(parents=True)
            write_dicom(folder / "a.dcm", noise(), PatientID=f"id-{place}", PatientName="Doe^Jane")
            write_dicom(folder / "IM0001", noise(), PatientID=f"id-{place}-{label}", BurnedInAnnotation="YES")
            tifffile.imwrite(folder / "b.ome.tif", noise(), ome=True)
            nibabel.save(nibabel.Nifti1Image(noise()[..., None].astype(np.int16), np.eye(4)), folder / "c.nii.gz")
            cv2.imwrite(str(folder / "d.png"), noise())
    return root


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("own") / "images")


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    place = tmp_path_factory.getbasetemp() / "home"  # one for all: files are converted once
    monkeypatch.setenv("TFFAPPS_HOME", str(place))
    return place


def test_a_folder_becomes_a_pool_of_png_files(images):
    pool = labelled.load(images)
    assert len(pool.table) == 20 and pool.formats == ("png",) and pool.rejected.empty
    assert sorted({pathlib.Path(path).name for path in pool.table.file}) == sorted(
        ["IM0001", "a.dcm", "b.ome.tif", "c.nii.gz", "d.png"]
    )
    for path, file in zip(pool.table.path, pool.table.file):
        stored = cv2.imread(path, cv2.IMREAD_UNCHANGED)
        assert stored.dtype == np.uint16 and np.array_equal(stored, formats.load(file))
        assert (path == file) == file.endswith(".png")
    batches = pipeline.batches(
        list(pool.table.path), pool.codes(pool.table), size=(8, 8), channels=1, batch=20, shuffle=False
    )
    (read,) = [batch for batch, _ in batches]
    seen = [formats.load(file)[..., None] / 65535 for file in pool.table.file]
    assert np.abs(read.numpy() - np.stack(seen)).max() < 1e-6


def test_patients_are_subjects_under_pseudonyms(images, home):
    pool = labelled.load(images)
    of = dict(zip(pool.table.file, pool.table.subject))
    first, second = (of[str(images / "north/train" / label / "a.dcm")] for label in ("benign", "malign"))
    assert first == second and first.startswith("p") and len(first) == 17
    assert len({subject for subject in of.values() if subject}) == 6
    assert all(of[file] == "" for file in of if file.endswith((".png", ".gz", ".tif")))
    assert "id-" not in pool.table.subject.str.cat() and "Doe" not in str(pool.notes) + str(pool.table.to_dict())
    assert any("text is burned into their pictures: 4;" in note for note in pool.notes)
    salt = home / "data" / pseudonyms.SALT
    assert stat.S_IMODE(salt.stat().st_mode) == 0o600
    assert pseudonyms.pseudonym("x", pseudonyms.salt()) != pseudonyms.pseudonym("x", bytes(32))


def test_a_damaged_salt_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / pseudonyms.SALT).write_text("short")
    with pytest.raises(UserError, match="subject-salt: not the salt"):
        pseudonyms.salt()


def test_a_manifest_has_the_last_word(images, tmp_path):
    files = sorted(str(path) for path in images.rglob("*") if path.is_file())
    rows = [(file, pathlib.Path(file).parent.name, "test" if "/test/" in file else "train", file) for file in files]
    pd.DataFrame(rows, columns=["path", "label", "split", "subject"]).to_csv(tmp_path / "own.csv", index=False)
    table = labelled.load(tmp_path / "own.csv").table
    assert list(table.subject) == list(table.file) == files


def test_a_patient_in_two_splits(tmp_path):
    for split in ("train", "test"):
        for label in ("a", "b"):
            (tmp_path / split / label).mkdir(parents=True)
            write_dicom(tmp_path / split / label / "1.dcm", noise(), PatientID=f"same-{label}")
    with pytest.raises(UserError, match=r"a subject that is in more than one split: .*/1.dcm") as told:
        labelled.load(tmp_path)
    assert "same-" not in str(told.value) and "converted" not in str(told.value)
    for file in tmp_path.rglob("*.dcm"):  # anonymised: everybody is the same
        write_dicom(file, noise(), PatientID="ANON")
    pool = labelled.load(tmp_path)
    assert "subject" not in pool.table and any("same PatientID" in note for note in pool.notes)


def test_what_cannot_be_used_is_named_as_it_is(images, tmp_path):
    root = shutil.copytree(images, tmp_path / "images")
    bad = root / "north/train/benign/a.dcm"
    bad.write_bytes(bad.read_bytes()[:-20])
    write_dicom(root / "north/train/benign/e.dcm", np.zeros((2, 2)), Rows=60_000, Columns=60_000)
    shutil.copy(root / "north/train/benign/IM0001", root / "north/train/benign/f.png")
    rejected = labelled.load(root).rejected.set_index("path").reason
    assert rejected[str(bad)] == "DICOM: damaged or not an image of a kind that can be read"
    assert "60000 × 60000" in rejected[str(root / "north/train/benign/e.dcm")]
    assert "under the name of another format" in rejected[str(root / "north/train/benign/f.png")]
    assert len(rejected) == 3


def test_keys_do_not_depend_on_the_cache_or_the_place(images, tmp_path, monkeypatch):
    first = labelled.load(images).key
    moved = shutil.copytree(images, tmp_path / "elsewhere")
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path / "home"))
    assert labelled.load(moved).key == first
    tifffile.imwrite(moved / "north/train/benign/b.ome.tif", noise(), ome=True)
    assert labelled.load(moved).key != first


def test_equal_files_are_two_images(images, tmp_path):
    root = shutil.copytree(images, tmp_path / "images")
    shutil.copy(root / "north/train/benign/b.ome.tif", root / "north/train/benign/copy.tif")
    table = labelled.load(root).table
    assert len(table) == 21 and table.path.duplicated().sum() == 1


def test_messages_name_the_users_file(images):
    file = str(images / "north/train/benign/c.nii.gz")
    (png,) = conversion.converted_paths([file])
    assert png.endswith(".png") and short(png) == file
    assert conversion.converted_paths(["nowhere.dcm", "x.png"]) == ["nowhere.dcm", "x.png"]


def test_masks_too(tmp_path):
    for kind in ("images", "labels"):
        (tmp_path / "iron" / kind).mkdir(parents=True)
    tifffile.imwrite(tmp_path / "iron/images/1.tif", noise())
    nibabel.save(
        nibabel.Nifti1Image(np.eye(8, dtype=np.uint8)[..., None], np.eye(4)), tmp_path / "iron/labels/1.nii.gz"
    )
    table = layouts.read(tmp_path, ("micrographs",), [])
    assert cv2.imread(table["mask"][0], cv2.IMREAD_UNCHANGED).tolist() == np.eye(8).tolist()
    assert table.file[0].endswith("iron/images/1.tif") and manifest.named(table)[0] == table.file[0]


def test_many_are_converted_in_other_processes(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path / "home"))
    files = [str(write_dicom(tmp_path / f"{number}.dcm", noise())) for number in range(24)]
    assert all(path.endswith(".png") for path in conversion.converted_paths(files))
    assert "converting: 24/24" in capsys.readouterr().err
    conversion.converted_paths(files)
    assert capsys.readouterr().err == ""


def test_a_site_serves_png_files(images, monkeypatch):
    table = site_data.load(images, "north")
    kept = table[~table.path.isin(unreadable.find_unreadable(list(table.path), 3))]
    description = site_data.describe(kept, "north")
    assert description["sizes"] == {"8x8": 20} and description["subjects"]
    with site_data.working_folder(kept, description) as folder:
        links = sorted(path for path in folder.glob("*/*/*"))
        assert len(links) == 20 and all(os.path.realpath(link).endswith(".png") for link in links)
        assert "id-" not in (folder / "site.json").read_text()


def test_the_check_understands_them(images, capsys):
    assert main([str(images), "--for", "classify", "--profile", "smoke"]) == 0
    said = capsys.readouterr().out
    assert "images: 20" in said and "fit for tffapps.classify" in said and "subjects are the patients of 8" in said
