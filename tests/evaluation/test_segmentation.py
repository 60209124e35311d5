"""Hand-computed cases, and agreement with scikit-image and scikit-learn on random masks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from skimage import metrics
from sklearn.metrics import adjusted_rand_score

from tffapps.evaluation import segmentation
from tffapps.evaluation.segmentation import (
    adjusted_rand_index,
    grains,
    map_score,
    mean_scores,
    scores,
    variation_of_information,
)


def mask(*rows: str) -> np.ndarray:
    """A boundary mask drawn with # for boundary."""
    return np.array([[pixel == "#" for pixel in row] for row in rows])


def noisy(seed: int, share: float = 0.35, size: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).random((size, size)) < share


EMPTY, FULL = np.zeros((4, 5), bool), np.ones((4, 5), bool)


def test_a_diagonal_boundary_one_pixel_wide_divides():
    found = grains(np.eye(4, dtype=bool))
    assert found.max() == 2 and (found == 0).sum() == 4
    assert grains(mask(".#", "#.")).tolist() == [[1, 0], [0, 2]]


def test_thresholds():
    np.testing.assert_allclose(segmentation.THRESHOLDS, np.arange(0.5, 0.951, 0.05))
    assert len(segmentation.THRESHOLDS) == 10


def test_map_by_hand():
    # The first grain is found whole (IoU 1); of the second 4 of 5 pixels (0.8, a hit at 0.50 to 0.80: seven
    # thresholds); the third is missed. TP/(TP+FP+FN) is 2/3 at seven of them and 1/(1+1+2) at the other three.
    truth, predicted = mask("...#.....#.."), mask("...#....####")
    assert map_score(truth, predicted) == pytest.approx((7 * 2 / 3 + 3 / 4) / 10, rel=1e-12)


@pytest.mark.parametrize(("wide", "hits"), [(20, 10), (19, 10), (18, 9), (17, 8), (13, 4), (11, 2), (10, 1), (9, 0)])
def test_an_iou_of_exactly_the_threshold_is_a_hit(wide, hits):
    predicted = np.arange(20)[None] >= wide  # covers `wide` of the only grain's 20 pixels
    assert map_score(np.zeros((1, 20), bool), predicted) == pytest.approx(hits / 10)


@pytest.mark.parametrize("seed", range(5))
def test_hits_are_those_of_the_best_matching_one_to_one(seed):
    truth, predicted = noisy(seed, 0.5), noisy(seed, 0.5)
    predicted[np.random.default_rng(seed + 100).random(truth.shape) < 0.1] ^= True
    labels = grains(truth), grains(predicted)
    shares = np.zeros([side.max() for side in labels])
    for true, guess in np.ndindex(*shares.shape):
        one, other = labels[0] == true + 1, labels[1] == guess + 1
        shares[true, guess] = (one & other).sum() / (one | other).sum()
    expected = []
    for limit in segmentation.THRESHOLDS:
        hits = shares >= limit - 1e-12
        count = hits[linear_sum_assignment(-hits.astype(int))].sum()
        expected.append(count / (sum(shares.shape) - count))
    assert map_score(truth, predicted) == pytest.approx(np.mean(expected), rel=1e-12)
    assert 0 < np.mean(expected) < 1


def test_variation_by_hand():
    # Pixels that are no boundary in either: 1 1 2 3 of the truth in one predicted grain. H(Y|X) = 0 and
    # H(X|Y) = H(X) = -(1/2 log2 1/2 + 2 · 1/4 log2 1/4) = 1.5 bits; and the other way round.
    truth, predicted = mask("..#.#."), mask("......")
    assert variation_of_information(truth, predicted) == pytest.approx(1.5)
    assert variation_of_information(predicted, truth) == pytest.approx(1.5)
    # The truth has the rows 1 and 2, the prediction the columns 1 and 2: four overlaps of one pixel each, 4 - 1 - 1.
    assert variation_of_information(mask("...", "###", "..."), mask(".#.", ".#.", ".#.")) == pytest.approx(2.0)


def test_the_width_of_a_boundary_says_nothing_about_information():
    assert variation_of_information(mask("...#...."), mask("..###...")) == 0
    assert adjusted_rand_index(mask("...#...."), mask("..###...")) < 1


def test_rand_by_hand():
    # 1 1 0 2 against 1 0 0 2: no pair is together in both, one in each: (0 - 1·1/6) / (1 - 1/6) = -0.2.
    assert adjusted_rand_index(mask("..#."), mask(".##.")) == pytest.approx(-0.2)
    assert adjusted_rand_index(mask("..#."), mask("....")) == 0


@pytest.mark.parametrize("share", [0.2, 0.4, 0.7])
def test_agreement_with_the_libraries(share):
    for seed in range(4):
        truth, predicted = noisy(seed, share), noisy(seed + 50, share)
        predicted[:20] = truth[:20]
        labels = grains(truth), grains(predicted)
        inner = (labels[0] > 0) & (labels[1] > 0)
        found = scores(truth, predicted)
        expected = metrics.variation_of_information(labels[0][inner], labels[1][inner]).sum()
        assert found["mvi"] == pytest.approx(expected, rel=1e-9)
        assert 0 < expected < 5
        assert found["ari"] == pytest.approx(adjusted_rand_score(labels[0].ravel(), labels[1].ravel()), rel=1e-9)


@pytest.mark.parametrize("truth", [noisy(0), FULL, EMPTY, mask(".#."), mask("."), mask("#")])
def test_a_perfect_prediction(truth):
    assert scores(truth, truth.copy()) == {"map": 1.0, "mvi": 0.0, "ari": 1.0}


def test_nothing_on_one_side():
    truth, nothing = mask("..#.."), mask("#####")
    for found in (scores(truth, nothing), scores(nothing, truth), scores(truth, ~truth)):
        assert found["map"] == 0 and found["mvi"] == segmentation.NOTHING_COMMON
    # One segment on either side is one partition, so ARI cannot tell a single grain from nothing.
    assert scores(EMPTY, FULL) == {"map": 0.0, "mvi": 10.0, "ari": 1.0}


def test_the_label_numbers_say_nothing():
    truth, predicted = noisy(1), noisy(2)
    turned = scores(truth[::-1, ::-1], predicted[::-1, ::-1])
    assert turned == {name: pytest.approx(value) for name, value in scores(truth, predicted).items()}


def test_means_over_images():
    truth, predicted = np.stack([noisy(1), noisy(2)]), np.stack([noisy(1), noisy(3)])
    found = mean_scores(truth, predicted)
    assert tuple(found) == segmentation.METRICS
    other = scores(noisy(2), noisy(3))
    for name, perfect in (("map", 1), ("mvi", 0), ("ari", 1)):
        assert found[name] == pytest.approx((perfect + other[name]) / 2)
    assert mean_scores(iter(truth), (each for each in predicted)) == found


@pytest.mark.parametrize(
    ("truth", "predicted", "words"),
    [
        ([EMPTY], [EMPTY, FULL], "after 1 images there is no true mask"),
        ([EMPTY, FULL], [EMPTY], "after 1 images there is no predicted mask"),
        ([], [], "no masks"),
        ([EMPTY], [EMPTY[:3]], r"true mask \(4, 5\) and predicted mask \(3, 5\)"),
        ([EMPTY], [EMPTY * 0.4], "float64.*expected bool"),
        ([EMPTY[0]], [EMPTY[0]], r"\(5,\): expected bool \(height, width\)"),
        ([EMPTY[:0]], [EMPTY[:0]], "expected bool"),
    ],
)
def test_bad_masks_are_named(truth, predicted, words):
    with pytest.raises(ValueError, match=words):
        mean_scores(truth, predicted)
