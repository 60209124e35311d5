"""Tables on records written by hand."""

import pathlib

import numpy as np
import pandas as pd
import pytest

from tffapps.fnst.tables import BEST, LAST, f1_per_class, scores_of, table1, table2, table3, table4
from tffapps.study import Record


def record(method, site, values, rare=5, augmentation="", seed=0, made=0):
    """`values`: (accuracy, macro F1, AUC) of each round."""
    rounds = pd.DataFrame(values, columns=["accuracy", "macro_f1", "auroc"])
    rounds.insert(0, "round", range(1, len(rounds) + 1))
    rounds["f1_normal"] = rounds.macro_f1 / 2
    labels = {
        "method": method, "site": site, "rare": rare, "augmentation": augmentation, "made": made, "seed": seed
    }  # fmt: skip
    return Record(labels, rounds, pd.DataFrame(), {}, pathlib.Path(), list)


RECORDS = [
    record("centralised", "all data", [(0.5, 0.4, 0.9), (0.6, 0.5, 0.8)], rare=0),
    record("separate", "client1", [(0.2, 0.1, 0.6)]),
    record("separate", "client2", [(0.1, 0.3, 0.5)]),
    record("fedavg", "federation", [(0.3, 0.2, 0.7), (0.4, 0.3, 0.6)]),
    record("fedavg", "federation", [(0.3, 0.4, 0.6), (0.4, 0.5, 0.7)], seed=1),
    record("fnst", "federation", [(0.5, 0.6, 0.8)], augmentation="S5C5", made=75),
    record("repeated", "federation", [(0.4, 0.5, 0.8)], augmentation="S5C5", made=75),
]


@pytest.fixture
def scores():
    return scores_of(RECORDS)


def test_the_best_round_by_auc_and_the_last_one(scores):
    first = table1(scores).set_index("chosen")
    assert first.loc[BEST, ["accuracy", "macro_f1", "auroc", "round"]].tolist() == [0.5, 0.4, 0.9, 1]
    assert first.loc[LAST, ["accuracy", "macro_f1", "auroc", "round"]].tolist() == [0.6, 0.5, 0.8, 2]
    assert first.loc[BEST, "paper_auroc"] == 0.8906 and np.isnan(first.loc[LAST, "paper_auroc"])


def test_each_seed_has_its_own_best_round(scores):
    second = table2(scores)
    row = second[(second.site == "federation") & (second.chosen == BEST)].iloc[0]
    assert row.macro_f1 == pytest.approx((0.2 + 0.5) / 2) and row.auroc == 0.7 and row.seeds == "0 1"
    assert (row.paper_accuracy, row.paper_macro_f1, row.paper_auroc) == (0.3356, 0.1504, 0.7878)
    alone = second[(second.site == "client2") & (second.chosen == BEST)].iloc[0]
    assert alone.paper_auroc == 0.5435 and alone.rare == 5


def test_the_papers_values_stand_beside_fnst_alone(scores):
    third = table3(scores)
    best = third[third.chosen == BEST].set_index("method")
    assert best.loc["fnst", "paper_macro_f1"] == 0.3246 and np.isnan(best.loc["repeated", "paper_macro_f1"])
    assert set(third.made) == {75}


def test_gains_are_worked_out(scores):
    row = table4(scores).query("method == 'fnst' and chosen == 'last'").iloc[0]
    assert row.macro_f1_over_fedavg == pytest.approx(0.6 - (0.3 + 0.5) / 2)
    assert row.accuracy_over_best_alone == pytest.approx(0.5 - 0.2)  # client1's
    assert row.macro_f1_over_best_alone == pytest.approx(0.6 - 0.3)  # client2's
    # The paper's Table 4 prints 0.1504 where its Tables 2 and 3 give:
    assert row.paper_macro_f1_over_fedavg == pytest.approx(0.3246 - 0.1504)
    assert row.paper_auroc_over_best_alone == pytest.approx(0.7986 - 0.6717)


def test_gains_without_anything_to_compare_with_are_blank():
    row = table4(scores_of(RECORDS[-2:])).iloc[0]
    assert pd.isna(row.macro_f1_over_fedavg) and pd.isna(row.accuracy_over_best_alone)


def test_sites_of_ones_own_have_no_number_of_rare_images():
    own = [record("fedavg", "federation", [(0.3, 0.2, 0.7)], rare=0),
           record("fnst", "federation", [(0.5, 0.6, 0.8)], rare=0, augmentation="S3C4", made=9)]  # fmt: skip
    scores = scores_of(own)
    assert scores.rare.isna().all()
    row = table4(scores).iloc[0]
    assert row.macro_f1_over_fedavg == pytest.approx(0.4) and pd.isna(row.paper_macro_f1_over_fedavg)


def test_f1_by_class_is_the_mean_over_seeds():
    curves = f1_per_class(RECORDS, ["normal"])
    rows = curves[(curves.method == "fedavg") & (curves["round"] == 2)]
    assert rows.f1_normal.tolist() == pytest.approx([(0.15 + 0.25) / 2]) and rows.seeds.tolist() == ["0 1"]
    assert set(curves.method) == {"fedavg", "fnst", "repeated"}
