import csv
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile

from preprocessing import patches, slides
from preprocessing.patches_command import PatchSettings, main

ROOT = Path(__file__).parents[2]
WHITE, PINK, VIOLET = (250, 249, 251), (225, 150, 190), (110, 70, 150)


def picture(width=512, height=384):
    """Glass, a pink rectangle from 128, 64 to 400, 320 in it, and no two pixels of the rectangle quite alike."""
    image = np.full((height, width, 3), WHITE, np.uint8)
    tissue = image[64:320, 128:400]
    tissue[:] = PINK
    y, x = np.indices(tissue.shape[:2])
    tissue[..., 0] -= (x % 40).astype(np.uint8)
    tissue[..., 2] -= (y % 40).astype(np.uint8)
    return image


def save(path, image, levels=1, inside=False, power=None, **options):
    """A TIFF with a pyramid whose every level is half as large; `inside`: the smaller ones in SubIFDs."""
    options = {"tile": (64, 64), "photometric": "rgb", "metadata": None, **options}
    if power:
        options["description"] = f"Aperio Image Library\n512x384 |AppMag = {power}|MPP = 0.25"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tifffile.TiffWriter(path) as file:
        for level in range(levels):
            nested = {"subifds": levels - 1} if inside and level == 0 and levels > 1 else {}
            small = cv2.resize(image, None, fx=0.5**level, fy=0.5**level, interpolation=cv2.INTER_AREA)
            file.write(small, subfiletype=int(level > 0), **nested, **options)
    return path


def change_tags(path, values):
    with tifffile.TiffFile(path) as file:
        places = {tag: file.pages[0].tags[tag].valueoffset for tag in values}
    with open(path, "r+b") as file:
        for tag, value in values.items():
            file.seek(places[tag])
            file.write(struct.pack("<H", value))


def cut(source, out, *flags):
    return main([str(source), str(out), *map(str, flags)])


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def table(file):
    with open(file, newline="") as stream:
        return list(csv.DictReader(stream))


def read(path):
    return cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)


@pytest.mark.parametrize("levels", [1, 4])
def test_patches_are_the_slide_s_own_pixels_where_there_is_tissue(tmp_path, capsys, levels):
    image = picture()
    save(tmp_path / "s.tif", image, levels, compression="zlib")
    assert cut(tmp_path / "s.tif", tmp_path / "out", "--size", 64, "--level", 0) == 0
    # Columns 128 to 384 and rows 64 to 320 are all tissue; the column at 384 has a quarter of it.
    kept = [f"s/s_{x}_{y}.png" for x in (128, 192, 256, 320) for y in (64, 128, 192, 256)]
    assert files(tmp_path / "out") == sorted([*kept, "s.csv", "settings.json"])
    for name in kept:
        x, y = (int(number) for number in name[:-4].split("_")[1:])
        assert np.array_equal(read(tmp_path / "out" / name), image[y : y + 64, x : x + 64])
    rows = table(tmp_path / "out/s.csv")
    assert len(rows) == 8 * 6  # every patch, the dropped ones too
    assert {row["file"] for row in rows if row["kept"] == "1"} == set(kept)
    assert {row["tissue"] for row in rows if row["kept"] == "1"} == {"1.0"}
    edge = next(row for row in rows if (row["x"], row["y"]) == ("384", "64"))
    assert (edge["file"], edge["kept"]) == ("", "0") and float(edge["tissue"]) == pytest.approx(0.25, abs=0.05)
    glass = {row["level"] for row in rows if row["tissue"] == "0.0"}
    assert edge["level"] == "0" and glass == ({"0"} if levels == 1 else {"3"})  # in doubt, it is looked at closely
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "s: 16 patches kept, 32 dropped",
        "1 slides: 16 patches kept, 32 dropped, 0 slides left out",
    ]
    assert said.err == "s: 48/48\n"


def test_the_share_of_tissue_asked_for(tmp_path):
    save(tmp_path / "s.tif", picture())
    counts = []
    for share in (0, 0.2, 0.5, 1):
        out = tmp_path / str(share)
        cut(tmp_path / "s.tif", out, "--size", 64, "--level", 0, "--tissue", share)
        counts.append(len(list(out.glob("s/*.png"))))
    assert counts == [48, 20, 16, 16]


@pytest.mark.parametrize(
    ("colour", "tissue"),
    [
        (WHITE, False),
        ((255, 255, 255), False),
        ((200, 200, 203), False),  # a grey smear
        ((0, 0, 0), False),
        ((12, 3, 9), False),  # black, as JPEG leaves it
        (PINK, True),
        (VIOLET, True),
        ((60, 40, 90), True),
        ((240, 215, 232), True),  # pale eosin
    ],
)
def test_what_counts_as_tissue(colour, tissue):
    assert patches.tissue_mask(np.full((4, 5, 3), colour, np.uint8)).tolist() == [[tissue] * 5] * 4


def test_only_the_tiles_that_are_needed_are_decoded(tmp_path, monkeypatch):
    """A slide with a little tissue: glass is seen on the coarse level, and tiles are decoded once."""
    image = np.full((1024, 1024, 3), WHITE, np.uint8)
    image[256:512, 512:768] = PINK
    save(tmp_path / "s.tif", image, levels=5, compression="zlib")
    decoded = []
    one = slides.TiffSlide._decode

    def counting(self, level, number):
        decoded.append((level, number))
        return one(self, level, number)

    monkeypatch.setattr(slides.TiffSlide, "_decode", counting)
    monkeypatch.setattr(slides, "_TILE_PIXELS", 64 * 64)  # never a whole level at once
    assert cut(tmp_path / "s.tif", tmp_path / "out", "--size", 128, "--level", 0) == 0
    assert len(list(tmp_path.glob("out/s/*.png"))) == 4
    fine = {number for level, number in decoded if level == 0}
    assert fine == {row * 16 + column for row in range(4, 8) for column in range(8, 12)}
    assert len(decoded) == len(set(decoded))


@pytest.mark.parametrize(("wanted", "first", "step"), [(40, 128, 64), (20, 128, 128), (10, 256, 256), (15, 170, 170)])
def test_a_magnification_is_cut_from_the_next_finer_level(tmp_path, wanted, first, step):
    save(tmp_path / "s.svs", picture(), 2, power=40)
    out = tmp_path / "out"
    assert cut(tmp_path / "s.svs", out, "--size", 64, "--magnification", wanted, "--tissue", 0.4) == 0
    places = sorted({int(path.stem.split("_")[1]) for path in out.glob("s/*.png")})
    assert places[0] == first and all(abs(place / step - round(place / step)) < 0.01 for place in places)
    for path in out.glob("s/*.png"):
        x, y = map(int, path.stem.split("_")[1:])
        reach = 64 * 40 / wanted
        whole = picture()[round(y) : round(y + reach), round(x) : round(x + reach)]
        wished = cv2.resize(whole, (64, 64), interpolation=cv2.INTER_AREA).astype(int)
        assert np.abs(read(path) - wished).mean() < 3


def test_stopped_and_run_again(tmp_path, monkeypatch):
    path = save(tmp_path / "in/s.tif", picture(), 3)
    whole, out = tmp_path / "whole", tmp_path / "out"
    flags = ("--size", 32, "--level", 0)
    assert cut(path, whole, *flags) == 0
    real, written = patches._write_png, []

    def failing(job):
        if len(written) == 40:
            raise KeyboardInterrupt
        written.append(job[0])
        real(job)

    monkeypatch.setattr(patches, "_write_png", failing)
    monkeypatch.setattr(patches, "_AT_ONCE", 8)
    assert cut(path, out, *flags) == 130
    assert "s.csv" not in files(out) and len(list(out.glob("s/*.png"))) == 40
    assert not [name for name in files(out) if name.endswith(".tmp")]
    before = {name: (out / name).stat().st_mtime_ns for name in files(out)}
    again = []
    monkeypatch.setattr(patches, "_write_png", lambda job: (again.append(job[0]), real(job)))
    assert cut(path, out, *flags) == 0
    assert {name: (whole / name).read_bytes() for name in files(whole)} == {
        name: (out / name).read_bytes() for name in files(out)
    }
    assert all((out / name).stat().st_mtime_ns == time for name, time in before.items())
    assert not set(written) & set(again) and len(written) + len(again) == len(list(whole.glob("s/*.png")))


def test_a_slide_that_is_done_is_not_read_again(tmp_path, monkeypatch):
    path, out = save(tmp_path / "s.tif", picture(), 3), tmp_path / "out"
    flags = ("--size", 32, "--level", 0)
    cut(path, out, *flags)
    whole = {name: (out / name).read_bytes() for name in files(out)}
    monkeypatch.setattr(patches.Cut, "run", lambda self: pytest.fail("cut again"))
    assert cut(path, out, *flags) == 0
    monkeypatch.undo()
    next(out.glob("s/*.png")).unlink()  # one gone: made again
    assert cut(path, out, *flags) == 0
    next(out.glob("s/*.png")).write_bytes(b"spoilt")
    (out / "s.csv").write_text("changed,by,hand\n1\n")
    assert cut(path, out, *flags) == 0
    assert {name: (out / name).read_bytes() for name in files(out)} == whole


def test_a_limit_takes_patches_from_all_over_the_slide_and_can_be_raised(tmp_path):
    path, out = save(tmp_path / "s.tif", picture(), 3), tmp_path / "out"
    flags = ("--size", 16, "--level", 0)
    counts, names = [], []
    for limit in (("--limit", 5), ("--limit", 20), ()):
        assert cut(path, out, *flags, *limit) == 0
        names.append(set(path.name for path in out.glob("s/*.png")))
        counts.append(len(names[-1]))
        assert sum(row["kept"] == "1" for row in table(out / "s.csv")) == counts[-1]
    assert counts == [5, 20, 16 * 17]
    assert names[0] < names[1] < names[2]
    lines = {int(name[:-4].split("_")[2]) for name in names[1]}
    assert len(lines) > 6  # of the 16 lines of tissue


def test_a_folder(tmp_path, capsys):
    save(tmp_path / "in/a.tif", picture())
    save(tmp_path / "in/deep/b.SVS", picture(), 3)
    (tmp_path / "in/notes.txt").write_text("hello")
    (tmp_path / "in/c.tiff").write_bytes(b"no slide at all")
    (tmp_path / "in/.hidden.tif").write_bytes(b"")
    out = tmp_path / "in" / "out"  # inside IN: its patches are not slides
    assert cut(tmp_path / "in", out, "--size", 64, "--level", 0) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "3 slides: 32 patches kept, 64 dropped, 1 slides left out"
    problem = [line for line in said.err.splitlines() if "left out" in line]
    assert len(problem) == 1 and f"{tmp_path}/in/c.tiff: not a slide that can be read" in problem[0]
    assert len(list(out.glob("a/a_*.png"))) == len(list(out.glob("b/b_*.png"))) == 16


def damaged(path):
    save(path, picture(), compression="zlib")
    with tifffile.TiffFile(path) as file:
        offset = file.pages[0].dataoffsets[18]
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * 20)


def jpeg_2000(path):
    save(path, picture())
    change_tags(path, {259: 33005})


def cut_short(path):
    save(path, picture(), compression=None)
    path.write_bytes(path.read_bytes()[:200_000])


@pytest.mark.parametrize(
    ("make", "flags", "expected"),
    [
        (None, ["--level", 0], "s.tif: does not exist; give a slide or a folder"),
        (lambda path: path.mkdir(), ["--level", 0], "s.tif: no slides in it or its sub-folders; looked for .svs"),
        (lambda path: path.write_bytes(b""), ["--level", 0], "s.tif: not a slide that can be read"),
        (lambda path: path.write_bytes(b"hello" * 50), ["--level", 0], "s.tif: not a slide that can be read"),
        (lambda path: path.write_bytes(b"II*\0\x08\0\0\0\xff"), ["--level", 0], "s.tif: not a slide that can be read"),
        (lambda path: tifffile.imwrite(path, picture()[..., 0]), ["--level", 0], "s.tif: no 8-bit RGB picture"),
        (
            lambda path: tifffile.imwrite(path, picture().astype(np.uint16), photometric="rgb"),
            ["--level", 0],
            "s.tif: no 8-bit RGB picture",
        ),
        (damaged, ["--level", 0], "s.tif: tile 18 of level 0 cannot be decoded"),
        (cut_short, ["--level", 0], "s.tif: tile 1"),
        (jpeg_2000, ["--level", 0], "s.tif: compressed in a way (TIFF's number 33005) that needs"),
        (lambda path: save(path, picture(), 2), ["--level", 2], "s: no level 2; it has 0 to 1"),
        (lambda path: save(path, picture(), 2), [], "s: does not say its magnification; give --level"),
        (lambda path: save(path, picture(), power=20), ["--magnification", 40], "s: has magnification 20, not 40"),
        (lambda path: save(path, picture()), ["--level", 0, "--size", 600], "less than one patch of 600"),
        (lambda path: save(path, picture()), ["--level", 0, "--size", 0], "--size is 0; it must be above 0"),
        (lambda path: save(path, picture()), ["--level", -1], "--level is -1; the finest is 0"),
        (lambda path: save(path, picture()), ["--magnification", 0], "--magnification is 0.0; it must be above 0"),
        (lambda path: save(path, picture()), ["--level", 0, "--tissue", 50], "--tissue is 50.0; it is a share"),
        (lambda path: save(path, picture()), ["--level", 0, "--limit", 0], "--limit is 0; it must be above 0"),
    ],
)
def test_bad_input_is_said_in_one_line(tmp_path, capsys, make, flags, expected):
    if make:
        make(tmp_path / "s.tif")
    assert cut(tmp_path / "s.tif", tmp_path / "out", "--size", 64, *flags) == 2
    said = capsys.readouterr()
    assert expected in said.err and said.err.count("\n") == 1
    assert said.out == ""
    assert not list(tmp_path.glob("out/*.csv"))


def test_wrong_folders_and_settings(tmp_path, capsys):
    path = save(tmp_path / "in/s.tif", picture())
    (tmp_path / "file").write_text("mine")
    flags = ("--size", 64, "--level", 0)

    def refused(source, out, *flags):
        assert cut(source, out, *flags) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    assert "is there and is not a folder" in refused(path, tmp_path / "file", *flags)
    assert "cannot be written: Not a directory" in refused(path, tmp_path / "file/out", *flags)
    assert "must not hold the slides" in refused(path.parent, tmp_path, *flags)
    save(tmp_path / "in/deep/s.svs", picture())
    assert "have one name; rename one" in refused(path.parent, tmp_path / "out", *flags)
    assert cut(path, tmp_path / "out", *flags) == 0
    capsys.readouterr()
    said = refused(path, tmp_path / "out", "--size", 64, "--level", 0, "--tissue", 0.3)
    assert "holds patches cut with tissue 0.5; give the same or choose another OUT" in said
    assert json.loads((tmp_path / "out/settings.json").read_text()) == {
        "size": 64,
        "magnification": None,
        "level": 0,
        "tissue": 0.5,
    }
    (tmp_path / "out/settings.json").write_text("{}")
    assert "not the settings of patches" in refused(path, tmp_path / "out", *flags)


def test_nothing_but_glass(tmp_path, capsys):
    save(tmp_path / "s.tif", np.full((256, 256, 3), WHITE, np.uint8), 2)
    assert cut(tmp_path / "s.tif", tmp_path / "out", "--size", 64, "--level", 0) == 1
    assert "no patch was kept" in capsys.readouterr().err
    assert files(tmp_path / "out") == ["s.csv", "settings.json"]


def test_the_module_is_the_command_and_help_needs_no_opencv(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("cv2", "numpy", "tifffile"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('{name} was imported')")
    command = [sys.executable, "-m", "preprocessing.patches"]
    path = os.pathsep.join([str(blocked), str(ROOT)])
    answer = subprocess.run([*command, "--help"], env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    assert answer.returncode == 0 and b"--magnification" in answer.stdout
    save(tmp_path / "s.tif", picture())
    done = subprocess.run(
        [*command, tmp_path / "s.tif", tmp_path / "out", "--size", "64", "--level", "0"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "s: 16 patches kept, 32 dropped")


def test_settings_say_what_is_wrong():
    assert PatchSettings() == PatchSettings(256, 20.0, None, 0.5, None)
    with pytest.raises(ValueError, match="either a magnification or a level"):
        PatchSettings(level=0)
