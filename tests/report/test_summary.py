"""What the page says of claims: as their table decided them, in words, in lines of text and in the forest plot."""

import csv
import pathlib

import pytest

from tests.report.conftest import CLAIMS, STYLES, write
from tffapps.report.collect import collect
from tffapps.report.forest import Group, forest
from tffapps.report.sentences import sentence
from tffapps.report.sheet import read
from tffapps.report.summary import comparisons, in_text, tally

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def claims(tmp_path):
    write(tmp_path / "claims.csv", CLAIMS)
    return comparisons({"claims.csv": read(tmp_path / "claims.csv")})


def test_rows_are_read_as_they_are(claims):
    first, second, third = claims
    assert (first.method.name, first.method.mean, first.baseline.high) == ("fnst S5C5", 0.5, 0.3)
    assert (first.gain, first.low, first.high, first.p, first.verdict) == (0.25, 0.2, 0.3, 0.0015, "ahead")
    assert second.control and not first.control and third.gain is None
    assert tally(claims) == "1 ahead, 1 level, 1 not comparable"


def test_in_sentences(claims):
    assert [sentence(claim) for claim in claims] == [
        'Macro F1: <strong>fnst S5C5</strong> 0.500 [0.450, 0.550] against fedavg 0.250 [0.200, 0.300]: +0.250 [0.200, '
        '0.300], p = 0.002, <b class="verdict ahead">ahead</b> (120 images of 60 subjects).',
        "Macro F1: <strong>fnst S5C5</strong> 0.500 [0.450, 0.550] against the control repeated 0.510 [0.460, 0.560]: "
        '−0.010 [−0.060, 0.040], p = 0.700, <b class="verdict level">level</b> (120 images of 60 subjects).',
        "Macro F1: <strong>fnst S5C5</strong> 0.500 and elsewhere 0.400: no images in common.",
    ]  # fmt: skip


def test_the_forest_has_a_line_for_each_claim_that_can_be_drawn(claims):
    drawn = forest([Group("fnst, <art>", True, claims), Group("empty", False, claims[2:])])
    assert drawn.count("<rect") == 4 and drawn.count('stroke-width="2.5"') == 4  # for wide screens and for narrow ones
    assert drawn.count("<svg") == 2 and drawn.count('class="narrow"') == 1 and drawn.count(">n 120<") == 2
    assert "fnst, &lt;art&gt;" in drawn and "empty" not in drawn
    assert "+0.250 ahead" in drawn and "−0.010 level" in drawn and "elsewhere" not in drawn
    assert 'fill="var(--good, #1d6b3c)"' in drawn.partition("<rect")[2].partition(">")[0]  # filled: decided


def test_without_claims_nothing_is_said(tmp_path):
    write(tmp_path / "c.csv", "claim,method_score\nx,nan\n")
    assert comparisons({}) == [] and comparisons({"claims.csv": read(tmp_path / "c.csv")}) == []


def test_as_text(tmp_path):
    write(tmp_path / "fedstyle" / "comparison.csv", STYLES)
    write(tmp_path / "fnst" / "claims.csv", CLAIMS)
    lines = in_text(collect(tmp_path)).splitlines()
    assert lines[1].split() == [
        "fnst", "stand-in", "macro", "F1", "fnst", "S5C5", "0.500", "fedavg", "0.250", "+0.250", "[0.200,", "0.300]",
        "ahead", "120", "60",
    ]  # fmt: skip
    assert "plfl: no tables; `python -m tffapps.plfl` makes them" in lines


def test_the_committed_gain_is_what_the_table_says():
    folder = ROOT / "results" / "fedstyle"
    with open(folder / "comparison.csv", newline="") as file:
        accuracy = {row["method"]: float(row["accuracy"]) for row in csv.DictReader(file)}
    found = comparisons({"claims.csv": read(folder / "claims.csv")})[0]
    assert found.gain == pytest.approx(accuracy["fedstyle"] - accuracy["fedavg"], abs=1e-5)
