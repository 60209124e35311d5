"""Amplitude normalisation against hand-computed means and NumPy's own transforms."""

from __future__ import annotations

import numpy as np
import pytest

from preprocessing import amplitude as module
from preprocessing.amplitude import AmplitudeMean, combine, normalise

SIZES = [(32, 32), (31, 32), (32, 31), (31, 33), (1, 1)]


def noise(count, size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *size, 3), dtype=np.uint8)


def amplitudes(images):
    return np.abs(np.fft.fft2(images.astype(float), axes=(1, 2)))


def mean_of(*batches, decay=0.1):
    mean = AmplitudeMean(decay, batches[0].shape[1:3])
    for batch in batches:
        mean.add(batch)
    return mean.value


@pytest.mark.parametrize("size", SIZES)
def test_the_amplitude_is_that_of_a_full_transform(size):
    images = noise(3, size)
    np.testing.assert_allclose(mean_of(images), amplitudes(images).mean(axis=0), rtol=1e-3, atol=0.05)


@pytest.mark.parametrize("size", SIZES)
def test_one_image_of_one_client_stays_as_it_is(size):
    image = noise(1, size)
    result = normalise(image, combine([mean_of(image)]))
    assert result.dtype == np.uint8 and np.abs(result.astype(int) - image).max() <= 1


def test_two_plain_images_meet_in_the_middle():
    dark, light = np.full((1, 8, 8, 3), 100, np.uint8), np.full((1, 8, 8, 3), 201, np.uint8)
    light[..., 2] = 120
    shared = combine([mean_of(dark), mean_of(light)])
    np.testing.assert_allclose(shared[0, 0], [150.5 * 64, 150.5 * 64, 110 * 64], rtol=1e-6)
    assert np.abs(shared[1:]).max() < 0.01
    for image in (dark, light):
        result = normalise(image, shared).astype(int)
        assert np.abs(result - [150.5, 150.5, 110]).max() <= 0.6


def test_the_running_mean_by_hand():
    """A ← 0.75 A + 0.25 a for a = 40, 80, 120 (times the 4 pixels), then over 1 − 0.75³."""
    batches = [np.full((2, 2, 2, 3), level, np.uint8) for level in (40, 80, 120)]
    batches[1][0], batches[1][1] = 70, 90  # a batch counts by its mean
    mean = AmplitudeMean(0.25, (2, 2))
    expected = []
    running = 0.0
    for number, (batch, level) in enumerate(zip(batches, (40, 80, 120)), 1):
        mean.add(batch)
        running = 0.75 * running + 0.25 * level
        expected.append(4 * running / (1 - 0.75**number))
        np.testing.assert_allclose(mean.value[0, 0], expected[-1], rtol=1e-5)
    assert expected[0] == 160 and mean.batches == 3


def test_few_batches_do_not_darken():
    images = noise(4, (16, 16))
    np.testing.assert_allclose(mean_of(images), mean_of(*[images] * 20), rtol=1e-4)


def test_clients_count_the_same():
    parts = [np.full((2, 3, 3), value, np.float32) for value in (1, 2, 6)]
    np.testing.assert_allclose(combine(parts), 3)
    assert combine(parts).dtype == np.float32


def test_phase_is_kept_and_amplitude_taken():
    images, others = noise(2, (16, 17)), noise(5, (16, 17), seed=1) // 4 + 96  # so that nothing is clipped
    smooth = images // 4 + 96
    result = normalise(smooth, mean_of(others)).astype(float)
    np.testing.assert_allclose(amplitudes(result), np.stack([mean_of(others)] * 2), atol=20)
    spectra, ours = (np.fft.fft2(x.astype(float), axes=(1, 2)) for x in (smooth, result))
    turned = np.angle(ours / spectra)[np.abs(ours) > 200]
    assert turned.size > 100 and np.abs(turned).max() < 0.2


def test_a_band_of_low_frequencies_alone_is_replaced():
    images, others = noise(1, (16, 17)) // 4 + 96, noise(5, (16, 17), seed=1) // 4 + 96
    mean = mean_of(others)
    own, colour, three = (
        amplitudes(x.astype(float)) for x in (images, *(normalise(images, mean, L) for L in (0, 0.1)))
    )
    np.testing.assert_allclose(colour[0, 0, 0], mean[0, 0], atol=150)  # half a level of 272 pixels
    np.testing.assert_allclose(colour[0, 3:9], own[0, 3:9], atol=20)
    np.testing.assert_allclose(three[0, :2, :2].ravel()[3:], mean[:2, :2].ravel()[3:], atol=20)
    np.testing.assert_allclose(three[0, -1, -1], mean[-1, -1], atol=20)
    np.testing.assert_allclose(three[0, 2:9], own[0, 2:9], atol=20)


def test_a_blank_patch_stays_blank():
    """It has no phase but that of frequency 0."""
    blank = np.full((1, 96, 96, 3), 243, np.uint8)
    result = normalise(blank, mean_of(noise(4, (96, 96))))
    assert np.ptp(result, axis=(0, 1, 2)).max() == 0 and 120 < result.mean() < 135


def test_parts_give_what_the_whole_gives(monkeypatch):
    images = noise(7, (8, 8))
    shared = mean_of(images)
    whole = normalise(images, shared)
    monkeypatch.setattr(module, "_AT_ONCE", 2 * 64)
    np.testing.assert_allclose(mean_of(images), shared, rtol=1e-5)
    assert np.abs(normalise(images, shared).astype(int) - whole).max() <= 1


def test_images_of_another_size_are_refused():
    mean = AmplitudeMean(0.1, (8, 8))
    mean.add(noise(1, (8, 8)))
    with pytest.raises(ValueError, match="9×8 and 8×8 pixels"):
        mean.add(noise(1, (8, 9)))
    with pytest.raises(ValueError, match="9×8 and 8×8 pixels"):
        normalise(noise(1, (8, 9)), mean.value)  # 8 and 9 columns have half spectra of the same size
    with pytest.raises(ValueError, match="one shape"):
        combine([mean.value, mean_of(noise(1, (8, 9)))])


def test_other_wrong_input():
    with pytest.raises(ValueError, match="decay 0"):
        AmplitudeMean(0, (8, 8))
    with pytest.raises(ValueError, match="no batches"):
        _ = AmplitudeMean(0.1, (8, 8)).value
    with pytest.raises(ValueError, match="without images"):
        AmplitudeMean(0.1, (8, 8)).add(noise(0, (8, 8)))
    with pytest.raises(ValueError, match="none"):
        combine([])
    with pytest.raises(TypeError, match="uint8"):
        AmplitudeMean(0.1, (8, 8)).add(noise(1, (8, 8)) / 255)
