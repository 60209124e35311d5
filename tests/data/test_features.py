"""Stored features: what the base makes of each image, worked out once, the same whoever asks and in whatever order."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf

from tffapps.data import features, images, pipeline
from tffapps.data.features import Reader, pick_view, stored_features

READ = images.Reader((4, 6), 1, ("png",))
SHAPE = (2, 3, 1)  # of the features
HALF = 2**-10  # of numbers between −1 and 1 half precision keeps this much


def noisy(image, seed):
    return image + tf.random.stateless_uniform(tf.shape(image), seed)


def other(image, seed):
    return noisy(image, seed)


@pytest.fixture(scope="module")
def base():
    """Image → means of 2 × 2 pixels, from −1 to 1."""
    layers = tf.keras.layers
    steps = [layers.Input((4, 6, 1)), layers.Rescaling(2.0, -1.0), layers.AveragePooling2D(2)]
    return tf.keras.Sequential(steps, name="sequential")


@pytest.fixture
def paths(tmp_path):
    """Five grey images of random pixels."""
    rng = np.random.default_rng(0)
    files = [tmp_path / f"{number}.png" for number in range(5)]
    for file in files:
        cv2.imwrite(str(file), rng.integers(0, 256, (4, 6), dtype=np.uint8))
    return [str(file) for file in files]


def by_hand(path):
    pixels = cv2.imread(path, cv2.IMREAD_UNCHANGED) / 255 * 2 - 1
    return pixels.reshape(2, 2, 3, 2).mean(axis=(1, 3))[..., None]


def contents(files):
    return [Path(file).read_bytes() for file in files]


class Never:
    """A base that must not run."""

    name, output_shape = "sequential", (None, *SHAPE)

    def __call__(self, *arguments, **options):
        raise AssertionError("worked out again")


def test_what_is_stored_is_what_the_base_gives(paths, base, tmp_path):
    files = stored_features(paths, base, "b", READ, tmp_path / "f")
    assert len(set(files)) == 5
    for path, file in zip(paths, files):
        assert os.path.getsize(file) == 2 * 6
        found = Reader(SHAPE)(tf.constant(file))
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, by_hand(path), atol=HALF)


def test_nothing_is_worked_out_twice(paths, base, tmp_path, capsys):
    first = stored_features(paths, base, "b", READ, tmp_path / "f", title="what")
    assert "what: 5/5" in capsys.readouterr().err
    times = [os.stat(file).st_mtime_ns for file in first]
    assert stored_features(paths[::-1], Never(), "b", READ, tmp_path / "f") == first[::-1]
    assert [os.stat(file).st_mtime_ns for file in first] == times
    assert capsys.readouterr().err == ""  # nothing was left to do


def test_image_base_and_views_are_the_key(paths, base, tmp_path):
    folder = tmp_path / "f"
    moved = tmp_path / "moved.png"
    moved.write_bytes(Path(paths[0]).read_bytes())
    files = {
        "plain": stored_features(paths[:1], base, "b", READ, folder),
        "other base": stored_features(paths[:1], base, "c", READ, folder),
        "one view": stored_features(paths[:1], base, "b", READ, folder, augment=noisy),
        "two views": stored_features(paths[:1], base, "b", READ, folder, augment=noisy, views=2),
        "other augmentation": stored_features(paths[:1], base, "b", READ, folder, augment=other),
    }
    assert stored_features([str(moved)], Never(), "b", READ, folder) == files["plain"]
    cv2.imwrite(paths[0], np.zeros((4, 6), np.uint8))
    files["changed image"] = stored_features(paths[:1], base, "b", READ, folder)
    assert len({file for (file,) in files.values()}) == 6
    np.testing.assert_array_equal(Reader(SHAPE)(tf.constant(files["changed image"][0])), np.full(SHAPE, -1))


def test_equal_images_are_one_file(paths, base, tmp_path):
    twin = tmp_path / "twin.png"
    twin.write_bytes(Path(paths[1]).read_bytes())
    files = stored_features([paths[0], paths[1], str(twin), paths[0]], base, "b", READ, tmp_path / "f")
    assert files[1] == files[2] and files[0] == files[3] != files[1]
    np.testing.assert_allclose(Reader(SHAPE)(tf.constant(files[2])), by_hand(paths[1]), atol=HALF)


def test_views_differ_and_each_is_drawn(paths, base, tmp_path):
    files = stored_features(paths, base, "b", READ, tmp_path / "f", augment=noisy, views=3)
    assert len(set(contents(files))) == 5
    views = Reader(SHAPE, 3)(tf.constant(files[0]))
    assert views.shape == (3, *SHAPE)
    added = views.numpy() - by_hand(paths[0])  # noise in [0, 1), doubled by the base
    assert added.min() > -0.01 and added.max() < 2.01 and len(np.unique(added.round(3))) > 15
    other = Reader(SHAPE, 3)(tf.constant(files[1])).numpy() - by_hand(paths[1])
    assert np.abs(added - other).max() > 0.1  # every image has noise of its own
    drawn = []
    for seed in range(30):
        found, again = (pick_view(views, tf.constant([seed, 1])) for _ in range(2))
        assert found.dtype == tf.float32 and np.array_equal(found, again)
        (number,) = (number for number in range(3) if np.array_equal(found, views[number]))
        drawn.append(number)
    assert min(np.bincount(drawn, minlength=3)) >= 3


def test_views_do_not_depend_on_who_else_is_asked_for(paths, base, tmp_path, monkeypatch):
    options = {"augment": noisy, "views": 3}
    whole = stored_features(paths, base, "b", READ, tmp_path / "whole", **options)
    alone = [stored_features([path], base, "b", READ, tmp_path / "alone", **options)[0] for path in paths[::-1]]
    assert contents(alone[::-1]) == contents(whole)
    monkeypatch.setattr(features, "BATCH", 6)  # two images of three views
    assert contents(stored_features(paths, base, "b", READ, tmp_path / "small", **options)) == contents(whole)


def test_an_interrupted_fill_leaves_whole_files_and_goes_on(paths, base, tmp_path, monkeypatch):
    expected = contents(stored_features(paths, base, "b", READ, tmp_path / "whole", augment=noisy, views=2))
    replace, stops = os.replace, [True]

    def stop_at_the_third(temporary, file):
        if stops and str(file).endswith(".f16") and len(list((tmp_path / "f").rglob("*.f16"))) == 2:
            raise KeyboardInterrupt
        replace(temporary, file)

    monkeypatch.setattr(features, "_WRITERS", 1)
    monkeypatch.setattr(os, "replace", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        stored_features(paths, base, "b", READ, tmp_path / "f", augment=noisy, views=2)
    left = [file for file in (tmp_path / "f").rglob("*") if file.is_file() and file.name != features.ABOUT]
    assert len(left) == 2 and {file.suffix for file in left} == {".f16"}
    assert set(contents(left)) <= set(expected)
    stops.clear()
    times = [file.stat().st_mtime_ns for file in left]
    files = stored_features(paths, base, "b", READ, tmp_path / "f", augment=noisy, views=2)
    assert contents(files) == expected
    assert [file.stat().st_mtime_ns for file in left] == times  # these are not made again


@pytest.mark.parametrize("shuffle", [True, False])
def test_features_come_in_the_order_of_the_images(paths, base, tmp_path, shuffle):
    options = {"batch": 2, "epochs": 3, "seed": 4, "shuffle": shuffle}
    files = stored_features(paths, base, "b", READ, tmp_path / "f")
    whole = list(pipeline.of_files(paths, range(5), READ, **options).as_numpy_iterator())
    stored = list(pipeline.of_files(files, range(5), Reader(SHAPE), **options).as_numpy_iterator())
    assert [labels.tolist() for _, labels in stored] == [labels.tolist() for _, labels in whole]
    for values, labels in stored:
        np.testing.assert_allclose(values, [by_hand(paths[label]) for label in labels], atol=HALF)


def test_a_pipeline_draws_a_view_for_each_image_and_epoch(paths, base, tmp_path):
    files = stored_features(paths, base, "b", READ, tmp_path / "f", augment=noisy, views=2)
    views = [Reader(SHAPE, 2)(tf.constant(file)).numpy().astype(np.float32) for file in files]
    dataset = pipeline.of_files(files, range(5), Reader(SHAPE, 2), batch=2, epochs=8, seed=4, augment=pick_view)
    assert dataset.element_spec[0].shape.as_list() == [None, *SHAPE]
    drawn = {label: set() for label in range(5)}
    for batch in dataset.as_numpy_iterator():
        for values, label in zip(*batch):
            drawn[label].add(next(number for number in range(2) if np.array_equal(values, views[label][number])))
    assert sum(len(numbers) == 2 for numbers in drawn.values()) >= 4  # an image keeps one view in 1 of 128 cases
