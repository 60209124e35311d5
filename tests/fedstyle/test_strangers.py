"""Artists who join after training: the catalogue's metric, who is left out, what is chosen; and the command."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from tests.applications import working_in
from tffapps.fedstyle import holdout, strangers
from tffapps.fedstyle.leaving import pictures_of
from tffapps.fedstyle.metric import Metric, spread_of
from tffapps.fedstyle.strangers import Compared, Measure


def test_a_spread_is_the_scatter_of_an_artists_pictures():
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    spread = spread_of(vectors)
    np.testing.assert_allclose(spread.T @ spread, np.cov(vectors.T), atol=1e-5)
    assert spread_of(vectors, 2).shape == (2, 4) and spread_of(vectors[:1]).shape == (0, 4)


def test_a_metric_is_the_covariance_within_artists_undone():
    rng = np.random.default_rng(1)
    artists = [rng.normal(size=(9, 3)) * [3.0, 1.0, 0.1] for _ in range(4)]
    within = sum(np.cov(vectors.T) for vectors in artists)
    values, axes = np.linalg.eigh(within)
    least = 0.01 * values[-1]
    expected = axes @ np.diag(np.sqrt(least / (values + least))) @ axes.T
    metric = Metric.of([spread_of(vectors) for vectors in artists], 0.01)
    np.testing.assert_allclose(metric(np.eye(3)), expected, atol=1e-5)
    for empty in ([], [np.zeros((0, 3), np.float32)], [np.zeros((2, 3), np.float32)]):
        np.testing.assert_array_equal(Metric.of(empty)(np.ones((1, 3))) if len(empty) else np.ones((1, 3)), 1)


def test_everybody_has_a_turn_before_anybodys_second():
    names = [*"abcdefgh"]
    every = strangers.pairs(names, 99)
    assert {frozenset(pair) for pair in every} == {frozenset(pair) for pair in itertools.combinations(names, 2)}
    assert len(every) == 28 and {*itertools.chain(*every[:4])} == {*itertools.chain(*every[4:8])} == {*names}
    assert len(strangers.pairs(names[:5], 99)) == 10 and strangers.pairs(names, 3) == every[:3]


def of_two_newcomers(noise=0.05):
    """Five artists on the axes of a space, and one large direction in which everybody's pictures differ."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(
        [(f"{artist}{number}", artist, split) for artist in "abcde"
         for split, count in (("train", 8), ("val", 4), ("test", 6), ("public", 2)) for number in range(count)],
        columns=["path", "label", "split"],
    )  # fmt: skip
    pictures = pictures_of(rows, [*"abcde"], 5)
    vectors = np.eye(6)[pictures.labels] + noise * rng.normal(size=(len(rows), 6))
    vectors[:, 5] += 4 * rng.normal(size=len(rows))
    return pictures, vectors


def test_a_metric_finds_newcomers_where_cosines_do_not():
    pictures, vectors = of_two_newcomers()
    assert (
        pictures.members == 3 and pictures.gallery.sum() == 25 and not pictures.gallery[pictures.part != "train"].any()
    )
    compared = Compared(vectors, pictures)
    plain, seen = compared.judged(Measure()), compared.judged(Measure(0.001))
    assert plain.top_1("test") < 0.7 and seen.top_1("test") == 1 and seen.map_10("val") > 0.95 > plain.map_10("val")
    assert all(seen.auroc("test", rule) > 0.95 for rule in strangers.OPEN_SET)
    assert seen.found["test"].shape == (12, 2) and len(seen.familiar["val"]["nearest"]) == 20 == 12 + 8
    enrolled, others = pictures.enrolled_and_not()
    assert len(enrolled) == 10 and len(others) == 12 and len(seen.own) == 22 and pictures.gallery[enrolled].all()
    nearest = compared.judged(Measure(voting=3))
    assert nearest.map_10("test") == plain.map_10("test") and nearest.top_1("test") <= 1


def test_pictures_that_ask_change_nothing_for_others():
    """No picture of the parts val and test is in a catalogue or its metric."""
    pictures, vectors = of_two_newcomers()
    moved = vectors.copy()
    moved[pictures.part == "test"] += 7.0
    before, after = (Compared(each, pictures).judged(Measure(0.01)) for each in (vectors, moved))
    np.testing.assert_array_equal(before.found["val"], after.found["val"])
    np.testing.assert_array_equal(before.familiar["val"]["all"], after.familiar["val"]["all"])
    assert not np.array_equal(before.familiar["test"]["all"], after.familiar["test"]["all"])


def test_the_command(place, capsys):
    given = ["--profile", "smoke", "--standin-artists", "6", "--artists", "0", "--splits", "2", "--rounds", "1"]
    given += ["--standin-pictures", "16"]
    with working_in(place):
        command = [*given, "--pairs", "4", "--enrolled", "3", "--select", "validation", "--results", "left"]
        assert holdout.main(command) == 0
        for wrong, why in (
            ([*given, "--pairs", "4"], "--select: what is served"), ([*command, "--enrolled", "99"], "only"),
            ([*command, "--pairs", "1"], "3 pairs"), ([*command, "--methods", "fedproto"], "no encoder of its own"),
            ([*command, "--artists", "4"], "takes 6 or more"),
        ):  # fmt: skip
            assert holdout.main(wrong) == 2 and why in capsys.readouterr().err, wrong
    tables = {name: pd.read_csv(place / "left" / "fedstyle" / f"{name}.csv") for name in (
        "holdout", "holdout_claims", "holdout_chosen", "holdout_pairs",
    )}  # fmt: skip
    scores = tables["holdout"].set_index(["encoder", "measure"])
    assert (
        scores.loc[("served", "chosen"), "pairs"] == 4
        and scores[["top_1", "map_10", "membership_auroc"]].stack().between(0, 1).all()
    )
    chosen = tables["holdout_chosen"]
    assert (chosen.chosen_by_pairs >= 1).all() and set(chosen.split) == {"r0f0", "r0f1"}
    assert set(tables["holdout_claims"].baseline) == {"neighbours", "frozen, centred"}
    assert len(tables["holdout_pairs"]) == 8
    trained = {path.name for path in (place / "left" / "fedstyle" / "runs").iterdir()}
    assert len(trained) == 4 and all("4artists" in name and "without" in name for name in trained)
