"""Gram matrices on hand-computed numbers and of a small VGG, and the command that writes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf

from models import vgg
from preprocessing import gram as module
from preprocessing.gram import fingerprint, gram, grams, measure, positions, taps
from preprocessing.gram_command import main
from preprocessing.gram_files import load
from preprocessing.style_settings import LAYERS
from tests.preprocessing.folders import write_files
from tests.preprocessing.textures import textures

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def encoder():
    return vgg.build("relu5_1", 4)


def png(image):
    return cv2.imencode(".png", image[..., ::-1])[1].tobytes()


def test_equation_3():
    """Two places, two channels: F is [[1, 3], [2, 4]] with a channel a row."""
    features = tf.constant([[1.0, 2.0], [3.0, 4.0]])[None, None]
    np.testing.assert_array_equal(gram(features)[0], [[10, 14], [14, 20]])


def test_of_a_vgg(encoder):
    images = textures()
    found = grams(taps(encoder), images)
    levels = vgg.taps(encoder, LAYERS)(images.astype(np.float32) / 255)
    assert [matrix.shape for matrix in found] == [(2, c, c) for c in (4, 8, 16, 32, 32)]
    for matrix, level, places in zip(found, levels, positions(32, 32)):
        f = level.numpy().reshape(2, -1, level.shape[-1])
        assert f.shape[1] == places and f.min() >= 0 and matrix.dtype == np.float32
        np.testing.assert_allclose(matrix, np.einsum("nki,nkj->nij", f, f), rtol=1e-4, atol=1e-4)


def test_places_of_sizes_that_are_not_powers_of_two(encoder):
    levels = taps(encoder)(np.zeros((1, 37, 50, 3), np.float32))
    assert positions(37, 50) == tuple(level.shape[1] * level.shape[2] for level in levels)


def test_where_things_are_does_not_matter():
    features = np.random.default_rng(0).random((1, 4, 5, 3)).astype(np.float32)
    np.testing.assert_allclose(gram(tf.constant(features)), gram(tf.constant(features[:, ::-1, ::-1])), rtol=1e-5)


def test_batches_change_nothing(encoder, monkeypatch):
    images = np.concatenate([textures()] * 2)[:3]
    together = grams(taps(encoder), images)
    monkeypatch.setattr(module, "_ACTIVATIONS", 32 * 32 * 4 * 2)  # two images at a time
    for one, other in zip(together, grams(taps(encoder), images)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_the_fingerprint_tells_networks_apart(encoder):
    longer = vgg.build("relu5_4", 4)
    assert fingerprint(encoder) == fingerprint(longer)  # more layers do not matter
    others = [vgg.build("relu5_1", 4, seed=1), vgg.build("relu5_1", 5)]
    caffe = vgg.build("relu5_1", 4)
    caffe.get_layer("preprocess").caffe = True
    assert len({fingerprint(network) for network in (encoder, caffe, *others)}) == 4


@pytest.mark.parametrize(
    "images", [np.zeros((1, 32, 32, 3), np.float32), np.zeros((32, 32, 3), np.uint8), np.zeros((1, 8, 32, 3), np.uint8)]
)
def test_what_is_no_stack_of_images(images, encoder):
    with pytest.raises(TypeError, match="uint8 images of shape"):
        grams(taps(encoder), images)


def test_the_command(encoder, tmp_path, capsys):
    images = textures()
    folder = {"a.png": png(images[0]), "b.png": png(images[1]), "cut.png": png(images[0])[:-9], "notes.txt": b"hello"}
    source, out = write_files(tmp_path / "polyps", folder), tmp_path / "new" / "grams.npz"
    assert main([str(source), "-o", str(out), "--width", "4", "--size", "32"]) == 0
    found, expected = load(out, 4, fingerprint(encoder)), measure(encoder, images, "polyps", "random")
    assert (found.label, found.weights, found.positions) == ("polyps", "random", expected.positions)
    for one, other in zip(found.matrices, expected.matrices):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    said = capsys.readouterr()
    assert said.out == f"2 images of polyps, VGG-19 of width 4, weights random: {out}\n"
    assert f"preprocessing.gram: left out: {source / 'cut.png'}: truncated PNG" in said.err
    assert [path.name for path in out.parent.iterdir()] == ["grams.npz"]


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["none"], 2, "none: No such file or directory; give a folder that holds images"),
        (["empty"], 2, "empty: no images in it"),
        (["bad"], 1, "bad: no image could be read"),
        (["good", "--size", "8"], 2, "--size 8: images need at least 16 pixels a side"),
        (["good", "--weights", "gone.h5"], 2, "gone.h5: no such file"),
        (["good", "--label", "../x"], 2, "label '../x' cannot be part of a file's name"),
    ],
)
def test_bad_input(arguments, status, line, tmp_path, capsys, monkeypatch):
    write_files(tmp_path, {"empty/notes.txt": b"", "bad/a.png": b"no", "good/a.png": png(textures()[0])})
    monkeypatch.chdir(tmp_path)
    assert (
        main([*arguments, "-o", "g.npz", "--width", "4", *([] if "--size" in arguments else ["--size", "32"])])
        == status
    )
    assert line in capsys.readouterr().err
    assert not (tmp_path / "g.npz").exists()


@pytest.mark.parametrize("name", ["gram", "style_transfer"])
def test_help_without_tensorflow(name):
    code = (
        "import runpy, sys; sys.modules.update(numpy=None, tensorflow=None, cv2=None); sys.argv[1:] = ['--help'];"
        f"runpy.run_module('preprocessing.{name}', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith(f"usage: python -m preprocessing.{name}"), done.stderr
