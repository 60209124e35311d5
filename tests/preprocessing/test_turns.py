"""An image and its label stay together, all eight positions come, and light leaves the label alone."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from preprocessing.turns import Turns

SEEDS = [tf.constant([number, 7], tf.int32) for number in range(40)]


def picture(high: int = 5, wide: int = 5) -> np.ndarray:
    """No two pixels alike."""
    return (np.arange(high * wide).reshape(high, wide, 1) / (high * wide)).astype(np.float32)


def both(turns: Turns, image: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    label = np.rint(image[..., 0] * image.size).astype(np.int32)
    found = [turns(tf.constant(image), tf.constant(label), seed) for seed in SEEDS]
    return [(moved.numpy(), mask.numpy()) for moved, mask in found]


@pytest.mark.parametrize(("high", "wide", "positions"), [(5, 5, 8), (4, 6, 4)])
def test_the_label_goes_where_the_image_goes(high, wide, positions):
    image = picture(high, wide)
    found = both(Turns(), image)
    for moved, mask in found:
        np.testing.assert_array_equal(np.rint(moved[..., 0] * image.size), mask)
    assert len({mask.tobytes() for _, mask in found}) == positions
    assert found[0][1].tobytes() == both(Turns(), image)[0][1].tobytes()


def test_light_changes_the_image_alone():
    image = np.random.default_rng(0).random((12, 12, 3), np.float32)
    label = tf.constant(np.arange(144).reshape(12, 12), tf.int32)
    smoother = 0
    for seed in SEEDS:
        plain, mask = Turns()(tf.constant(image), label, seed)
        lit, same = Turns(light=True)(tf.constant(image), label, seed)
        np.testing.assert_array_equal(mask, same)
        assert lit.shape == plain.shape and float(tf.reduce_min(lit)) >= 0 and float(tf.reduce_max(lit)) <= 1
        assert float(tf.reduce_max(tf.abs(lit - plain))) > 0.01
        smoother += np.abs(np.diff(lit, axis=0)).mean() / lit.numpy().std() < 0.9 * (
            np.abs(np.diff(plain, axis=0)).mean() / plain.numpy().std()
        )
    assert 5 <= smoother <= 25  # about half are blurred, some of them hardly
