import numpy as np
import pytest
import tensorflow as tf

from preprocessing.erasing import AREA, ASPECT, Erasing

GREY = 2.0  # no noise is


def erased(seed, shape=(40, 60, 3), probability=1.0):
    image = Erasing(probability)(tf.fill(shape, GREY), tf.constant([seed, 5]))
    return image.numpy()


def box(image):
    """first row, first column, height, width of what was erased."""
    gone = (image != GREY).all(axis=-1)
    rows, columns = np.flatnonzero(gone.any(axis=1)), np.flatnonzero(gone.any(axis=0))
    assert gone[np.ix_(rows, columns)].all() and gone.sum() == len(rows) * len(columns)  # a rectangle
    return rows[0], columns[0], len(rows), len(columns)


def test_a_rectangle_of_noise():
    boxes = np.array([box(erased(seed)) for seed in range(60)])
    areas, aspects = boxes[:, 2] * boxes[:, 3] / 2400, boxes[:, 2] / boxes[:, 3]
    assert areas.min() >= 0.8 * AREA[0] and areas.max() <= 1.05 * AREA[1]
    assert aspects.min() >= 0.9 * ASPECT and aspects.max() <= 1.1 / ASPECT
    assert len({tuple(one) for one in boxes}) > 50
    assert (boxes[:, 0] + boxes[:, 2] <= 40).all() and (boxes[:, 1] + boxes[:, 3] <= 60).all()
    noise = erased(0)
    first = box(noise)
    inside = noise[first[0] : first[0] + first[2], first[1] : first[1] + first[3]]
    assert 0 <= inside.min() < 0.1 and 0.9 < inside.max() < 1 and np.unique(inside).size > 0.99 * inside.size


def test_half_of_the_images_and_the_seed_decides():
    changed = [(erased(seed, (16, 16, 1), 0.5) != GREY).any() for seed in range(200)]
    assert 70 <= sum(changed) <= 130
    np.testing.assert_array_equal(erased(3), erased(3))
    assert not (erased(3, probability=0.0) != GREY).any()


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 50, 3), (50, 2, 1)])
def test_narrow_images(shape):
    for seed in range(20):
        assert erased(seed, shape).shape == shape


def test_equal_ones_share_a_trace():
    assert Erasing(0.5) == Erasing(0.5) and hash(Erasing(0.5)) == hash(Erasing(0.5)) and Erasing(0.4) != Erasing(0.5)
