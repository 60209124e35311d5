"""SSIM against its formula, and colour distances against SciPy's on the pixels themselves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from tffapps.evaluation.image_quality import ColourHistogram, colour_distance, ssim


def pictures(count: int, height: int, width: int, seed: int = 0, low: int = 0, high: int = 256) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, (count, height, width, 3), dtype=np.uint8)


def histogram(*batches: np.ndarray) -> ColourHistogram:
    result = ColourHistogram()
    for batch in batches:
        result.add(batch)
    return result


def test_equal_images_are_wholly_similar():
    images = pictures(3, 16, 20)
    np.testing.assert_allclose(ssim(images, images), [1, 1, 1])


def test_each_image_is_compared_with_its_own_original():
    originals, images = pictures(3, 16, 16), pictures(3, 16, 16, seed=1)
    images[1] = originals[1]
    found = ssim(originals, images)
    assert found.dtype == np.float64 and found[1] == pytest.approx(1)
    assert abs(found[[0, 2]]).max() < 0.2


def test_constant_images_by_hand():
    # No variance: the formula's second factor is 1, the first (2·100·150 + C) / (100² + 150² + C), C = (0.01·255)²
    originals, images = np.full((1, 9, 9, 3), 100, np.uint8), np.full((1, 9, 9, 3), 150, np.uint8)
    constant = (0.01 * 255) ** 2
    expected = (2 * 100 * 150 + constant) / (100**2 + 150**2 + constant)
    np.testing.assert_allclose(ssim(originals, images), [expected])


@pytest.mark.parametrize(("height", "width", "window"), [(5, 9, 5), (6, 6, 5), (3, 40, 3), (4, 3, 3)])
def test_the_window_of_a_small_image_is_the_largest_odd_one(height, width, window, monkeypatch):
    from tffapps.evaluation import image_quality

    whole, used = image_quality.structural_similarity, []
    monkeypatch.setattr(
        image_quality,
        "structural_similarity",
        lambda *pair, win_size, **others: used.append(win_size) or whole(*pair, win_size=win_size, **others),
    )
    found = ssim(pictures(1, height, width), pictures(1, height, width, seed=1))
    assert used == [window] and np.isfinite(found).all()


def test_no_images_no_values():
    assert ssim(pictures(0, 8, 8), pictures(0, 8, 8)).shape == (0,)


@pytest.mark.parametrize(
    ("originals", "images", "words"),
    [
        (pictures(2, 8, 8), pictures(3, 8, 8), "one image for each original"),
        (pictures(1, 8, 8), pictures(1, 8, 8) / 255, "float64"),
        (pictures(1, 8, 8)[0], pictures(1, 8, 8)[0], r"expected uint8 \(n, height, width, 3\)"),
        (pictures(1, 2, 8), pictures(1, 2, 8), "at least 3 pixels"),
    ],
)
def test_bad_images_are_named(originals, images, words):
    with pytest.raises(ValueError, match=words):
        ssim(originals, images)


def test_colour_distance_is_that_of_the_pixels():
    first, second = pictures(4, 10, 12, low=20, high=120), pictures(7, 9, 5, seed=1, low=10, high=256)
    channels = [
        wasserstein_distance(first[..., channel].ravel() / 255, second[..., channel].ravel() / 255)
        for channel in range(3)
    ]
    assert colour_distance(histogram(first), histogram(second)) == pytest.approx(np.mean(channels), rel=1e-12)


def test_colour_distance_by_hand():
    black, white = np.zeros((1, 2, 2, 3), np.uint8), np.full((1, 2, 2, 3), 255, np.uint8)
    red = black.copy()
    red[..., 0] = 255
    assert colour_distance(histogram(black), histogram(white)) == 1
    assert colour_distance(histogram(black), histogram(red)) == pytest.approx(1 / 3)
    # Half of the pixels travel the whole way.
    assert colour_distance(histogram(black), histogram(black, white)) == pytest.approx(1 / 2)
    assert colour_distance(histogram(red), histogram(red)) == 0


def test_batches_add_up():
    images = pictures(5, 6, 6)
    np.testing.assert_array_equal(histogram(images).counts, histogram(images[:2], images[2:]).counts)
    assert histogram(images).counts.sum(axis=1).tolist() == [5 * 36] * 3
    with pytest.raises(ValueError, match="float32"):
        histogram(images.astype(np.float32))
    with pytest.raises(ValueError, match="at least one image on each side"):
        colour_distance(histogram(images), histogram())
