"""The losses on hand-computed numbers, and images that take on a style and keep their content."""

from __future__ import annotations

import csv
import dataclasses

import cv2
import numpy as np
import pytest
import tensorflow as tf

from models import vgg
from preprocessing import style_transfer as module
from preprocessing.gram import gram, grams, measure, positions, taps
from preprocessing.gram_files import save
from preprocessing.style_settings import CONTENT_LAYER, StyleSettings, settings_for
from preprocessing.style_transfer import content_loss, layer_loss, style_loss, transfer
from preprocessing.style_transfer_command import main
from tests.preprocessing.folders import write_files
from tests.preprocessing.stains import patches
from tests.preprocessing.textures import textures

FEATURES = tf.constant([[1.0, 2.0], [3.0, 4.0]])[None, None]  # two places, two channels; F Fᵀ is [[10, 14], [14, 20]]
SHORT = settings_for("random", steps=3)


@pytest.fixture(scope="module")
def encoder():
    return vgg.build("relu5_1", 4)


@pytest.fixture(scope="module")
def styles(encoder):
    return grams(taps(encoder), textures())


@pytest.fixture(scope="module")
def contents():
    return patches(3, size=32)[0]


def test_equation_2():
    np.testing.assert_allclose(content_loss(FEATURES, tf.zeros_like(FEATURES)), [15])  # (1 + 4 + 9 + 16) / 2


def test_equations_4_to_6():
    wanted = tf.constant([[[8.0, 14.0], [14.0, 18.0]]])
    np.testing.assert_allclose(layer_loss(FEATURES, wanted), [0.125])  # (2² + 2²) / (4 · 2² · 2²)
    levels, matrices = [FEATURES] * 5, [wanted, *[gram(FEATURES)] * 4]
    np.testing.assert_allclose(style_loss(levels, matrices), [0.125 / 5])


def test_gradients_are_the_closed_forms():
    """Gatys et al.: F − P for content, Fᵀ (G − A) / (N² M²) for style."""
    f, p = tf.random.stateless_uniform([2, 1, 3, 4, 2], [0, 0])
    a = gram(p[::-1])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(f)
        losses = content_loss(f, p), layer_loss(f, a)
    np.testing.assert_allclose(tape.gradient(losses[0], f), f - p, rtol=1e-5)
    expected = tf.reshape(f, [1, 12, 2]) @ (gram(f) - a) / (2**2 * 12**2)
    np.testing.assert_allclose(tf.reshape(tape.gradient(losses[1], f), [1, 12, 2]), expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("init", "optimizer", "steps", "precision"),
    [
        ("noise", "adam", 150, "float32"),
        ("content", "adam", 300, "float32"),
        ("content", "lbfgs", 120, "float32"),
        ("content", "lbfgs", 120, "bfloat16"),
    ],
)
def test_style_is_taken_on_and_content_kept(init, optimizer, steps, precision, contents):
    encoder = vgg.build("relu5_1", 8)  # with fewer channels images are hard to tell apart
    settings = settings_for("random", steps=steps, init=init, optimizer=optimizer, precision=precision)
    pairs = np.array([(0, 0), (1, 1), (2, 0)])
    images, losses = transfer(encoder, contents, grams(taps(encoder), textures()), pairs, settings)
    assert images.shape == contents.shape and images.dtype == np.uint8
    assert (losses.style_end < 0.1 * losses.style_start).all(), losses
    if init == "content":
        np.testing.assert_allclose(losses.content_start, 0, atol=1e-2)
    else:
        assert (losses.content_end < 0.2 * losses.content_start).all(), losses
    deep = vgg.taps(encoder, [CONTENT_LAYER])
    seen, known = (deep(stack.astype(np.float32) / 255).numpy().reshape(3, -1) for stack in (images, contents))
    assert np.square(seen[:, None] - known).sum(axis=2).argmin(axis=1).tolist() == [0, 1, 2]


def test_the_paper_weights_leave_random_filters_without_style(encoder, styles, contents):
    """Why `settings_for` has other ones."""
    settings = StyleSettings(steps=50, init="content")
    _, losses = transfer(encoder, contents, styles, np.array([(0, 0), (1, 1)]), settings)
    assert (losses.style_end > 0.5 * losses.style_start).all()


def test_losses_are_of_equations_2_and_6(encoder, styles, contents):
    """Those at the start; from the content image there is no content loss."""
    _, losses = transfer(encoder, contents, styles, np.array([(1, 0)]), dataclasses.replace(SHORT, init="content"))
    levels = taps(encoder)(contents[1:2].astype(np.float32) / 255)
    expected = 0.0
    for level, matrix in zip(levels, styles):
        f = level.numpy().reshape(-1, level.shape[-1]).astype(np.float64)
        expected += np.square(f.T @ f - matrix[0]).sum() / (4 * f.size**2) / 5
    np.testing.assert_allclose(losses.style_start, [expected], rtol=1e-3)


def test_a_batch_is_as_one_by_one(encoder, styles, contents, monkeypatch):
    together, losses = transfer(encoder, contents, styles, None, SHORT)
    assert together.shape == (6, 32, 32, 3)
    alone, other = transfer(encoder, contents, styles, np.array([(1, 1)]), SHORT)
    np.testing.assert_allclose(together[3], alone[0].astype(int), atol=2)
    np.testing.assert_allclose(losses.style_end[3], other.style_end[0], rtol=1e-2)
    monkeypatch.setattr(module, "_ACTIVATIONS", 4 * 32 * 32 * 4)  # four images at a time
    parts, _ = transfer(encoder, contents, styles, None, SHORT)
    np.testing.assert_allclose(together, parts.astype(int), atol=2)


def test_lbfgs_keeps_images_apart(encoder, styles, contents):
    """An image is the same in whatever company."""
    settings = dataclasses.replace(SHORT, optimizer="lbfgs")
    one, other = (
        transfer(encoder, contents, styles, np.array([(1, 1), beside]), settings)[0] for beside in ((0, 0), (2, 1))
    )
    np.testing.assert_allclose(one[0], other[0].astype(int), atol=2)
    assert np.abs(one[1].astype(int) - other[1]).max() > 20


def test_no_pairs(encoder, styles, contents):
    images, losses = transfer(encoder, contents, styles, np.empty((0, 2), int), SHORT)
    assert images.shape == (0, 32, 32, 3) and losses.style_end.shape == (0,)


def test_styles_of_larger_images(encoder, contents):
    """The same texture, four times the places: Gram matrices are scaled, so the loss is nearly the same."""
    pair = np.array([(0, 0)])
    _, small = transfer(encoder, contents, grams(taps(encoder), textures()), pair, SHORT)
    large, places = grams(taps(encoder), textures(64)), positions(64, 64)
    _, scaled = transfer(encoder, contents, large, pair, SHORT, places)
    _, unscaled = transfer(encoder, contents, large, pair, SHORT)
    np.testing.assert_allclose(scaled.style_start, small.style_start, rtol=0.3)
    assert unscaled.style_start > 3 * small.style_start


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"init": "black"}, "init is 'black'; choose one of noise, content"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd'; choose one of adam, lbfgs"),
        ({"content": "max"}, "content is 'max'; choose one of mean, sum"),
        ({"steps": 0}, "steps is 0; it must be above 0"),
        ({"style_weight": -1.0}, "style_weight is -1.0; it must be 0 or more"),
    ],
)
def test_settings_that_make_no_sense(changes, line):
    with pytest.raises(ValueError, match=line):
        StyleSettings(**changes)


@pytest.fixture
def folder(tmp_path, encoder, contents, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pictures = {f"in/{row}.png": cv2.imencode(".png", contents[row][..., ::-1])[1].tobytes() for row in (0, 1)}
    write_files(tmp_path, {**pictures, "twice/a.png": b"", "twice/a.jpg": b"", "bad/a.png": b"no", "bad.npz": b"no"})
    save("g.npz", measure(encoder, textures(), "serrated", "random"))
    return tmp_path


def run(*arguments):
    return main([*arguments, "--steps", "4", "--size", "32"])


def test_the_command(folder, capsys):
    assert run("--content", "in", "--grams", "g.npz", "-o", "out", "--width", "4", "--init", "content") == 0
    names = [f"{content}_serrated{style}.png" for content in (0, 1) for style in (0, 1)]
    assert sorted(path.name for path in (folder / "out").iterdir()) == [*names, "losses.csv"]
    assert cv2.imread("out/1_serrated0.png").shape == (32, 32, 3)
    with open("out/losses.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == names
    assert all(float(row["style_end"]) < float(row["style_start"]) for row in rows)
    said = capsys.readouterr()
    assert said.out == "4 images, VGG-19 of width 4, weights random: out\n" and "style_transfer: 4/4" in said.err


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["--content", "none", "--grams", "g.npz", "--width", "4"], 2, "none: No such file or directory"),
        (["--content", "in", "--grams", "none.npz", "--width", "4"], 2, "none.npz: no such file"),
        (["--content", "in", "--grams", "bad.npz", "--width", "4"], 2, "bad.npz: damaged, or not an .npz"),
        (
            ["--content", "in", "--grams", "g.npz", "--width", "8"],
            2,
            "g.npz: another VGG: its width is 4, here it is 8",
        ),
        (["--content", "twice", "--grams", "g.npz", "--width", "4"], 2, "would both become"),
        (["--content", "bad", "--grams", "g.npz", "--width", "4"], 1, "bad: no image could be read"),
    ],
)
def test_bad_input(arguments, status, line, folder, capsys):
    assert run(*arguments, "-o", "out") == status
    assert line in capsys.readouterr().err


def test_out_must_be_another_folder(folder, capsys):
    assert run("--content", "in", "--grams", "g.npz", "-o", "in") == 2
    assert "in: holds the content; choose another OUT" in capsys.readouterr().err
    assert run("--content", "in", "--grams", "g.npz", "-o", "g.npz") == 2
    assert "g.npz: is there and is not a folder" in capsys.readouterr().err
