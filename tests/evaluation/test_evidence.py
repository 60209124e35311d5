"""Tables and claims of runs whose answers are known: scores, gains, corrected p-values and verdicts by hand."""

import numpy as np
import pandas as pd
import pytest

from tests.evaluation import made
from tffapps.errors import UserError
from tffapps.evaluation import evidence, paired
from tffapps.evaluation.evidence import Claim
from tffapps.evaluation.metrics import mean_of

CLASSES = ["no", "yes"]


@pytest.fixture
def entry(tmp_path):
    def entry(method, right, of=20, *, seed=0, trained=20, clients=None, start=0, subjects=None, **labels):
        """Of a run that names the first `right` images; `start`: the first image's number."""
        images = [f"image{start + number:03}" for number in range(of)]
        rows = made.hits(right, of, CLASSES, images=images, clients=clients, subjects=subjects)
        return made.record(tmp_path, {"method": method, "seed": seed, **labels}, rows, trained=trained).entry()

    return entry


def claim(method="ours", baseline="theirs", metric="accuracy", **more):
    return Claim((method, {"method": method}), (baseline, {"method": baseline}), metric, "title {}", **more)


def claims(entries, *declared):
    return evidence.claims(entries, declared)


# ---- tables ----


def test_a_mean_over_splits_of_means_over_seeds(entry):
    """Another split has other images; seeds of a split have the same."""
    entries = [entry("a", 10), entry("a", 20, seed=1), entry("a", 5, start=20), entry("b", 20)]
    table = evidence.table(entries, ["method"], ["accuracy"]).set_index("method")
    a = table.loc["a"]
    assert a.accuracy == pytest.approx(((0.5 + 1) / 2 + 0.25) / 2)
    assert a.accuracy_std == pytest.approx(np.std([0.5, 1, 0.25], ddof=1))
    assert (a["images"], a.subjects, a.splits, a.seeds) == (40, 40, 2, "0 1")
    assert a.accuracy_low < a.accuracy < a.accuracy_high
    b = table.loc["b"]
    assert (b.accuracy, b.accuracy_low, b.accuracy_high) == (1, 1, 1) and np.isnan(b.accuracy_std)


def test_fewer_subjects_have_wider_intervals(entry):
    """The same answers, of images that come five to a subject: first or last ones."""
    five = [f"s{number // 5}" for number in range(20)]
    table = evidence.table([entry("images", 10), entry("subjects", 10, subjects=five)], ["method"], ["accuracy"])
    assert table.accuracy.tolist() == [0.5, 0.5] and table.subjects.tolist() == [20, 4]
    width = (table.accuracy_high - table.accuracy_low).tolist()
    assert width[1] > 1.5 * width[0]


def test_one_subject_has_a_score_and_no_interval(entry):
    (row,) = evidence.table([entry("a", 4, of=5, subjects=["s"] * 5)], ["method"], ["accuracy"]).to_dict("records")
    assert row["accuracy"] == pytest.approx(0.8) and np.isnan([row["accuracy_low"], row["accuracy_high"]]).all()


def test_the_worst_client_is_named(entry):
    clients = ["a"] * 10 + ["b"] * 10
    table = evidence.table([entry("m", 14, clients=clients)], ["method"], ["accuracy"], worst="accuracy")
    assert table.worst_client.tolist() == ["b"] and table.worst_client_accuracy.tolist() == pytest.approx([0.4])


def test_the_images_of_one_client(entry):
    whole = entry("m", 14, clients=["a"] * 10 + ["b"] * 10)
    table = evidence.table([evidence.of_client(whole, "b")], ["method"], ["accuracy"])
    assert table.accuracy.tolist() == pytest.approx([0.4]) and table["images"].tolist() == [10]
    assert evidence.of_client(whole, "c") is None


def test_a_run_without_predictions_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no predictions of a classifier's test images"):
        evidence.classifier_entry({"seed": 0}, tmp_path)
    with pytest.raises(UserError, match="cannot be understood"):
        evidence.measured_entry({"seed": 0}, tmp_path, ["map"])


# ---- claims ----


def test_a_gain_its_interval_and_a_verdict(entry):
    (row,) = claims([entry("ours", 18), entry("theirs", 8)], claim()).to_dict("records")
    assert (row["method"], row["baseline"], row["role"], row["claim"]) == ("ours", "theirs", "baseline", "title ")
    assert (row["method_score"], row["baseline_score"]) == pytest.approx((0.9, 0.4))
    assert row["gain"] == pytest.approx(0.5) and row["gain_low"] > 0.2 and row["gain_high"] < 0.8
    # Ten images differ, all in one direction: 2 of 1024 swaps.
    assert row["p"] == pytest.approx(2 / 1024, abs=0.003) and row["test"] == paired.SWAP and row["verdict"] == "ahead"
    (other,) = claims([entry("ours", 8), entry("theirs", 18)], claim()).to_dict("records")
    assert other["gain"] == pytest.approx(-0.5) and other["verdict"] == "behind"


def test_p_values_are_corrected_for_all_rows_together(entry):
    entries = [entry("ours", 18), entry("theirs", 8), entry("close", 17), entry("equal", 18)]
    found = claims(entries, *(claim(baseline=name) for name in ("close", "theirs", "equal", "nobody")))
    assert found.baseline.tolist() == ["close", "theirs", "equal"]  # nobody has run
    assert found.p_holm.tolist() == pytest.approx(paired.holm(found.p.tolist()).tolist())
    assert found.p_holm[1] == pytest.approx(3 * found.p[1]) and found.p[2] == 1 and found.p[0] == 1
    assert found.verdict.tolist() == ["level", "ahead", "level"]


def test_what_has_no_images_in_common_is_not_comparable_and_not_counted(entry):
    entries = [entry("ours", 18), entry("theirs", 8), entry("elsewhere", 2, start=50)]
    found = claims(entries, claim(), claim(baseline="elsewhere")).set_index("baseline")
    other = found.loc["elsewhere"]
    assert (other.verdict, other.test) == ("not comparable", "no images in common")
    assert other.baseline_score == pytest.approx(0.1) and np.isnan(other[["gain", "p", "p_holm"]].astype(float)).all()
    assert found.p_holm["theirs"] == found.p["theirs"] and found.verdict["theirs"] == "ahead"
    one = [entry(name, right, of=5, subjects=["s"] * 5) for name, right in (("ours", 5), ("theirs", 0))]
    (row,) = claims(one, claim()).to_dict("records")
    assert (row["verdict"], row["test"]) == ("not comparable", "images of one subject")


def test_only_seeds_that_both_have_are_compared(entry):
    entries = [entry("ours", 18), entry("ours", 0, seed=1), entry("theirs", 8), entry("theirs", 20, seed=2)]
    (row,) = claims(entries, claim()).to_dict("records")
    assert row["gain"] == pytest.approx(0.5) and row["seeds"] == "0" and row["method_score"] == pytest.approx(0.9)


def test_splits_that_overlap_are_compared_by_the_corrected_t(entry):
    """Of two splits, half of the images are in both."""
    runs = [(name, right + start // 10, start) for name, right in (("ours", 17), ("theirs", 9)) for start in (0, 10)]
    runs[1] = ("ours", 20, 10)
    found = claims([entry(name, right, start=start) for name, right, start in runs], claim())
    assert found.test.tolist() == [paired.CORRECTED_T] and found.splits.tolist() == [2]
    assert found.gain.tolist() == pytest.approx([(0.4 + 0.5) / 2])


def test_a_loss_that_falls_is_a_gain(entry):
    """Of a right answer it is -log 0.8, of a wrong one -log 0.2."""
    entries = [entry("ours", 18), entry("theirs", 8)]
    (row,) = claims(entries, claim(metric="loss")).to_dict("records")
    assert row["method_score"] < row["baseline_score"] and row["verdict"] == "ahead"
    assert (
        row["gain"] == pytest.approx(0.5 * np.log(0.8 / 0.2)) and 0 < row["gain_low"] < row["gain"] < row["gain_high"]
    )


def test_the_best_of_several_baselines(entry):
    alone = [entry("theirs", right, site=site) for site, right in (("a", 8), ("b", 12), ("c", 10))]
    declared = claim(best="site"), claim(metric="loss", best="site")
    found = claims([entry("ours", 18, site="all"), *alone], *declared)
    assert found.baseline.tolist() == ["theirs: b"] * 2 and found.gain[0] == pytest.approx(0.3)  # the lowest loss too


def test_one_comparison_for_each_value_with_the_same_of_the_others(entry):
    entries = [
        entry("ours", 18, network="x", rare=5), entry("ours", 16, network="y", rare=5),
        entry("theirs", 10, network="x"), entry("theirs", 6, network="y"), entry("theirs", 20, network="z"),
    ]  # fmt: skip
    found = claims(entries, claim(each="network", same=("network", "rare"), control=True))
    assert found.claim.tolist() == ["title x", "title y"] and found.gain.tolist() == pytest.approx([0.4, 0.5])
    assert set(found.role) == {"control"}
    assert claims(entries[:1], claim()).empty and claims([], claim()).empty


def test_labels_that_may_have_several_values(entry):
    entries = [entry("ours", 18), entry("mine", 10), entry("theirs", 10)]
    several = Claim(
        ("{}", {"method": ("ours", "mine")}), ("theirs", {"method": "theirs"}), "accuracy", "t", each="method"
    )
    assert claims(entries, several).method.tolist() == ["ours", "mine"]


def test_what_is_measured_on_every_image(tmp_path):
    """Of a metric that is better when it is smaller, too."""

    def measured(method, value):
        names = [f"tile{number}" for number in range(12)]
        rows = pd.DataFrame({"image": names, "subject": names, "client": "iron", "judge": "", "part": "test"})
        folder = made.folder_with(tmp_path, rows.assign(map=value, mvi=1 - value + np.arange(12) / 100))
        return evidence.measured_entry({"method": method, "seed": 0}, folder, ["map", "mvi"])

    entries = [measured("ours", 0.75), measured("theirs", 0.5)]
    names = {"map": mean_of(0), "mvi": mean_of(1, larger_is_better=False)}
    found = evidence.claims(entries, [claim(metric="map"), claim(metric="mvi")], names)
    assert found.gain.tolist() == pytest.approx([0.25, 0.25]) and found.verdict.tolist() == ["ahead", "ahead"]
    table = evidence.table(entries, ["method"], names)
    assert table["map"].tolist() == [0.75, 0.5] and table.mvi.tolist() == pytest.approx([0.305, 0.555])
