"""Classes of patches from what is marked on a slide: ASAP's outlines, masks, and which scanner a specimen is from."""

import csv

import cv2
import numpy as np
import pytest
import tifffile

from preprocessing.errors import UserError
from preprocessing.label_settings import LabelRule
from preprocessing.patches_command import main
from preprocessing.slide_labels import Masks, Outlines, label_of
from tests.preprocessing.test_patches import picture, save

SIZE = 64  # patches from 128 to 384 across and 64 to 320 down are all tissue
BOX = (128, 64, 256, 320)  # marked as tumour: the left half of the tissue


def asap(file, *boxes):
    """(group, left, top, right, bottom) each."""
    marks = []
    for group, left, top, right, bottom in boxes:
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        points = "".join(f'<Coordinate Order="{n}" X="{x}" Y="{y}"/>' for n, (x, y) in enumerate(corners))
        marks.append(
            f'<Annotation PartOfGroup="{group}" Type="Polygon"><Coordinates>{points}</Coordinates></Annotation>'
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"<ASAP_Annotations><Annotations>{''.join(marks)}</Annotations></ASAP_Annotations>")


def mask(file, value=1, levels=3):
    image = np.zeros((384, 512), np.uint8)
    image[BOX[1] : BOX[3], BOX[0] : BOX[2]] = value
    file.parent.mkdir(parents=True, exist_ok=True)
    with tifffile.TiffWriter(file) as writer:
        for level in range(levels):
            writer.write(image[:: 2**level, :: 2**level], tile=(64, 64), metadata=None, subfiletype=int(level > 0))


def cut(tmp_path, *flags):
    found = ["--size", SIZE, "--level", 0, "--annotations", tmp_path / "marks", *flags]
    return main([str(tmp_path / "slides"), str(tmp_path / "out"), *map(str, found)])


def manifest(tmp_path):
    with open(tmp_path / "out" / "manifest.csv", newline="") as stream:
        return list(csv.DictReader(stream))


FORMATS = {
    "ASAP": lambda folder: asap(folder / "s.xml", ("Tumor", *BOX)),
    "numbers": lambda folder: mask(folder / "s_mask.tif", 2),
    "a mask for each class": lambda folder: mask(folder / "s" / "s_G4_Mask.tif", 255),
}
TUMOUR = {"ASAP": "Tumor", "numbers": "2", "a mask for each class": "G3,G4"}


@pytest.mark.parametrize("kind", FORMATS)
def test_patches_are_what_is_marked_on_them(kind, tmp_path):
    save(tmp_path / "slides" / "s.tif", picture(), 3, compression="zlib")
    FORMATS[kind](tmp_path / "marks")
    assert cut(tmp_path, "--tumour", TUMOUR[kind]) == 0
    rows = manifest(tmp_path)
    assert (
        len(rows) == 16 and {row["subject"] for row in rows} == {"s"} and {row["client"] for row in rows} == {"slides"}
    )
    for row in rows:
        x = int(row["path"].rsplit("_", 2)[1])
        assert row["label"] == ("tumour" if x < BOX[2] else "normal"), row
        assert cv2.imread(str(tmp_path / "out" / row["path"])).shape == (SIZE, SIZE, 3)


def test_what_is_neither_is_left_out_and_what_is_cut_out_is_not_tumour(tmp_path, capsys):
    save(tmp_path / "slides" / "s.tif", picture(), compression="zlib")
    tumour, hole, stroma = ("Tumor", 128, 64, 208, 320), ("_2", 128, 64, 208, 128), ("Stroma", 320, 64, 384, 320)
    asap(tmp_path / "marks" / "s.xml", tumour, hole, stroma)
    assert cut(tmp_path, "--tumour", "Tumor,_0", "--without", "_2", "--marked-only") == 0
    found = {row["path"].partition("_")[2]: row["label"] for row in manifest(tmp_path)}
    tumours = {f"128_{y}.png": "tumour" for y in (128, 192, 256)}
    assert found == {**tumours, **{f"320_{y}.png": "normal" for y in (64, 128, 192, 256)}}
    assert "4 normal, 3 tumour, 9 neither for certain" in capsys.readouterr().out


def test_a_specimen_is_one_subject_on_all_scanners(tmp_path):
    for scanner in ("akoya", "leica"):
        save(tmp_path / "slides" / scanner / f"case_07_{scanner}.tif", picture(), compression="zlib")
        asap(tmp_path / "marks" / f"case_07_{scanner}.xml", ("Tumor", *BOX))
    assert cut(tmp_path, "--tumour", "Tumor", "--specimen", r"case_(\d+)") == 0
    rows = manifest(tmp_path)
    assert {(row["client"], row["subject"]) for row in rows} == {("akoya", "07"), ("leica", "07")} and len(rows) == 32


def test_a_polygon_that_is_slanted_or_larger_than_the_patch():
    triangle = Outlines({"T": [np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])]})
    assert triangle.shares(0, 0, 100)["T"] == pytest.approx(0.5, abs=0.03)
    assert triangle.shares(10, 10, 20)["T"] == 1 and triangle.shares(200, 0, 50)["T"] == 0
    assert label_of({"T": 0.5}, LabelRule(("T",))) == "tumour" and label_of({"T": 0.2}, LabelRule(("T",))) == ""
    assert label_of({}, LabelRule(("T",))) == "normal" and label_of({}, LabelRule(("T",), marked_only=True)) == ""


def test_a_mask_is_read_from_its_coarse_copy(tmp_path):
    mask(tmp_path / "m.tif")
    marked = Masks({"": tmp_path / "m.tif"}, 512, SIZE)
    assert marked._pixels[""].shape == (96, 128) and marked.classes == ("1",)
    assert marked.shares(128, 64, SIZE) == {"1": 1.0} and marked.shares(224, 64, SIZE)["1"] == pytest.approx(0.5)
    assert marked.shares(5000, 64, SIZE) == {"1": 0.0}


MISTAKES = {
    "no marks of the slide": ([], "has nothing for the slide s"),
    "no such folder": (["--annotations", "nowhere"], "--annotations nowhere: no such folder"),
    "no class": (["--tumour", ""], "--tumour: name at least one class"),
    "a share of nothing": (["--share", "0"], "--share 0: a share is above 0"),
    "no brackets": (["--specimen", "abc"], "--specimen abc: put what names the specimen in brackets"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake, tmp_path, capsys):
    flags, message = MISTAKES[mistake]
    save(tmp_path / "slides" / "s.tif", picture(), compression="zlib")
    (tmp_path / "marks").mkdir()
    assert cut(tmp_path, "--tumour", "T", *flags) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line


@pytest.mark.parametrize("text", [b"<a>", b'<!DOCTYPE x [<!ENTITY e "e">]><a/>', b"no xml"])
def test_files_that_are_no_outlines(text, tmp_path):
    (tmp_path / "s.xml").write_bytes(text)
    with pytest.raises(UserError, match="no outlines of ASAP"):
        Outlines.read(tmp_path / "s.xml")
    (tmp_path / "s.tif").write_bytes(text)
    with pytest.raises(UserError, match="not a mask that can be read"):
        Masks({"": tmp_path / "s.tif"}, 512, SIZE)


def test_names_that_are_on_no_slide(tmp_path, capsys):
    save(tmp_path / "slides" / "s.tif", picture())
    asap(tmp_path / "marks" / "s.xml", ("Tumor", *BOX))
    for flags, named in (
        (("--tumour", "Tumour"), "--tumour Tumour"),
        (("--tumour=Tumor", "--without=x"), "--without x"),
    ):
        assert cut(tmp_path, *flags) == 2
        assert f"{named}: marked on no slide; there are Tumor" in capsys.readouterr().err
    assert not (tmp_path / "out" / "manifest.csv").exists()
