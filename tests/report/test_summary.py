import csv
import pathlib

import pytest

from tests.report.conftest import ALONE, FNST, STYLES, write
from tffapps.report.collect import collect
from tffapps.report.sentences import sentence
from tffapps.report.sheet import read
from tffapps.report.summary import Comparison, Score, comparisons, in_text, standing

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def fnst(tmp_path):
    write(tmp_path / "2.csv", ALONE)
    write(tmp_path / "3.csv", FNST)
    return {"table2_single_and_federated.csv": read(tmp_path / "2.csv"), "table3_fnst.csv": read(tmp_path / "3.csv")}


def test_like_is_compared_with_like(fnst):
    (found,) = comparisons("fnst", fnst)
    assert (found.method.name, found.method.mean) == ("fnst S5C5", 0.5)  # the last round, not the best
    assert found.baseline.mean == 0.25  # with 5 rare images, not 10
    assert found.gain == 0.25 and found.verdict == "ahead"
    assert found.paper_gain == pytest.approx(0.3246 - 0.1504)  # the paper's are of the best round


def test_a_control_that_is_as_good_is_said_to_be(fnst):
    (found,) = comparisons("fnst", fnst)
    assert [other.name for other in found.as_good] == ["repeated"]
    assert sentence(found) == (
        "Macro F1, last round: <strong>fnst S5C5</strong> 0.500 ± 0.020 against fedavg 0.250 ± 0.010: +0.250, "
        "ahead by more than the spread of seeds (the paper: +0.174). As good or better without its idea: "
        "repeated 0.510 ± 0.030."
    )


def test_without_the_method_nothing_is_compared(fnst):
    assert comparisons("fnst", {"table2_single_and_federated.csv": fnst["table2_single_and_federated.csv"]}) == []
    assert comparisons("fnst", {}) == [] and comparisons("unknown", fnst) == []


@pytest.mark.parametrize(
    "one, other, expected",
    [
        ((0.80, 0.02), (0.77, 0.01), "ahead"),
        ((0.80, 0.02), (0.78, 0.03), "level"),
        ((0.70, 0.02), (0.77, 0.01), "behind"),
        ((0.998, 0.0001), (0.996, 0.0001), "level"),  # too little to matter
        ((0.80, None), (0.70, None), "one seed"),
    ],
)
def test_standing(one, other, expected):
    assert standing(Score("one", *one), Score("other", *other)) == expected


def test_a_baseline_that_is_level_is_as_good():
    found = Comparison("m", Score("new", 0.8, 0.05), Score("old", 0.79, 0.01), (Score("bad", 0.2, 0.01),), None, ())
    assert [other.name for other in found.as_good] == ["old"]


def test_every_network_is_compared_with_itself(tmp_path):
    lines = ["framework,model,round,site,accuracy,accuracy_std"]
    for model, gold, plfl in (("a", 0.5, 0.6), ("b", 0.7, 0.65)):
        lines += [f"gold,{model},initial,server,{gold},0.01", f"plfl,{model},0,server,0.1,0.01"]
        lines += [f"plfl,{model},1,server,{plfl},0.01", f"plfl,{model},1,client1,0.99,0.01"]
    write(tmp_path / "c.csv", "\n".join(lines) + "\n")
    found = comparisons("plfl", {"comparison.csv": read(tmp_path / "c.csv")})
    assert [(one.metric, round(one.gain, 6)) for one in found] == [("accuracy, a", 0.1), ("accuracy, b", -0.05)]


def test_the_best_client_alone(tmp_path):
    text = "method,site,accuracy\nfedavg,federation,0.6\nseparate,x,0.3\nseparate,y,0.7\nseparate,z,0.5\n"
    write(tmp_path / "c.csv", text)
    (found,) = comparisons("classify", {"comparison.csv": read(tmp_path / "c.csv")})
    assert found.baseline.name == "best client alone: y" and found.gain == pytest.approx(-0.1)


def test_as_text(tmp_path):
    write(tmp_path / "fedstyle" / "comparison.csv", STYLES)
    lines = in_text(collect(tmp_path)).splitlines()
    assert lines[1].split() == [
        "fedstyle", "<art>", "accuracy", "fedstyle", "0.644", "±", "0.049", "fedavg", "0.446", "±", "0.057", "+0.198",
        "ahead", "-", "-", "fedstyle/comparison.csv",
    ]  # fmt: skip
    assert "fnst: no tables; `python -m tffapps.fnst` makes them" in lines


def test_the_committed_gain_is_what_the_table_says():
    table = ROOT / "results" / "fedstyle" / "comparison.csv"
    with open(table, newline="") as file:
        accuracy = {row["method"]: float(row["accuracy"]) for row in csv.DictReader(file)}
    (found,) = comparisons("fedstyle", {table.name: read(table)})
    assert found.gain == pytest.approx(accuracy["fedstyle"] - accuracy["fedavg"])
