import colorsys
import itertools

import cv2
import numpy as np
import pytest
import tensorflow as tf

from preprocessing import augment
from tffapps.data import pipeline

FUNCTIONS = [augment.affine, augment.weak, augment.strong, augment.varied]
every = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)


def noise(*shape):
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def views(function, image, count):
    """The image under `count` seeds."""
    image = tf.constant(image)
    seeds = tf.data.Dataset.range(count).map(lambda number: tf.stack([tf.cast(number, tf.int32), 7]))
    return np.stack(list(seeds.map(lambda seed: function(image, seed)).as_numpy_iterator()))


def warped(image, **parameters):
    return augment.warp(tf.constant(image), augment.transform(image.shape[:2], **parameters)).numpy()


@pytest.mark.parametrize("shape", [(8, 8, 1), (5, 9, 3), (1, 1, 1)])
def test_no_change_is_no_change(shape):
    image = noise(*shape)
    assert np.array_equal(warped(image), image)


@pytest.mark.parametrize(("right", "down"), [(3, 0), (-2, 0), (0, 2), (0, -4), (2, -1)])
def test_a_shift_moves_pixels_and_repeats_the_edge(right, down):
    image = noise(6, 9, 3)
    rows, columns = np.arange(6) - down, np.arange(9) - right
    expected = image[np.clip(rows, 0, 5)][:, np.clip(columns, 0, 8)]
    np.testing.assert_allclose(warped(image, right=right, down=down), expected, atol=1e-5)


def test_a_rotation_is_anticlockwise():
    image = noise(7, 7, 2)
    np.testing.assert_allclose(warped(image, rotation=90), np.rot90(image), atol=1e-5)
    np.testing.assert_allclose(warped(image, rotation=-90), np.rot90(image, -1), atol=1e-5)
    oblong = noise(5, 8, 1)  # half a turn shows whether both halves of the centre are right
    np.testing.assert_allclose(warped(oblong, rotation=180), np.rot90(oblong, 2), atol=1e-5)


def test_a_flip_mirrors_what_the_other_steps_made():
    image = noise(5, 8, 3)
    np.testing.assert_allclose(warped(image, flip=True), image[:, ::-1], atol=1e-6)
    other = {"rotation": 15.0, "right": 1.5, "down": -0.5, "shear": 0.1, "zoom": (0.9, 1.1)}
    np.testing.assert_allclose(warped(image, **other, flip=True), warped(image, **other)[:, ::-1], atol=1e-5)


def test_zoom_keeps_the_centre_and_above_one_shrinks():
    image = noise(9, 9, 1)
    smaller = warped(image, zoom=(2.0, 2.0))
    np.testing.assert_allclose(smaller[2:7, 2:7], image[::2, ::2], atol=1e-6)
    np.testing.assert_allclose(warped(image, zoom=(0.5, 0.5))[::2, ::2], image[2:7, 2:7], atol=1e-6)
    np.testing.assert_allclose(warped(image, zoom=(2.0, 1.0))[:, 2:7], image[:, ::2], atol=1e-6)


def test_shear_slides_lower_rows_to_the_right():
    image = np.zeros((11, 11, 1), np.float32)
    image[:, 5] = 1
    at = warped(image, shear=np.arcsin(0.5))[..., 0] @ np.arange(11)
    np.testing.assert_allclose(np.diff(at), 0.5, atol=1e-4)
    assert at[5] == pytest.approx(5)


def test_the_steps_are_composed_as_in_keras():
    """For square images; with others Keras 2.14 mixes up height and width of the centre."""
    from keras.preprocessing.image import apply_affine_transform

    image = noise(24, 24, 3)
    axes = {"row_axis": 0, "col_axis": 1, "channel_axis": 2}
    theirs = apply_affine_transform(
        image.copy(), theta=17, tx=2.3, ty=-1.7, shear=np.rad2deg(0.15), zx=0.85, zy=1.15, **axes, fill_mode="nearest"
    )
    ours = warped(image, rotation=17, right=-2.3, down=1.7, shear=0.15, zoom=(0.85, 1.15))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert np.abs(ours - image).max() > 0.5


@pytest.mark.parametrize(("view", "shear"), [("affine", 0.2), ("affine_degrees", np.deg2rad(0.2))])
def test_affine_draws_over_the_whole_of_each_range(view, shear, monkeypatch):
    drawn, transform = [], augment.transform

    def recorded(size, **parameters):
        drawn.append([*(float(parameters[name]) for name in names), *map(float, parameters["zoom"])])
        return transform(size, **parameters)

    names = ["rotation", "right", "down", "shear", "flip"]
    monkeypatch.setattr(augment, "transform", recorded)
    for number in range(200):
        getattr(augment, view)(tf.zeros((20, 50, 1)), tf.constant([number, 1]))
    columns = dict(zip([*names, "zoom across", "zoom down"], np.transpose(drawn)))
    limits = {
        "rotation": (-20, 20),
        "right": (-5, 5),  # a tenth of the width
        "down": (-2, 2),
        "shear": (-shear, shear),
        "zoom across": (0.8, 1.2),
        "zoom down": (0.8, 1.2),
        "flip": (0, 1),
    }
    for name, (low, high) in limits.items():
        assert low <= columns[name].min() < low + 0.05 * (high - low), name
        assert high - 0.05 * (high - low) < columns[name].max() <= high, name
    assert 0.35 < columns["flip"].mean() < 0.65  # one sigma is 0.035
    assert np.abs(np.corrcoef(list(columns.values())) - np.eye(7)).max() < 0.3  # one sigma is 0.07


def test_a_constant_image_stays_constant_under_affine():
    np.testing.assert_allclose(views(augment.affine, np.full((12, 17, 3), 0.3, np.float32), 50), 0.3, atol=1e-6)


@every
def test_the_seed_alone_decides(function):
    image = tf.constant(noise(16, 16, 3))
    first, again, other, swapped = (function(image, seed).numpy() for seed in ([3, 4], [3, 4], [3, 5], [4, 3]))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other) and not np.allclose(first, swapped)


@every
@pytest.mark.parametrize("shape", [(16, 16, 1), (16, 16, 3), (9, 14, 3), (15, 8, 1), (1, 1, 1)])
def test_shape_type_and_range_are_kept(function, shape):
    found = views(function, noise(*shape), 30)
    assert found.shape == (30, *shape) and found.dtype == np.float32
    assert found.min() >= 0 and found.max() <= 1
    assert found[0].size == 1 or found.std(axis=0).max() > 0.1


def test_weak_and_strong_brightness_stay_within_their_limits(monkeypatch):
    """Contrast does nothing to a constant image, so what is left is the brightness."""
    monkeypatch.setattr(augment, "CUTOUT", 0.0)
    constant = np.full((4, 4, 1), 0.5, np.float32)
    weak, strong = (views(function, constant, 200) for function in (augment.weak, augment.strong))
    assert np.ptp(weak.reshape(200, -1), axis=1).max() < 1e-6
    assert 0.3 - 1e-6 <= weak.min() < 0.32 and 0.68 < weak.max() <= 0.7 + 1e-6
    assert strong.min() == 0 and strong.max() == 1
    black = views(augment.strong, np.zeros((4, 4, 1), np.float32), 200)
    assert 0.75 < black.max() <= 0.8 + 1e-6


def test_contrast_stays_within_its_limits(monkeypatch):
    monkeypatch.setattr(augment, "CUTOUT", 0.0)
    monkeypatch.setattr(augment, "STRONG_BRIGHTNESS", 0.0)
    image = np.full((4, 4, 1), 0.45, np.float32)
    image[:, 2:] = 0.55
    for function in (augment.weak, augment.strong):
        factors = np.ptp(views(function, image, 200).reshape(200, -1), axis=1) / 0.1
        assert 0.2 - 1e-4 <= factors.min() < 0.3 and 1.7 < factors.max() <= 1.8 + 1e-4


def test_saturation_and_hue_stay_within_their_limits_and_leave_grey_alone(monkeypatch):
    monkeypatch.setattr(augment, "CUTOUT", 0.0)
    monkeypatch.setattr(augment, "STRONG_BRIGHTNESS", 0.0)
    colour = np.broadcast_to(np.float32([0.6, 0.4, 0.4]), (4, 4, 3))  # hue 0, saturation 1/3
    hues, saturations, values = np.transpose(
        [colorsys.rgb_to_hsv(*view[0, 0].astype(float)) for view in views(augment.strong, colour, 200)]
    )
    turns, factors = (hues + 0.5) % 1 - 0.5, saturations * 3
    assert -0.2 - 1e-4 <= turns.min() < -0.18 and 0.18 < turns.max() <= 0.2 + 1e-4
    assert 0.2 - 1e-4 <= factors.min() < 0.3 and 1.7 < factors.max() <= 1.8 + 1e-4
    np.testing.assert_allclose(values, 0.6, atol=1e-5)

    grey = noise(6, 6, 1)
    one, three = (views(augment.strong, np.repeat(grey, channels, axis=2), 20) for channels in (1, 3))
    np.testing.assert_allclose(three, np.repeat(one, 3, axis=3), atol=1e-5)


def test_the_cutout_is_a_square_in_one_of_two_fills():
    found = views(augment.cutout, np.full((20, 32, 3), 0.25, np.float32), 400)
    squares = []
    for view in found:
        inside = (view != 0.25).all(axis=2)
        rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        assert inside.sum() == len(rows) * len(columns)  # one full rectangle
        assert np.array_equal(inside, (view != 0.25).any(axis=2))
        (fill,) = np.unique(view[inside])
        assert len(rows) == 10 or rows[0] == 0 or rows[-1] == 19  # only the border may cut it
        assert len(columns) == 10 or columns[0] == 0 or columns[-1] == 31
        squares.append((fill, len(rows), len(columns), rows[0], columns[0]))
    fills, heights, widths, tops, lefts = np.transpose(squares)
    assert set(fills) == {0.0, 0.5} and 0.4 < np.mean(fills) / 0.5 < 0.6  # one sigma is 0.025
    assert (min(heights), max(heights), min(widths), max(widths)) == (5, 10, 5, 10)
    # Centres are rows 0..19 and columns 0..31, squares start five before.
    assert set(tops) == set(range(15)) and set(lefts) == set(range(27))
    assert np.abs(np.corrcoef([fills, tops, lefts]) - np.eye(3)).max() < 0.25  # one sigma is 0.05


def test_strong_ends_with_the_cutout():
    """Neither brightness nor colour changes the fill: at most two values, one of them a fill."""
    shades = [np.unique(view) for view in views(augment.strong, np.full((8, 8, 1), 0.3, np.float32), 100)]
    assert all({0.0, 0.5} & set(found.tolist()) for found in shades)
    assert max(map(len, shades)) == 2


def test_varied_views_are_flipped_or_lit_or_moved(monkeypatch):
    """Of 400 a fifth each as it is, flipped, and weak, two fifths affine."""
    monkeypatch.setattr(augment, "weak", lambda image, seed: tf.zeros_like(image))
    monkeypatch.setattr(augment, "affine", lambda image, seed: tf.ones_like(image))
    image = noise(4, 4, 1)
    found = views(augment.varied, image, 400)
    fifths = [image, image[:, ::-1], np.zeros_like(image)]
    counts = [sum(np.array_equal(view, one) for view in found) for one in (*fifths, np.ones_like(image))]
    assert all(55 < count < 105 for count in counts[:3]) and 120 < counts[3] < 200  # one sigma is 8, 10
    assert sum(counts) == 400


def test_weak_and_strong_draw_independently_from_one_seed(monkeypatch):
    monkeypatch.setattr(augment, "CUTOUT", 0.0)
    monkeypatch.setattr(augment, "STRONG_BRIGHTNESS", 0.2)  # so that no pixel is clipped
    image = np.full((4, 4, 1), 0.4, np.float32)
    image[:, 2:] = 0.6
    draws, flips = [], []
    for function in (augment.weak, augment.strong):
        found = views(function, image, 400)
        left, right = found[:, :, 0].mean(axis=(1, 2)), found[:, :, 3].mean(axis=(1, 2))
        flips.append(left > right)
        draws += [left > right, (left + right) / 2, np.abs(left - right)]  # flip, brightness, contrast
    counts = [np.sum((flips[0] == weak) & (flips[1] == strong)) for weak, strong in itertools.product((0, 1), repeat=2)]
    assert all(65 < count < 135 for count in counts)  # 100 each, one sigma is 9
    assert np.abs(np.corrcoef(draws) - np.eye(6)).max() < 0.25  # one sigma is 0.05


@every
def test_sizes_may_be_known_only_when_the_graph_runs(function):
    spec = [tf.TensorSpec((None, None, 3), tf.float32), tf.TensorSpec((2,), tf.int32)]
    graph = tf.function(function, input_signature=spec)
    assert graph.get_concrete_function().output_shapes.as_list() == [None, None, 3]
    for shape in ((6, 9, 3), (12, 5, 3)):
        image, seed = tf.constant(noise(*shape)), tf.constant([1, 2])
        np.testing.assert_allclose(graph(image, seed), function(image, seed), atol=1e-6)


def test_unknown_channels_do_for_affine_but_not_for_strong():
    spec = [tf.TensorSpec((None, None, None), tf.float32), tf.TensorSpec((2,), tf.int32)]
    image, seed = tf.constant(noise(6, 9, 4)), tf.constant([1, 2])
    graph = tf.function(augment.affine, input_signature=spec)
    np.testing.assert_allclose(graph(image, seed), augment.affine(image, seed), atol=1e-6)
    with pytest.raises(ValueError, match="set its number of channels"):
        tf.function(augment.strong, input_signature=spec).get_concrete_function()


@every
def test_in_a_pipeline_the_same_batches_come_again(function, tmp_path):
    paths = [str(tmp_path / f"{number}.png") for number in range(5)]
    for number, path in enumerate(paths):
        cv2.imwrite(path, np.random.default_rng(number).integers(0, 256, (10, 12), dtype=np.uint8))

    def batches(augment, seed=3):
        options = {"size": (8, 10), "channels": 1, "batch": 5, "epochs": 2, "shuffle": False}
        dataset = pipeline.batches(paths, range(5), **options, augment=augment, seed=seed)
        return np.stack([images for images, _ in dataset.as_numpy_iterator()])

    first, again, other, plain = batches(function), batches(function), batches(function, seed=4), batches(None)
    assert first.shape == (2, 5, 8, 10, 1)
    assert np.array_equal(first, again)
    for different in (other, plain, first[::-1]):  # another seed, none, the other epoch
        assert (np.abs(first - different).max(axis=(2, 3, 4)) > 0.01).all()
