"""Manifests that are nearly right, or not at all: a table or one line, whatever a file holds."""

from __future__ import annotations

import csv
import io
import json

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.strategies import ODD, bounded, check_refusal, damaged
from tffapps.data import chaoyang, manifest, micrographs, wilds
from tffapps.errors import UserError

COLUMNS = ["path", "label", "client", "split", "mask", "subject", " path", "label ", "Path", "", "path.1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three images and a folder."""
    folder = tmp_path_factory.mktemp("images")
    for number, name in enumerate("abc"):
        image = np.full((8, 8), 255, np.uint8)
        image[number] = 0
        cv2.imwrite(str(folder / f"{name}.png"), image)
    (folder / "folder").mkdir()
    return folder


def table_or_line(read):
    try:
        return read()
    except UserError as error:
        check_refusal(error)
        return None


def through_all(file):
    """The loader, its check, and those of an application that reads manifests itself."""

    def checked():
        table = manifest.load(file)
        manifest.check(table)
        return table

    table = table_or_line(checked)
    if table is not None:
        assert len(table) and set(manifest.COLUMNS) <= set(table.columns) and set(table.split) <= set(manifest.SPLITS)
        assert manifest.classes(table) and manifest.fingerprint(table)
    table_or_line(lambda: micrographs.load(file, file.parent / "tiles", tile=4, progress=False))


PLAUSIBLE = {
    "path": ["a.png", "b.png", "c.png", "./a.png", "folder", "missing.png"], "mask": ["a.png", "b.png", "folder", ""],
    "label": ["grain", "1", "10"], "client": ["iron", "steel"], "split": list(manifest.SPLITS),
    "subject": ["", "s", "t"],
}  # fmt: skip


@st.composite
def tables(draw):
    """CSV with columns in any order, rows that are too long or too short, any cells; most of it as it should be."""
    names = ["path", "label", *draw(st.lists(st.sampled_from(COLUMNS), max_size=5))]
    columns = draw(st.permutations(names[draw(st.integers(0, 9)) == 0 :]))
    rows = []
    for _ in range(draw(st.integers(0, 5))):
        cells = [draw(st.sampled_from(PLAUSIBLE.get(name.strip(), ["x"]))) for name in columns]
        if draw(st.booleans()):
            cells[draw(st.integers(0, len(cells) - 1))] = draw(st.sampled_from(ODD) | st.text(max_size=8))
        rows.append(cells + ["more"] * draw(st.sampled_from([0, 0, 0, 0, 1])))
    text = io.StringIO()
    csv.writer(text, lineterminator=draw(st.sampled_from(["\n", "\r\n", "\r"]))).writerows([columns, *rows])
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    return text.getvalue().encode(encoding, "replace")


@bounded(150)
@given(contents=tables())
def test_tables_of_anything(place, contents):
    (place / "m.csv").write_bytes(contents)
    through_all(place / "m.csv")


@bounded(60)
@given(contents=st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_bytes_of_anything(place, contents):
    (place / "m.csv").write_bytes(contents)
    through_all(place / "m.csv")


GOOD = b"path,label,client,split,mask,subject\n" + b"".join(
    f"{name}.png,grain,iron,{split},{name}.png,{name}\n".encode() for name, split in zip("abc", manifest.SPLITS)
)


@bounded(80)
@given(contents=damaged(GOOD))
def test_a_good_manifest_with_damage(place, contents):
    (place / "m.csv").write_bytes(contents)
    through_all(place / "m.csv")


def test_the_good_one_is_read(place):
    (place / "m.csv").write_bytes(GOOD)
    through_all(place / "m.csv")
    table, _ = micrographs.load(place / "m.csv", place / "tiles", tile=4, progress=False)
    assert len(table) == 12


FOUND = {
    "path,label ,label\na.png,x,y\n": "the column label is there twice",
    "label,path\nmore,grain,a.png\n": "more cells than the first line has names",
    'path,label\na.png,"two\nlines"\nmissing.png,"two\nlines"\n': r"a file that does not exist: .*two\\nlines",
    f"path,label\na.png,{'7' * 5000}\nb.png,{'8' * 5000}\n": None,
}


@pytest.mark.parametrize("text", FOUND, ids=["twice", "cells", "lines", "digits"])
def test_what_was_found_here(place, text):
    (place / "m.csv").write_text(text)
    through_all(place / "m.csv")
    if FOUND[text]:
        with pytest.raises(UserError, match=FOUND[text]):
            manifest.check(manifest.load(place / "m.csv"))


def test_subjects_of_ones_own_that_are_too_few(place):
    (place / "m.csv").write_text("path,label,client,mask,subject\na.png,grain,iron,a.png,mine\n")
    with pytest.raises(UserError, match=r"iron: 4 tiles of 1 micrographs \(mine\) are too few"):
        micrographs.load(place / "m.csv", place / "tiles", tile=4, progress=False)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a.png", "train/x.JPG", *ODD]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "label"]), inner, max_size=2),
    max_leaves=6,
)
entries = st.fixed_dictionaries(
    {}, optional={name: values for name in ("name", "label", "label_A", "label_B", "label_C")}
)


@bounded(80)
@given(content=st.lists(entries | values, max_size=6) | values)
def test_chaoyangs_lists(place, content):
    for name in ("train.json", "test.json"):
        (place / name).write_text(json.dumps(content))
    table_or_line(lambda: chaoyang.read(place))


@bounded(40)
@given(contents=st.binary(max_size=60) | damaged(b'[{"name": "a.png", "label": 0}, {"name": "b.png", "label": 1}]'))
def test_chaoyangs_lists_with_damage(place, contents):
    for name in ("train.json", "test.json"):
        (place / name).write_bytes(contents)
    table_or_line(lambda: chaoyang.read(place))


PATCHES = b"patient,node,x_coord,y_coord,tumor,center,slide,split\n" + b"".join(
    f"{patient},0,{x},0,{x % 2},{patient % 2},0,0\n".encode() for patient in range(6) for x in range(4)
)
NUMBERS = ["0", "1", "2", "1.0", "-1", "0.5", "1e300", "9" * 19, "9" * 40, "inf", "nan", "True", "1j", "0x1", "", "x"]


@pytest.fixture(scope="module")
def patches(place):
    """A WILDS folder but for its table."""
    for patient in range(6):
        slide = f"patient_{patient:03}_node_0"
        (place / "patches" / slide).mkdir(parents=True)
        for x in range(4):
            (place / "patches" / slide / f"patch_{slide}_x_{x}_y_0.png").touch()
    (place / "metadata.csv").write_bytes(PATCHES)
    assert len(wilds.read(place)) == 24
    return place


@st.composite
def metadata(draw):
    lines = [line.split(b",") for line in PATCHES.splitlines()]
    for _ in range(draw(st.integers(1, 4))):
        line = lines[draw(st.integers(0, len(lines) - 1))]
        line[draw(st.integers(0, 7))] = draw(st.sampled_from(NUMBERS) | st.sampled_from(ODD)).encode()
    return b"\n".join(b",".join(line) for line in lines)


@bounded(100)
@given(contents=metadata() | damaged(PATCHES))
def test_tables_of_patches(patches, contents):
    (patches / "metadata.csv").write_bytes(contents)
    table_or_line(lambda: wilds.read(patches))
