"""Tables on records written by hand."""

import numpy as np
import pandas as pd
import pytest

from tests.evaluation import made
from tffapps.evaluation import evidence
from tffapps.fnst.tables import CLAIMS, entries_of, f1_per_class, scores_of, table1, table2, table3, table4

CLASSES = ["normal", "adenoma"]  # they take turns among ten test images


def record(root, method, site, right, rare=5, augmentation="", seed=0, made_images=0, rounds=2):
    """Of its last model, `right` of ten answers are right; rounds have scores of their own, which no table of scores
    may be made of."""
    told = pd.DataFrame({"round": range(1, rounds + 1), "accuracy": 0.0, "macro_f1": (seed + 1) / 10, "auroc": 1.0})
    told["f1_normal"] = told.macro_f1 * told["round"]
    labels = {
        "method": method, "site": site, "rare": rare, "augmentation": augmentation, "made": made_images, "seed": seed
    }  # fmt: skip
    return made.record(root, labels, made.hits(right, 10, CLASSES), rounds=told)


@pytest.fixture(scope="module", autouse=True)
def _few_swaps():
    with made.few_swaps():
        yield


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return [
        record(root, "centralised", "all data", 9, rare=0),
        record(root, "separate", "client1", 2),
        record(root, "separate", "client2", 4),
        record(root, "fedavg", "federation", 5),
        record(root, "fedavg", "federation", 7, seed=1),
        record(root, "fnst", "federation", 8, augmentation="S5C5", made_images=75),
        record(root, "repeated", "federation", 6, augmentation="S5C5", made_images=75),
    ]


@pytest.fixture(scope="module")
def entries(records):
    return entries_of(records)


@pytest.fixture(scope="module")
def scores(entries):
    return scores_of(entries)


@pytest.fixture(scope="module")
def gains(entries):
    return table4(entries, own=True)


def row_of(table, **values):
    chosen = table[np.logical_and.reduce([table[name] == value for name, value in values.items()])]
    assert len(chosen) == 1, f"{len(chosen)} rows with {values}"
    return chosen.iloc[0]


def test_scores_are_the_last_models(scores):
    (row,) = table1(scores, own=True).to_dict("records")
    # The tenth image, an adenoma, is called normal: F1 10/11 of normal, 8/9 of adenomas.
    assert row["accuracy"] == pytest.approx(0.9) and row["macro_f1"] == pytest.approx((10 / 11 + 8 / 9) / 2)
    # Of 25 pairs the five with the one adenoma that looks normal are ties.
    assert row["auroc"] == pytest.approx((20 + 5 / 2) / 25)
    assert (row["images"], row["subjects"], row["splits"], row["seeds"]) == (10, 10, 1, "0")
    assert row["accuracy_low"] < 0.9 <= row["accuracy_high"] and np.isnan(row["accuracy_std"])
    assert (row["worst_client"], row["worst_client_macro_f1"]) == ("client1", pytest.approx(row["macro_f1"]))
    assert row["paper_auroc"] == 0.8906


def test_clients_alone_and_their_federation(scores):
    second = table2(scores, own=True)
    row = row_of(second, site="federation")
    assert row.accuracy == pytest.approx(0.6) and row.accuracy_std == pytest.approx(0.2 / 2**0.5) and row.seeds == "0 1"
    assert (row.paper_accuracy, row.paper_macro_f1, row.paper_auroc) == (0.3356, 0.1504, 0.7878)
    alone = row_of(second, site="client2")
    assert alone.paper_auroc == 0.5435 and alone.rare == 5 and alone.accuracy == pytest.approx(0.4)


def test_the_papers_values_stand_beside_fnst_alone(scores):
    third = table3(scores, own=True).set_index("method")
    assert third.loc["fnst", "paper_macro_f1"] == 0.3246 and np.isnan(third.loc["repeated", "paper_macro_f1"])
    assert set(third.made) == {75}


def test_the_papers_values_stand_beside_runs_on_its_own_images_alone(scores, gains, entries, monkeypatch):
    monkeypatch.setattr(evidence, "claims", lambda *arguments: gains.drop(columns="paper_gain"))
    for table in (table1(scores), table2(scores), table3(scores), table4(entries)):
        assert len(table) and not [name for name in table.columns if name.startswith("paper_")]


def test_gains_are_worked_out(gains):
    over_fedavg = row_of(gains, method="fnst S5C5", baseline="fedavg", metric="accuracy")
    assert over_fedavg.gain == pytest.approx(0.8 - 0.5) and over_fedavg.seeds == "0"  # the seed that both have
    alone = row_of(gains, method="fnst S5C5", baseline="best client alone: client2", metric="accuracy")
    assert alone.gain == pytest.approx(0.8 - 0.4)
    # The paper's Table 4 prints 0.1504 where its Tables 2 and 3 give:
    row = row_of(gains, method="fnst S5C5", baseline="fedavg", metric="macro_f1")
    assert row.paper_gain == pytest.approx(0.3246 - 0.1504)
    row = row_of(gains, method="fnst S5C5", baseline="best client alone: client2", metric="auroc")
    assert row.paper_gain == pytest.approx(0.7986 - 0.6717)
    assert gains[gains.method == "repeated S5C5"].paper_gain.isna().all() and len(gains) == 2 * 3 * 2


def test_fnst_is_held_against_fedavg_and_against_images_repeated(entries):
    found = evidence.claims(entries, CLAIMS)
    assert found[["method", "baseline", "role"]].values.tolist() == [
        ["fnst S5C5", "fedavg", "baseline"], ["fnst S5C5", "repeated", "control"],
    ]  # fmt: skip


def test_a_federation_of_other_rare_images_is_no_baseline(tmp_path):
    records = [
        record(tmp_path, "fedavg", "federation", 9, rare=15),
        record(tmp_path, "fedavg", "federation", 4, rare=5),
        record(tmp_path, "fnst", "federation", 8, augmentation="S5C5"),
        record(tmp_path, "repeated", "federation", 9, augmentation="S15C15", rare=15),
    ]
    (row,) = evidence.claims(entries_of(records), CLAIMS).to_dict("records")
    # With 5 rare images, 4 answers of 10 are right: 2 of 5 normal images, and 5 are called so; of adenomas the same.
    assert row["baseline"] == "fedavg" and row["baseline_score"] == pytest.approx(2 / 5)


def test_without_anything_to_compare_with_there_are_no_gains(records):
    assert table4(entries_of(records[-2:]), own=True).empty


def test_sites_of_ones_own_have_no_number_of_rare_images(tmp_path):
    own = [
        record(tmp_path, "fedavg", "federation", 4, rare=0),
        record(tmp_path, "fnst", "federation", 8, rare=0, augmentation="S3C4", made_images=9),
    ]
    entries = entries_of(own)
    assert scores_of(entries).rare.isna().all()
    table = table4(entries, own=True)
    assert row_of(table, metric="accuracy").gain == pytest.approx(0.4) and table.paper_gain.isna().all()


def test_f1_by_class_is_the_mean_over_seeds(records):
    curves = f1_per_class(records, ["normal"])
    rows = curves[(curves.method == "fedavg") & (curves["round"] == 2)]
    assert rows.f1_normal.tolist() == pytest.approx([(0.2 + 0.4) / 2]) and rows.seeds.tolist() == ["0 1"]
    assert set(curves.method) == {"fedavg", "fnst", "repeated"}
