"""`python -m tffapps.data`: what it says of the stand-ins, of folders that are not fit, and what it leaves behind."""

import shutil

import pandas as pd
import pytest

from tests.applications import check_help, working_in
from tests.data.test_micrographs import lay_out
from tffapps import cli, fedtransfer
from tffapps.data.__main__ import main
from tffapps.data.glands import write_glands
from tffapps.data.grains import write_grains
from tffapps.data.knees import write_knees
from tffapps.data.painters import write_painters
from tffapps.data.textures import write_textures
from tffapps.data.tissue import write_tissue

DRAWN = {
    "classify": lambda folder: write_textures(folder, clients=2, per_class=5, size=16, progress=False),
    "plfl": lambda folder: write_knees(folder, images=80, size=32, progress=False),
    "fnst": lambda folder: write_glands(folder, train=12, test=4, size=32, noise=0, progress=False),
    "fedstyle": lambda folder: write_painters(folder, artists=3, images=10, size=32, progress=False),
    "fedsda": lambda folder: write_tissue(folder, patches=20, centres=2, size=32, progress=False),
    "fedtransfer": lambda folder: write_grains(folder, images=12, size=64, progress=False),
}
FLAGS = ["--profile", "smoke"]


@pytest.fixture(scope="module")
def drawn(place):
    """The stand-in of an application, drawn once: for reading only."""
    return lambda app: DRAWN[app](place / app)


def files(folder):
    return {path.relative_to(folder) for path in folder.rglob("*")}


def told(capsys, *arguments):
    """Exit status, and what was said on stdout and stderr."""
    status = main([str(argument) for argument in arguments])
    return (status, *capsys.readouterr())


def test_help_does_not_wait_for_tensorflow():
    check_help("tffapps.data", "--for")


SAID = {
    "classify": [
        "images: 30", "classes: class_0 (10), class_1 (10), class_2 (10)", "sizes: 16×16", "unreadable: none",
        "client_0 9 3 3 15 3",
    ],
    "plfl": [
        "images: 80", "classes: healthy (55), moderate (19), severe (6)", "sizes: 32×32",
        "clients: the server and two others, drawn by every seed", "not looked at: whether there is a knee",
    ],
    "fnst": ["images: 64", "clients: 4, drawn by every seed, with 2 images", "all 48 16 64 4"],
    "fedstyle": ["pictures: 30", "painter02 7 2 1 10 1"],
    "fedsda": ["patches: 40", "classes: normal (20), tumour (20)", "centre1 16 4 20 2"],
    "fedtransfer": [
        "tiles: 24", "sizes: 64×64", "labels of austenite: boundaries are dark", "labels of iron: boundaries are light",
        "files: 24, of 12 micrographs; a tile is 64 pixels wide", "iron 8 2 2 12",
    ],
}  # fmt: skip


@pytest.mark.parametrize("app", DRAWN)
def test_a_stand_in_is_fit_and_nothing_is_written(app, drawn, here, capsys):
    folder = drawn(app)
    before = files(here)
    status, said, _ = told(capsys, folder, "--for", app, *FLAGS)
    assert status == 0
    assert said.splitlines()[-1] == f"fit for tffapps.{app}"
    lines = "\n".join(" ".join(line.split()) for line in said.splitlines())
    for line in SAID[app]:
        assert line in lines
    assert files(here) == before


@pytest.mark.parametrize("app", ["classify", "fnst", "fedsda", "fedstyle", "plfl"])
def test_unreadable_files_are_counted_and_named(app, drawn, tmp_path, capsys):
    folder = shutil.copytree(drawn(app), tmp_path / "copy")
    damaged = sorted(path for path in folder.rglob("*.png") if "/1/" not in str(path) and "/2/" not in str(path))[:4]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:60])
    with working_in(tmp_path):
        status, said, errors = told(capsys, "copy", "--for", app, *FLAGS)
    assert status == 0, errors
    (line,) = [line for line in said.splitlines() if line.startswith("unreadable: ")]
    assert line.startswith("unreadable: 4 left out; copy/")
    assert line.count("truncated PNG") == 3 and line.endswith("and 1 more")
    assert "tffapps-data-" not in errors and "rejected.csv" not in errors
    assert not (tmp_path / "results").exists() and not (tmp_path / "data").exists()


@pytest.mark.parametrize(("tile", "size", "folds"), [(64, 0, 1), (0, 32, 3), (40, 0, 3)])
def test_tiles_are_counted_as_they_would_be_cut(tile, size, folds, tmp_path, capsys):
    """Two materials of different sizes, micrographs of several files."""
    names = [f"m{micrograph}_{part}" for micrograph in range(7) for part in range(2)]
    lay_out(tmp_path / "both", "iron", names=names, height=70, width=140)
    lay_out(tmp_path / "both", "steel", names=names[:9], height=130, width=66, light=True)
    flags = ["--tile", tile, "--size", size, "--folds", folds, "--tiles", "15"]
    with working_in(tmp_path):
        status, said, errors = told(capsys, "both", "--for", "fedtransfer", *flags)
        assert status == 0, errors
        assert not (tmp_path / "data").exists()
        values = cli.parse(fedtransfer.APP, ["--data", "both", *map(str, flags)])
        from tffapps.fedtransfer import data

        table = data.load(values)[0].pool.table
    counts = pd.crosstab(table.client, table.split)
    for client, row in counts.iterrows():
        cells = [client, *(str(row[split]) for split in ("train", "val", "test")), str(row.sum())]
        assert cells in [line.split() for line in said.splitlines()]


def test_flags_of_the_run_count(drawn, here, capsys):
    folder = drawn("fedstyle")
    assert told(capsys, folder, "--for", "fedstyle", *FLAGS, "--artists", 3)[0] == 0
    status, said, errors = told(capsys, folder, "--for", "fedstyle", *FLAGS, "--artists", 4)
    assert status == 2 and "--artists: 4 artists asked for, there are 3" in errors and "fit for" not in said
    status, _, errors = told(capsys, drawn("fnst"), "--for", "fnst", *FLAGS, "--rare", 3)
    assert status == 2 and "12 training images, too few to give 3" in errors
    status, _, errors = told(capsys, folder, "--for", "fedstyle", "--rounds", 0)
    assert status == 2 and "--rounds 0: must be 1 or more" in errors


def test_few_labels_as_a_manifest_says(drawn, tmp_path, capsys):
    """The server has all splits, the clients train only: fit for plfl, not for methods whose clients test."""
    knees = sorted(drawn("plfl").glob("*/[034]/*.png"), key=lambda path: (path.parent.name, path.name))
    sides = ["train", "train", "val", "test", "north", "south"]
    rows = []
    for number, path in enumerate(knees):
        side = sides[number % len(sides)]
        client, split = (side, "train") if side in ("north", "south") else ("server", side)
        rows.append((path, path.parent.name, client, split))
    pd.DataFrame(rows, columns=["path", "label", "client", "split"]).to_csv(tmp_path / "few.csv", index=False)
    with working_in(tmp_path):
        status, said, errors = told(capsys, "few.csv", "--for", "plfl", "--methods", "plfl")
        assert status == 0, errors
        assert "as the manifest says, the clients are north, south" in said
        assert "drawn by every seed" not in said
        assert [line.split()[0] for line in said.splitlines() if line.strip()][-4:-1] == ["north", "server", "south"]
        status, _, errors = told(capsys, "few.csv", "--for", "plfl")
    assert status == 2 and "--methods csfl: north has no image of split test" in errors


def one_class(folder):
    for path in (write_textures(folder, clients=1, per_class=3, size=16, progress=False)).glob("*/*/class_[12]"):
        shutil.rmtree(path)


def all_damaged(folder):
    for path in DRAWN["fedsda"](folder).rglob("*.png"):
        path.write_bytes(b"<html>not found</html>")


def without_severe(folder):
    for path in DRAWN["plfl"](folder).glob("*/4"):
        shutil.rmtree(path)


def one_severe(folder):
    severe = sorted(DRAWN["plfl"](folder).glob("*/4/*.png"))
    for path in severe[1:]:
        path.unlink()


def without_a_label(folder):
    next((DRAWN["fedtransfer"](folder) / "iron" / "labels").iterdir()).unlink()


def labels_of_another_size(folder):
    names = ("a", "b", "c", "d")
    lay_out(lay_out(folder, "iron", names=names), "steel", names=names)
    other = lay_out(folder.parent / "larger", "iron", names=names, height=30)
    shutil.copy(other / "iron" / "images" / "b.bmp", folder / "iron" / "images" / "b.bmp")


def one_material(folder):
    shutil.rmtree(DRAWN["fedtransfer"](folder) / "iron")


def not_a_table(folder):
    folder.mkdir()
    (folder / "metadata.csv").write_text("patient,node\n1,2\n")


BAD = {
    "one class": ("classify", one_class, r"only one class (class_0)"),
    "no grade 4": ("plfl", without_severe, "no image of grade 4 (severe)"),
    "a single severe knee": ("plfl", one_severe, "severe"),
    "no patch can be read": ("fedsda", all_damaged, "error: "),
    "another table": ("fedsda", not_a_table, "no column x_coord or y_coord or tumor or center"),
    "an image without a label": ("fedtransfer", without_a_label, "images without label of the same name"),
    "a label of another size": ("fedtransfer", labels_of_another_size, "24 × 30 pixels, but its label"),
    "one material": ("fedtransfer", one_material, "only one client, austenite"),
    "one artist": ("fedstyle", lambda folder: (folder / "a").mkdir(parents=True), "pictures of no artists"),
    "no class folders": ("fnst", lambda folder: folder.mkdir(), "no images"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_fit_is_one_clear_line(name, tmp_path, capsys):
    app, make, expected = BAD[name]
    make(tmp_path / "bad")
    with working_in(tmp_path):
        before = files(tmp_path)
        status, said, errors = told(capsys, "bad", "--for", app, *FLAGS, *(["--tile", 24] if "size" in name else []))
        assert files(tmp_path) == before
    assert status == 2 and said == ""
    (line,) = [line for line in errors.splitlines() if "error: " in line]
    assert line.startswith("tffapps.data: error: ") and expected in line
    assert "Traceback" not in errors and "tffapps-data-" not in errors


def test_the_first_reasons_are_given_where_they_may_be_the_cause(tmp_path, capsys):
    all_damaged(tmp_path / "bad")
    with working_in(tmp_path):
        errors = told(capsys, "bad", "--for", "fedsda", *FLAGS)[2]
    assert errors.count("not a PNG, JPEG, BMP, TIFF, DICOM or NIfTI image") == 3


@pytest.mark.parametrize("app", DRAWN)
def test_a_folder_that_is_not_there(app, here, capsys):
    status, _, errors = told(capsys, "nowhere", "--for", app)
    assert status == 2 and "nowhere" in errors and "no such f" in errors


def test_a_tile_larger_than_a_micrograph(drawn, here, capsys):
    status, _, errors = told(capsys, drawn("fedtransfer"), "--for", "fedtransfer", "--profile", "paper")
    assert status == 2 and "64 × 64 pixels, smaller than a tile; choose --tile 64 or less" in errors


def test_names_cannot_steer_the_terminal(tmp_path, capsys):
    folder = write_textures(tmp_path / "textures", clients=2, per_class=3, size=16, progress=False)
    (folder / "client_1").rename(folder / "evil\x1b[2J\nname")
    status, said, _ = told(capsys, folder, "--for", "classify", *FLAGS)
    assert status == 0 and "\x1b" not in said and r"evil\x1b[2J\nname" in said
