import base64
import pathlib
import re
import shutil
import subprocess

import cv2
import numpy as np
import pytest

from tests.report.conftest import draw, write
from tests.report.reading import Page
from tffapps.report.__main__ import main
from tffapps.report.pictures import SMALL

ROOT = pathlib.Path(__file__).resolve().parents[2]
APPLICATIONS = ("plfl", "fedsda", "fnst", "fedstyle", "fedtransfer", "classify")


def test_numbers_and_what_ran(results, made):
    page = made(results)
    assert ["fnst", "5", "S5C5", "300", "0.600 [0.550, 0.650]", "120", "60"] in page.rows
    assert "data: stand-in · profile: demo · weights: random · splits: 1 · seeds: 0, 1, 2" in page.text
    assert ["local", "0", "0.453 ± 0.055", "0.672"] in page.rows
    assert ["fedstyle", "2.46 MB", "0.644 ± 0.049", "0.751"] in page.rows
    assert "fnst/table3_fnst.csv" in page.text and "real/fedstyle/comparison.csv" in page.text
    assert "Images left out: no image was left out." in page.text


def test_the_summary_is_on_top(results, made):
    page = made(results)
    assert page.text.index("Which claims hold") < page.text.index("fnst/table3_fnst.csv")
    assert "On drawn images, which show that the machinery works 1 ahead, 1 level, 1 not comparable" in page.text
    assert "svg" in page.tags and "On real images" not in page.text
    assert set(APPLICATIONS) <= set(page.ids)


def test_real_images_are_told_apart(results, made):
    text = (made(results), (results / "index.html").read_text())[1]
    assert '<section class="place real"><h3 id="real-fedstyle-run"><span class="badge real">real images</span>' in text
    assert '<section class="place"><h3 id="fnst-run"><span class="badge">stand-in</span>' in text


def test_markup_in_cells_is_text(results, made):
    write(results / "fnst" / "table1_centralised.csv", 'method,note\n"<script>alert(1)</script>","a & b"\n')
    page = made(results)
    assert ["<script>alert(1)</script>", "a & b"] in page.rows
    assert "Run on “<art>”" in page.text and "script" not in page.tags


def test_images_are_in_the_page(results, made):
    draw(results / "fnst" / "classes.png", 900, 1700, noise=True)
    assert (results / "fnst" / "classes.png").stat().st_size > SMALL
    page = made(results)
    small, large = page.sources
    assert base64.b64decode(small.partition(",")[2]) == (results / "fnst" / "styled.png").read_bytes()
    assert large.startswith("data:image/webp;base64,")
    shown = cv2.imdecode(np.frombuffer(base64.b64decode(large.partition(",")[2]), np.uint8), cv2.IMREAD_COLOR)
    assert shown.shape == (847, 1600, 3)


def test_files_that_nobody_announced_are_shown(results, made):
    write(results / "fnst" / "my_study.csv", "method,score\nours,0.123\n")
    draw(results / "fnst" / "extra.png")
    page = made(results)
    assert ["ours", "0.123"] in page.rows and "extra.png" in page.text and len(page.sources) == 2


def test_what_is_missing_is_named_with_its_command(results, made):
    text = made(results).text
    assert "No tables in plfl/ yet: python -m tffapps.plfl makes them." in text
    assert "No tables in fedstyle/ yet" in text
    assert "No run on real images here: python -m tffapps.fnst --data FOLDER --results results/real makes one." in text
    assert "Not there: table2_single_and_federated.csv, table4_gains.csv, table1_centralised.csv," in text


def test_an_empty_folder(tmp_path, made, capsys):
    text = made(tmp_path, "--summary").text
    assert "There are no claims to sum up. bash run_all.sh makes them." in text
    assert text.count(" yet: python -m tffapps.") == len(APPLICATIONS)
    assert capsys.readouterr().out.startswith("no tables to sum up\n")


def test_broken_files_are_one_line_each(results, made, capsys):
    write(results / "fnst" / "table4_gains.csv", "a,b\n1,2,3\n")
    whole = (results / "fnst" / "styled.png").read_bytes()
    (results / "fnst" / "styled.png").write_bytes(whole[: len(whole) // 2])
    (results / "fnst" / "classes.png").write_bytes(b"not a picture")
    page = made(results)
    errors = capsys.readouterr().err.splitlines()
    assert errors == [
        "tffapps.report: fnst/table4_gains.csv row 2 has 3 fields, the row of column names 2",
        "tffapps.report: fnst/classes.png is not a whole PNG file",
        "tffapps.report: fnst/styled.png is not a whole PNG file",
    ]
    for line in errors:
        assert page.text.count(line.removeprefix("tffapps.report: ")) == 2  # on top, and where it belongs
    assert not page.sources and ["fnst", "5", "S5C5", "300", "0.600 [0.550, 0.650]", "120", "60"] in page.rows


def test_a_damaged_picture_of_the_right_length(results, made, capsys):
    path = results / "fnst" / "styled.png"
    data = bytearray(path.read_bytes())
    middle = data.index(b"IDAT") + 8
    data[middle : middle + 8] = bytes(8)
    path.write_bytes(bytes(data))
    page = made(results)
    assert not page.sources and "styled.png is not a whole PNG file" in capsys.readouterr().err


def test_a_folder_that_is_not_there(tmp_path, capsys, made):
    assert main(["--results", str(tmp_path / "nowhere")]) == 2
    errors = capsys.readouterr().err
    assert "nowhere: no such folder" in errors and errors.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


def test_a_page_that_cannot_be_written_leaves_the_old_one(results, made, capsys, monkeypatch):
    made(results)
    before = (results / "index.html").read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main(["--results", str(results)]) == 3
    assert "no space left to write" in capsys.readouterr().err
    assert (results / "index.html").read_text() == before
    assert sorted(path.name for path in results.iterdir()) == ["fnst", "index.html", "real"]


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """The results of this checkout, without its runs."""
    folder = tmp_path_factory.mktemp("committed") / "results"
    shutil.copytree(ROOT / "results", folder, ignore=shutil.ignore_patterns("runs", "index.html"))
    return folder


def test_the_committed_results(committed, made, capsys):
    page = made(committed, "--summary")
    assert capsys.readouterr().err == ""
    files = [path.relative_to(committed).as_posix() for path in committed.rglob("*.[cp][sn][vg]")]
    assert len(files) > 70
    studies = ("methods/", "attacks/", "stain_models/", "fedsda_")  # which docs/methods.md and fedsda.md show
    assert [name for name in files if name not in page.text and not name.startswith(studies)] == []
    assert len(page.sources) == sum(name.endswith(".png") for name in files)
    assert not re.search(r"(?<![\w.>])/(home|root|tmp|work|usr|var|mnt)/", page.text)
    assert (committed / "index.html").stat().st_size < 5e6


def test_the_committed_page_is_of_these_tables(committed, made):
    page = ROOT / "results" / "index.html"
    changed = subprocess.run(["git", "status", "--porcelain", "results"], cwd=ROOT, capture_output=True, text=True)
    if changed.returncode or changed.stdout or not page.exists():
        pytest.skip("results/ are not the committed ones, or have no page")
    stale = {tuple(row) for row in made(committed).rows} - {tuple(row) for row in Page(page.read_text()).rows}
    assert not stale, "run `python -m tffapps.report` again"
