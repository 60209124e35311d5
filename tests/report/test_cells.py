from tffapps.report.cells import Cell, grid, in_units
from tffapps.report.sheet import Sheet


def of(**columns: list[str]) -> dict[str, list[str]]:
    """The cells shown of a table, by their column's name."""
    names = tuple(columns)
    rows = tuple(dict(zip(names, values)) for values in zip(*columns.values()))
    shown = grid(Sheet(names, rows))
    return {column.name: [f"{cell.text}|{cell.spread}" for cell in column.cells] for column in shown.columns}


def test_a_mean_and_its_spread_share_a_cell():
    cells = of(accuracy=["0.81234", "0.7"], accuracy_std=["0.0251", ""])
    assert cells == {"accuracy": ["0.812|± 0.025", "0.700|"]}


def test_a_score_and_its_interval_share_a_cell():
    around = {"accuracy_low": ["0.75", ""], "accuracy_high": ["0.86", ""], "accuracy_std": ["0.02", "0.03"]}
    assert of(accuracy=["0.81234", "0.7"], **around) == {"accuracy": ["0.812|[0.750, 0.860]", "0.700|"]}
    found = of(method_score=["0.5"], method_low=["0.4"], method_high=["0.6"])
    assert found == {"method's score": ["0.500|[0.400, 0.600]"]}


def test_digits_that_count():
    assert of(fd=["13.5734", "5.7"]) == {"FD": ["13.6|", "5.7|"]}
    assert of(wd=["0.0472869", "0.0019"]) == {"WD": ["0.0473|", "0.0019|"]}
    assert of(kid=["-0.0083", "0.22"]) == {"KID": ["−0.008|", "0.220|"]}
    assert of(trainable=["20874243", "6043"]) == {"trainable": ["20,874,243|", "6,043|"]}
    assert of(patches_per_second=["1940.48", "58.36", "0.39"]) == {"patches/s": ["1,940|", "58.4|", "0.39|"]}
    assert of(share=["0", "0.5"]) == {"share": ["0%|", "50%|"]}
    assert of(first=["0.0416667", "1"]) == {"right first": ["4.2%|", "100.0%|"]}


def test_the_paper_keeps_the_digits_it_printed():
    assert of(paper_f1=["0.84", "0.8"]) == {"weighted F1": ["0.84|", "0.80|"]}
    assert of(paper_auroc=["0.9097", "0.79"]) == {"AUROC": ["0.910|", "0.790|"]}


def test_what_ran_is_said_once_and_the_paper_comes_last():
    columns = ("method", "paper_f1", "f1", "blank", "seeds", "data")
    rows = (("a", "0.8", "0.5", "", "0 1 2", "x"), ("b", "", "0.6", "", "0 1 2", "x"))
    shown = grid(Sheet(columns, tuple(dict(zip(columns, row)) for row in rows)))
    assert [(column.name, column.paper, column.numeric) for column in shown.columns] == [
        ("method", False, False),
        ("weighted F1", False, True),
        ("weighted F1", True, True),
    ]
    assert shown.columns[2].cells == (Cell("0.8"), Cell(""))
    assert shown.what_ran == (("data", "x"), ("seeds", "0, 1, 2"))


def test_what_differs_from_row_to_row_stays_a_column():
    assert of(seeds=["0 1 2", "0"], f1=["0.5", "0.6"])["seeds"] == ["0, 1, 2|", "0|"]


def test_a_paper_without_values_is_told():
    columns = ("method", "paper_f1")
    shown = grid(Sheet(columns, ({"method": "a", "paper_f1": ""},)))
    assert shown.no_paper and len(shown.columns) == 1


def test_bytes():
    assert [in_units(size) for size in (0, 12, 413824, 1.23e6, 39883504, 2e12)] == [
        "0", "12 B", "414 kB", "1.23 MB", "39.9 MB", "2,000 GB",
    ]  # fmt: skip
