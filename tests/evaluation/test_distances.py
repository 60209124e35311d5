"""Distances between sets of vectors against closed forms and hand-computed numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import sqrtm

from tffapps.evaluation.distances import frechet_distance, kernel_distance, matrix_wasserstein


def vectors(count: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, width))


def by_square_root(a: np.ndarray, b: np.ndarray) -> float:
    """The Fréchet distance as its definition has it."""
    shift = a.mean(axis=0) - b.mean(axis=0)
    first, second = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    return float(shift @ shift + np.trace(first + second - 2 * sqrtm(first @ second).real))


@pytest.mark.parametrize(("count", "width"), [(40, 6), (6, 40)])
def test_frechet_of_equal_and_of_shifted_sets(count, width):
    rows, shift = vectors(count, width), np.arange(width) / width
    assert frechet_distance(rows, rows) == pytest.approx(0, abs=1e-12)
    assert frechet_distance(rows, rows + shift) == pytest.approx(shift @ shift, rel=1e-9)


def test_frechet_in_one_dimension():
    # Means 2 and 5, variances 4 and 49 (divided by n − 1): (2 − 5)² + (2 − 7)²
    first = np.array([[0.0], [2], [4]])
    second = np.array([[-2.0], [5], [12]])
    assert frechet_distance(first, second) == pytest.approx(9 + 25)


def test_frechet_scales_as_the_gaussians_do():
    rows = vectors(50, 4)
    rows -= rows.mean(axis=0)
    # C₂ = 9C₁, so tr(C₁ + 9C₁ − 6C₁) = 4 tr C₁
    assert frechet_distance(rows, 3 * rows) == pytest.approx(4 * np.trace(np.cov(rows, rowvar=False)))


def test_frechet_agrees_with_a_matrix_square_root():
    first, second = vectors(200, 8), vectors(150, 8, seed=1) @ vectors(8, 8, seed=2) + 0.5
    assert frechet_distance(first, second) == pytest.approx(by_square_root(first, second), rel=1e-9)


@pytest.mark.parametrize(("n", "m"), [(5, 7), (5, 90), (90, 7), (30, 31)])
def test_frechet_is_the_same_by_rows_and_by_columns(n, m):
    """Vectors of 30 numbers that lie in 4 dimensions: the distance is that within those 4, however many there are."""
    inner = [vectors(n, 4), vectors(m, 4, seed=1) * [1, 2, 3, 0]]
    turn = np.linalg.qr(vectors(30, 30, seed=2))[0][:4]
    found = frechet_distance(inner[0] @ turn, inner[1] @ turn)
    assert found == pytest.approx(frechet_distance(*inner), rel=1e-9)


def test_frechet_of_single_vectors_is_between_points():
    assert frechet_distance(np.array([[1.0, 2, 3]]), np.array([[1.0, 4, 0]])) == pytest.approx(4 + 9)
    several = vectors(9, 3)
    variance = np.trace(np.cov(several, rowvar=False))
    assert frechet_distance(several, several.mean(axis=0, keepdims=True)) == pytest.approx(variance)


def test_frechet_is_in_double_precision():
    rows = vectors(20, 3).astype(np.float32) + np.float32(1000)
    assert frechet_distance(rows, rows + np.float32(1)) == pytest.approx(3, rel=1e-6)


def test_kernel_distance_by_hand():
    # d = 2. Within a: (0·1/2 + 1)³ = 1; within b: (2·(−2)/2 + 1)³ = −1.
    # Across: x = (0, 0) gives 1 and 1, x = (1, 0) gives (1 + 1)³ = 8 and (−1 + 1)³ = 0: mean 10/4
    a, b = np.array([[0.0, 0], [1, 0]]), np.array([[2.0, 0], [-2, 0]])
    assert kernel_distance(a, b) == pytest.approx(1 - 1 - 2 * 10 / 4)


def test_kernel_distance_is_unbiased():
    same = [kernel_distance(vectors(20, 5, seed), vectors(30, 5, seed + 1000)) for seed in range(200)]
    error = np.std(same) / math.sqrt(len(same))
    assert abs(np.mean(same)) < 3 * error and min(same) < 0
    assert kernel_distance(vectors(20, 5), vectors(30, 5, 1) + 1) > 20 * error


def test_kernel_distance_of_many_rows_is_by_subsets():
    a, b = vectors(400, 5), vectors(300, 5, 1) + 0.3
    whole = kernel_distance(a, b)
    drawn = kernel_distance(a, b, subset_size=100)
    assert drawn != whole and drawn == pytest.approx(whole, rel=0.2)
    assert drawn == kernel_distance(a, b, subset_size=100) != kernel_distance(a, b, subset_size=100, seed=1)
    assert whole == kernel_distance(a, b, subset_size=400, seed=1)
    small = kernel_distance(a, b[:50], subset_size=100, subsets=5)  # the smaller set as a whole
    assert small == pytest.approx(kernel_distance(a, b[:50]), rel=0.5)


def test_kernel_distance_of_a_single_vector_is_unknown():
    assert math.isnan(kernel_distance(vectors(1, 4), vectors(5, 4)))


def test_matrix_wasserstein_by_hand():
    a = np.array([[0.0, 1], [2, 1]])
    b = np.array([[1.0, 1], [3, 5]])
    assert matrix_wasserstein(a, b) == pytest.approx((1 + 2) / 2)
    assert matrix_wasserstein(a, a[::-1]) == 0
    assert matrix_wasserstein(np.zeros((3, 6)), np.full((5, 6), 0.5)) == pytest.approx(0.5)


@pytest.mark.parametrize("distance", [frechet_distance, kernel_distance, matrix_wasserstein])
@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (np.zeros((3, 4)), np.zeros((3, 5)), r"\(3, 4\) and \(3, 5\)"),
        (np.zeros((0, 4)), np.zeros((3, 4)), "none of them empty"),
        (np.zeros(4), np.zeros((3, 4)), r"expected \(n, d\)"),
        (np.zeros((2, 4)), np.array([[np.nan] * 4, [0] * 4, [np.inf] * 4]), "2 of 3 vectors are not finite"),
    ],
)
def test_bad_sets_are_named(distance, a, b, words):
    with pytest.raises(ValueError, match=words):
        distance(a, b)
