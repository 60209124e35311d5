"""What lies on disk of stored activations: damaged files, numbers that do not fit, and what is said of them."""

import hashlib
import json
import os
import re
import tracemalloc
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf

from tffapps.data import digests, features, images, pipeline
from tffapps.data.features import ABOUT, MEMO, Reader, stored_features
from tffapps.errors import UserError

READ = images.Reader((4, 6), 1, ("png",))
SHAPE = (2, 3, 1)
LARGEST = 65504  # of half precision


def noisy(image, seed):
    return image + tf.random.stateless_uniform(tf.shape(image), seed)


def made_of(function, name="cut"):
    """Images → their means of 2 × 2 pixels, after a function of these."""
    image = tf.keras.layers.Input((4, 6, 1))
    means = tf.keras.layers.AveragePooling2D(2)(image)
    return tf.keras.Model(image, tf.keras.layers.Lambda(function)(means), name=name)


@pytest.fixture(scope="module")
def base():
    return made_of(lambda x: x)


@pytest.fixture
def paths(tmp_path):
    """Four images, each of one grey level: 0, 50, 100 and 255."""
    files = [str(tmp_path / f"{level}.png") for level in (0, 50, 100, 255)]
    for file in files:
        cv2.imwrite(file, np.full((4, 6), int(Path(file).stem), np.uint8))
    return files


@pytest.fixture
def place(tmp_path):
    return tmp_path / "features"


def values(file, **options):
    return Reader(SHAPE, **options)(tf.constant(file)).numpy()


DAMAGES = {
    "empty": lambda file: file.write_bytes(b""),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "too long": lambda file: file.write_bytes(file.read_bytes() + b"\0\0"),
    "gone": lambda file: file.unlink(),
    "a link to nothing": lambda file: (file.unlink(), file.symlink_to("nothing")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_of_the_wrong_size_is_made_anew_and_no_other(paths, base, place, damage):
    files = [Path(file) for file in stored_features(paths, base, "b", READ, place)]
    contents, times = [file.read_bytes() for file in files], [file.stat().st_mtime_ns for file in files]
    DAMAGES[damage](files[2])
    assert stored_features(paths, base, "b", READ, place) == [str(file) for file in files]
    assert [file.read_bytes() for file in files] == contents
    assert [file.stat().st_mtime_ns == time for file, time in zip(files, times)] == [True, True, False, True]


def test_what_cannot_be_made_anew_is_one_line(paths, base, place):
    (file,) = stored_features(paths[:1], base, "b", READ, place)
    os.unlink(file)
    os.mkdir(file)
    with pytest.raises(UserError, match=f"cannot write {re.escape(file)}: Is a directory"):
        stored_features(paths[:1], base, "b", READ, place)


def test_too_large_a_number_is_the_largest_and_that_is_said(paths, place, capsys):
    large = made_of(lambda x: (x - 50 / 255) * 1e6)
    files = stored_features(paths, large, "b", READ, place, title="what")
    assert [values(file).flat[0] for file in files] == [-LARGEST, 0, LARGEST, LARGEST]
    assert "what: 3 images with values beyond 65504, stored as 65504" in capsys.readouterr().err
    fits = made_of(lambda x: x * LARGEST)
    (file,) = stored_features(paths[3:], fits, "c", READ, place)
    assert values(file).max() == LARGEST and "beyond" not in capsys.readouterr().err


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_not_stored(paths, base, place, number):
    broken = made_of(lambda x: tf.where(x > 0.3, number, x))
    with pytest.raises(UserError, match=r"100\.png: cut makes numbers of it that are not finite; choose other"):
        stored_features(paths, broken, "b", READ, place)
    assert len(list(place.rglob("*.f16"))) == 2  # of the two before it
    for file in stored_features(paths, base, "b", READ, place):
        assert np.isfinite(values(file)).all()


def test_single_precision_is_exact(paths, base, place):
    rough = stored_features(paths, base, "b", READ, place)
    files = stored_features(paths, base, "b", READ, place, dtype=tf.float32)
    assert not set(files) & set(rough) and all(file.endswith(".f32") for file in files)
    for file, half, level in zip(files, rough, (0, 50, 100, 255)):
        assert os.path.getsize(file) == 2 * os.path.getsize(half) == 24
        assert (values(file, dtype=tf.float32) == np.float32(level) / np.float32(255)).all()
    assert values(rough[1]).flat[0] != np.float32(50) / np.float32(255)


def test_single_precision_has_the_same_views(paths, base, place):
    options = {"augment": noisy, "views": 2}
    files = stored_features(paths, base, "b", READ, place, dtype=tf.float32, **options)
    rough = stored_features(paths, base, "b", READ, place, **options)
    for file, half in zip(files, rough):
        views, halves = values(file, views=2, dtype=tf.float32), values(half, views=2)
        assert views.dtype == np.float32 and np.array_equal(views.astype(np.float16), halves)


def test_a_views_seed_is_of_the_content_and_of_how_it_is_seen(paths, base, place):
    """As written down here: other seeds would change the numbers of runs that are finished."""
    (file,) = stored_features(paths[1:2], base, "b", READ, place, augment=noisy, views=2, dtype=tf.float32)
    key = hashlib.sha256(b"b|(4, 6)|1|noisy|2\0" + Path(paths[1]).read_bytes()).digest()
    seed = np.frombuffer(key[:8], np.int32)
    for number, view in enumerate(values(file, views=2, dtype=tf.float32)):
        fold = tf.random.experimental.stateless_fold_in(seed, number, alg="philox")
        np.testing.assert_allclose(view, base(noisy(READ(tf.constant(paths[1])), fold)[None])[0], rtol=1e-6)


def test_views_without_augmentation_are_a_mistake(paths, base, place):
    with pytest.raises(ValueError, match="2 views"):
        stored_features(paths, base, "b", READ, place, views=2)


def test_an_image_that_cannot_be_read_any_more_is_named(paths, base, place):
    Path(paths[2]).write_bytes(Path(paths[2]).read_bytes()[:60])
    with pytest.raises(UserError, match=r"100\.png: truncated PNG; it could be read before"):
        stored_features(paths, base, "b", READ, place)


def test_every_base_has_a_folder_that_says_what_it_is(paths, base, place):
    known = {"network": "net/2", "weights": "imagenet", "cut": "block_3"}
    stored_features(paths, base, "b", READ, place, about=known)
    stored_features(paths, base, "b", READ, place, about=known, augment=noisy, views=2)
    stored_features(paths, base, "c", READ, place)
    folders = {json.loads((folder / ABOUT).read_text())["view"]: folder for folder in place.glob("net*")}
    assert all(re.fullmatch(r"net%2F2-[0-9a-f]{12}", folder.name) for folder in folders.values())
    read = {"size": [4, 6, 1], "shape": [2, 3, 1], "dtype": "float16"}
    assert json.loads((folders["plain"] / ABOUT).read_text()) == {**known, **read, "view": "plain", "views": 1}
    assert json.loads((folders["noisy"] / ABOUT).read_text()) == {**known, **read, "view": "noisy", "views": 2}
    (unnamed,) = place.glob("cut-*")
    assert json.loads((unnamed / ABOUT).read_text())["network"] == "cut"
    assert len(list(folders["plain"].glob("[0-9a-f][0-9a-f]/*.f16"))) == 4


def test_using_a_folder_shows_in_its_time(paths, base, place):
    stored_features(paths, base, "b", READ, place)
    (about,) = place.glob(f"*/{ABOUT}")
    os.utime(about, (1, 1))
    stored_features(paths, base, "b", READ, place)
    assert about.stat().st_mtime > 1e9


def test_images_are_not_read_again_to_find_their_files(paths, base, place, monkeypatch):
    monkeypatch.setattr(digests, "_YOUNG", -1)
    files = stored_features(paths, base, "b", READ, place)
    assert (place / MEMO).exists()
    monkeypatch.setattr(Path, "read_bytes", None)
    assert stored_features(paths, base, "b", READ, place) == files


@pytest.mark.parametrize("damage", ["gone", "cut off"])
def test_a_pipeline_does_not_leave_out_what_vanished(paths, base, place, damage):
    """An image that is left out unsaid would change numbers."""
    files = stored_features(paths, base, "b", READ, place)
    batches = pipeline.of_files(files, range(4), Reader(SHAPE), batch=2, shuffle=False)
    assert [labels.tolist() for _, labels in batches.as_numpy_iterator()] == [[0, 1], [2, 3]]
    DAMAGES[damage](Path(files[1]))
    with pytest.raises(tf.errors.OpError):
        list(batches.as_numpy_iterator())


def test_memory_does_not_grow_with_the_images(tmp_path, place, monkeypatch):
    """Of 400 images with 96 KiB of features each, 37 MiB, a batch or two are held."""
    monkeypatch.setattr(features, "BATCH", 8)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    wide = made_of(lambda x: tf.tile(x, (1, 1, 1, 2**13)))
    files = [str(tmp_path / f"{number}.png") for number in range(400)]
    for number, file in enumerate(files):
        cv2.imwrite(file, np.full((4, 6), number % 256, np.uint8) + np.arange(6, dtype=np.uint8) * (number // 256))
    tracemalloc.start()
    try:
        stored_features(files, wide, "b", READ, place)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(list(place.rglob("*.f16"))) == 400
    assert peak < 12 * 2**20
