"""`tffapps predict` and `tffapps card` as a user types them: rows in order, problems told, slides, tampering."""

import csv
import pathlib

import cv2
import numpy as np
import pytest
import tifffile

from tests.applications import check_help, working_in
from tests.use.conftest import CLASSES, SIDE
from tffapps.__main__ import main
from tffapps.evaluation import calibration
from tffapps.use import bundle
from tffapps.use.predict import Predictor


@pytest.fixture
def here(tmp_path):
    with working_in(tmp_path):
        yield tmp_path


def rows_of(file):
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def probabilities(rows):
    return np.array([[float(row[f"p_{name}"]) for name in CLASSES] for row in rows])


def test_files_folders_and_tables_are_predicted_in_their_order(kept_bundle, pictures, here, capsys):
    folder = pathlib.Path(pictures[0]).parent
    pathlib.Path("list.csv").write_text(f"path,label\n{pictures[5]},x\nbroken.png,y\ngone.png,z\n")
    pathlib.Path("broken.png").write_bytes(pathlib.Path(pictures[0]).read_bytes()[:60])
    assert main(["predict", str(kept_bundle), "list.csv", pictures[7], str(folder), "-o", "out.csv"]) == 1
    rows = rows_of("out.csv")
    assert [row["image"] for row in rows[:4]] == [pictures[5], "broken.png", "gone.png", pictures[7]]
    assert len(rows) == 2 + len(pictures)  # each once
    assert [row["warning"] for row in rows[1:3]] == ["truncated PNG", "missing"]
    assert rows[1]["answer"] == rows[1]["p_red"] == ""
    assert {row["notice"] for row in rows} == {"not a medical device"}
    said = capsys.readouterr().err
    assert "left out: broken.png: truncated PNG" in said and "2 could not be used" in said
    assert "temperature 2, fitted on 24 validation images; unsure below 0.400" in said


def test_calibrated_probabilities_follow_from_the_temperature(kept_bundle, pictures, here, recipe, capsys):
    loaded, (how, _) = bundle.load(kept_bundle), recipe
    answers = list(Predictor(loaded, unsure_below=0.35).of_files(pictures[:9], batch=4))
    assert [answer.place for answer in answers] == list(range(9))
    with np.load(kept_bundle / "chosen.npz") as content:
        weights = [content[f"w{number}"] for number in range(len(content.files))]
    plain = how.classifier.predict(weights, pictures[:9])
    np.testing.assert_allclose([answer.probabilities for answer in answers], plain, atol=1e-6)
    calibrated = calibration.with_temperature(plain, 2.0)
    np.testing.assert_allclose([answer.calibrated for answer in answers], calibrated, atol=1e-6)
    assert [answer.sure for answer in answers] == (calibrated.max(axis=1) >= 0.35).tolist()
    assert main(["predict", str(kept_bundle), *pictures[:9], "--uncalibrated", "--unsure-below", "1"]) == 0
    shown = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    np.testing.assert_allclose(probabilities(shown), plain, atol=1e-6)
    assert {row["answer"] for row in shown} == {"unsure"}
    assert [row["class"] for row in shown] == [CLASSES[code] for code in plain.argmax(axis=1)]


def test_an_image_unlike_the_others_is_warned_of(kept_bundle, pictures, here, capsys):
    checks = np.kron(np.indices((4, 4)).sum(axis=0) % 2, np.ones((4, 4)))
    cv2.imwrite("checks.png", np.repeat(255 * checks[..., None], 3, axis=2).astype(np.uint8))
    assert main(["predict", str(kept_bundle), "checks.png", *pictures[24:], "-o", "out.csv"]) == 0
    rows = rows_of("out.csv")
    assert rows[0]["warning"] == "unlike the training images" and float(rows[0]["distance"]) > 1
    assert [row["warning"] for row in rows[1:]] == [""] * 24
    assert "1 unlike the training images" in capsys.readouterr().err


def test_a_slide_gets_a_heat_map_and_a_table_of_its_tiles(kept_bundle, here, capsys):
    """Tissue in the left half: red above, blue below. The heat map's tiles are where they should be."""
    slide = np.full((8 * SIDE, 8 * SIDE + 5, 3), 255, np.uint8)
    slide[: 4 * SIDE, : 4 * SIDE] = 200, 40, 40
    slide[4 * SIDE :, : 4 * SIDE] = 40, 40, 200
    tifffile.imwrite("slide.tif", slide, photometric="rgb", tile=(32, 32))
    assert main(["predict", str(kept_bundle), "slide.tif", "--slides", "--positive", "red", "-o", "maps"]) == 0
    rows = rows_of("maps/slide.csv")
    places = [(int(row["x"]) // SIDE, int(row["y"]) // SIDE) for row in rows]
    assert places == [(x, y) for y in range(8) for x in range(4)]
    values = probabilities(rows)
    assert np.ptp(values[:16], axis=0).max() < 1e-6 and not np.allclose(values[0], values[-1])
    cv2.imwrite("tile.png", slide[:SIDE, :SIDE, ::-1])
    (alone,) = Predictor(bundle.load(kept_bundle)).of_files(["tile.png"])
    np.testing.assert_allclose(values[0], alone.calibrated, atol=1e-6)
    assert cv2.imread("maps/slide.png").std() > 1
    assert "32 of 64 tiles predicted" in (said := capsys.readouterr().err) and "not a medical device" in said
    pathlib.Path("no.tif").write_bytes(b"II*")
    assert main(["predict", str(kept_bundle), "no.tif", "--slides"]) == 1
    assert "left out: no.tif" in capsys.readouterr().err


MISTAKES = {
    "no such image": (["nothing.png"], "nothing.png: no such file or folder; give images"),
    "an empty folder": (["empty"], "empty: no images"),
    "a table without paths": (["table.csv"], "table.csv: no column path"),
    "a confidence of two": (["table.csv", "--unsure-below", "2"], "--unsure-below 2.0: must be from 0 to 1"),
    "a tile of no slide": (["table.csv", "--tile", "8"], "--tile: only with --slides"),
    "a class that is none": (["table.csv", "--slides", "--positive", "x"], "--positive x: no class of this bundle"),
    "a place that is none": (["{image}", "-o", "table.csv/out.csv"], "cannot write table.csv/out.csv"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, kept_bundle, pictures, here, capsys):
    arguments, message = MISTAKES[mistake]
    pathlib.Path("empty").mkdir()
    pathlib.Path("table.csv").write_text("file,label\n")
    before = sorted(here.iterdir())
    given = [each.replace("{image}", pictures[0]) for each in arguments]
    assert main(["predict", str(kept_bundle), *given]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert len(lines) == 1 and message in lines[0]
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize("command", ["predict", "card"])
def test_a_bundle_that_was_changed_is_not_used(command, bundle_folder, pictures, capsys):
    with open(bundle_folder / "last.npz", "ab") as file:
        file.write(b"x")
    more = [*pictures[:1], "-o", str(bundle_folder.parent / "out.csv")] if command == "predict" else []
    assert main([command, str(bundle_folder), *more]) == 2
    assert "last.npz: changed or damaged" in capsys.readouterr().err
    assert not list(bundle_folder.parent.rglob("out.csv")) + list(bundle_folder.glob("card*"))


def test_the_card_says_what_is_known_and_lets_nothing_act(bundle_folder, capsys):
    assert main(["card", str(bundle_folder)]) == 0
    markdown, html = ((bundle_folder / f"card.{kind}").read_text() for kind in ("md", "html"))
    for text in (
        "Not a medical device", "accuracy 0.500 (0.100 to 0.900)", "its contribution stays in these weights",
        "without differential privacy", "ImageNet weights", "north", "| 12 |", "temperature 2, fitted on 24",
        "50% of the test images got a sure answer, of which 80% were right",
    ):  # fmt: skip
        assert text.lower() in markdown.lower(), text
    assert "south \\<b\\>\\|x" in markdown and "south &lt;b&gt;|x" in html and "<b>" not in html
    assert "http" not in html and "<script" not in html
    bundle.load(bundle_folder)  # a card beside it changes nothing


@pytest.mark.parametrize(("command", "flag"), [("predict", "--uncalibrated"), ("card", "-o FOLDER")])
def test_help_does_not_wait_for_tensorflow(command, flag):
    check_help(f"tffapps.use.{command}_command", flag)
