"""Tables: means and spreads by hand, the paper's values, what ran."""

import pandas as pd
import pytest

from tffapps.results import over_seeds, with_paper, write_table

ROWS = pd.DataFrame(
    {
        "method": ["b", "b", "a", "b"],
        "seed": [0, 1, 0, 2],
        "accuracy": [0.5, 0.7, 0.9, 0.6],
    }
)


def test_whole_numbers_keep_their_digits_beside_blanks(tmp_path):
    table = pd.DataFrame({"count": pd.array([20874243, None], "Int64"), "name": ["=1", "b"], "share": [1 / 3, 2.0]})
    write_table(tmp_path / "t.csv", table)
    assert (tmp_path / "t.csv").read_text().splitlines() == ["count,name,share", "20874243,'=1,0.333333", ",b,2"]


def test_mean_and_spread_by_hand():
    table = over_seeds(ROWS, ["method"], ["accuracy"])
    assert table.method.tolist() == ["b", "a"]  # in the order they ran
    assert table.accuracy.tolist() == pytest.approx([0.6, 0.9])
    assert table.accuracy_std[0] == pytest.approx(0.1) and pd.isna(table.accuracy_std[1])
    assert table.seeds.tolist() == ["0 1 2", "0"]


def test_the_papers_value_is_beside_ours_or_blank(tmp_path):
    table = with_paper(over_seeds(ROWS, ["method"], ["accuracy"]), {("a",): 0.95}, ["method"])
    write_table(tmp_path / "t" / "table.csv", table, data="stand-in", profile="smoke")
    read = pd.read_csv(tmp_path / "t" / "table.csv")
    assert pd.isna(read.paper[0]) and read.paper[1] == 0.95
    assert set(read.data) == {"stand-in"} and set(read.profile) == {"smoke"}


def test_a_spreadsheet_runs_no_name(tmp_path):
    names = ["=HYPERLINK(1)", "+1+cmd", "@SUM(1)", "-2+3", "-", "plain", "0.5"]
    write_table(tmp_path / "t.csv", pd.DataFrame({"client": names, "gain": -0.5}), data="=1")
    read = pd.read_csv(tmp_path / "t.csv", dtype={"client": str})
    assert read.client.tolist() == ["'=HYPERLINK(1)", "'+1+cmd", "'@SUM(1)", "'-2+3", "-", "plain", "0.5"]
    assert set(read.data) == {"'=1"} and set(read.gain) == {-0.5}
