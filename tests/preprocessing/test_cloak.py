"""Images that stay within the budget and move away from a style, or towards one."""

from __future__ import annotations

import csv
import dataclasses
import subprocess
import sys

import cv2
import numpy as np
import pytest
import tensorflow as tf

from models import vgg
from preprocessing import cloak as module
from preprocessing.cloak import CloakSettings, cloak
from preprocessing.cloak_command import main
from preprocessing.gram import grams, positions, taps
from preprocessing.style_transfer import style_loss
from tests.preprocessing.folders import write_files
from tests.preprocessing.stains import patches
from tests.preprocessing.textures import textures

SHORT = CloakSettings(steps=3)


@pytest.fixture(scope="module")
def encoder():
    return vgg.build("relu5_1", 4)


@pytest.fixture(scope="module")
def images():
    """Two patches, and one with much black and white, which leaves room on one side only."""
    images = patches(3, size=32)[0].copy()
    images[2, :12], images[2, 12:20] = 0, 255
    return images


@pytest.fixture(scope="module")
def target(encoder):
    return grams(taps(encoder), textures()[:1])


def distance(encoder, images, wanted):
    """The style loss of images (n, …) against Gram matrices, written out."""
    levels = taps(encoder)(images.astype(np.float32) / 255)
    return style_loss(levels, [tf.constant(level) for level in wanted]).numpy()


def moved(found, images):
    return np.abs(found.astype(int) - images).max(axis=(1, 2, 3))


@pytest.mark.parametrize("epsilon", [1, 5, 8])
@pytest.mark.parametrize("away", [True, False])
def test_the_budget_is_used_and_never_exceeded(epsilon, away, encoder, images, target):
    settings = CloakSettings(epsilon=epsilon, steps=4, reach=10)  # steps that lead far outside
    found, _ = cloak(encoder, images, None if away else target, settings)
    assert found.shape == images.shape and found.dtype == np.uint8
    assert moved(found, images).tolist() == [epsilon] * 3


def test_towards_a_target(encoder, images, target):
    found, losses = cloak(encoder, images, target, CloakSettings())
    np.testing.assert_allclose(losses.start, distance(encoder, images, target), rtol=1e-4)
    np.testing.assert_allclose(losses.end, distance(encoder, found, target), rtol=1e-4)
    assert (losses.end < 0.85 * losses.start).all(), losses


def test_away_from_its_own(encoder, images):
    found, losses = cloak(encoder, images, None, CloakSettings())
    own = grams(taps(encoder), images)
    np.testing.assert_allclose(losses.start, 0, atol=1e-6)
    np.testing.assert_allclose(losses.end, distance(encoder, found, own), rtol=1e-4)
    noise = np.random.default_rng(0).choice([-8, 8], images.shape)
    noisy = np.clip(images + noise, 0, 255).astype(np.uint8)
    assert (losses.end > 3 * distance(encoder, noisy, own)).all(), losses  # far more than noise of that size does


def test_a_larger_budget_and_more_steps_lead_further(encoder, images, target):
    small, large = (cloak(encoder, images, target, CloakSettings(epsilon=epsilon))[1].end for epsilon in (2, 16))
    assert (large < small).all()
    few, many = (cloak(encoder, images, None, CloakSettings(steps=steps))[1].end for steps in (1, 20))
    assert (many > few).all()


def test_one_step_is_the_sign_of_the_gradient(encoder, images, target):
    x = tf.constant(images, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = style_loss(taps(encoder)(x / 255), [tf.constant(level) for level in target])
    slope = tape.gradient(loss, x).numpy()
    expected = np.clip(images - 3 * np.sign(slope), 0, 255)
    found, _ = cloak(encoder, images, target, CloakSettings(epsilon=3, steps=1, reach=1.0))
    clear = np.abs(slope) > 1e-3 * np.abs(slope).max()
    assert clear.mean() > 0.5 and (found == expected)[clear].all()


def test_steps_that_lead_astray_are_not_taken(encoder, images):
    """Towards its own style there is nothing to gain."""
    found, losses = cloak(encoder, images, grams(taps(encoder), images), CloakSettings(epsilon=50, steps=2))
    np.testing.assert_array_equal(found, images)
    np.testing.assert_allclose(losses.end, losses.start)


@pytest.mark.parametrize("away", [True, False])
def test_no_budget_leaves_images_as_they_are(away, encoder, images, target):
    found, losses = cloak(encoder, images, None if away else target, CloakSettings(epsilon=0, steps=2))
    np.testing.assert_array_equal(found, images)
    np.testing.assert_array_equal(losses.start, losses.end)


@pytest.mark.parametrize("away", [True, False])
def test_a_batch_is_as_one_by_one(away, encoder, images, target, monkeypatch):
    wanted = None if away else target
    together, losses = cloak(encoder, images, wanted, SHORT)
    alone, other = cloak(encoder, images[1:2], wanted, SHORT)
    monkeypatch.setattr(module, "_ACTIVATIONS", 2 * 32 * 32 * 4)  # two images at a time
    parts, again = cloak(encoder, images, wanted, SHORT)
    for one, same in ((together[1], alone[0]), (together, parts)):
        assert (one == same).mean() > 0.99  # rounding may turn the sign of a slope that is next to nothing
    np.testing.assert_allclose(losses.end[1], other.end[0], rtol=1e-2)
    np.testing.assert_allclose(losses.end, again.end, rtol=1e-2)


def test_each_image_may_have_a_target_of_its_own(encoder, images):
    wanted = grams(taps(encoder), textures())
    both, _ = cloak(encoder, images[:2], wanted, SHORT)
    second, _ = cloak(encoder, images[1:2], [level[1:] for level in wanted], SHORT)
    assert (both[1] == second[0]).mean() > 0.99
    with pytest.raises(ValueError, match="2 target styles for 3 images: give one for all, or one for each"):
        cloak(encoder, images, wanted, SHORT)


def test_targets_of_larger_images(encoder, images, target):
    large = grams(taps(encoder), textures(64)[:1])
    _, small = cloak(encoder, images, target, SHORT)
    _, scaled = cloak(encoder, images, large, SHORT, positions(64, 64))
    np.testing.assert_allclose(scaled.start, small.start, rtol=0.3)


def test_the_seed_is_of_the_noise(encoder, images, target):
    for wanted, same in ((None, False), (target, True)):
        one, other = (cloak(encoder, images, wanted, dataclasses.replace(SHORT, seed=seed))[0] for seed in (0, 1))
        assert np.array_equal(one, other) == same


def test_no_images(encoder, images, target):
    for wanted in (None, target):
        found, losses = cloak(encoder, images[:0], wanted, SHORT)
        assert found.shape == (0, 32, 32, 3) and losses.end.shape == (0,)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"epsilon": -1}, "epsilon is -1; it must be a whole number of grey levels, 0 to 255"),
        ({"epsilon": 2.5}, "epsilon is 2.5; it must be a whole number"),
        ({"steps": 0}, "steps is 0; it must be above 0"),
        ({"reach": -1.0}, "reach is -1.0; it must be above 0"),
        ({"seed": -1}, "seed is -1; it must be 0 or more"),
    ],
)
def test_settings_that_make_no_sense(changes, line):
    with pytest.raises(ValueError, match=line):
        CloakSettings(**changes)


@pytest.fixture
def folder(tmp_path, images, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def png(image):
        return cv2.imencode(".png", image[..., ::-1])[1].tobytes()

    styles = {f"styles/{row}.png": png(image) for row, image in enumerate(textures())}
    pictures = {f"in/{row}.png": png(images[row]) for row in (0, 1)}
    bad = {"in/torn.jpg": b"no", "twice/a.png": b"", "twice/a.jpg": b"", "bad/a.png": b"no", "file": b""}
    return write_files(tmp_path, {**styles, **pictures, **bad})


def run(*arguments):
    return main([*arguments, "--steps", "3", "--size", "32", "--width", "4"])


@pytest.mark.parametrize("target", [[], ["--target", "styles"]])
def test_the_command(target, folder, images, capsys):
    assert run("in", "-o", "out", "--epsilon", "6", *target) == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["0.png", "1.png", "losses.csv"]
    found = np.stack([cv2.imread(f"out/{row}.png")[..., ::-1] for row in (0, 1)])
    assert moved(found, images[:2]).tolist() == [6, 6]
    with open("out/losses.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == ["0.png", "1.png"]
    assert all((float(row["end"]) < float(row["start"])) == bool(target) for row in rows)
    said = capsys.readouterr()
    assert said.out == "2 images, at most 6 grey levels off, VGG-19 of width 4, weights random: out\n"
    assert "left out: in/torn.jpg" in said.err and "cloak: 2/2" in said.err


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["none", "-o", "out"], 2, "none: No such file or directory"),
        (["in", "-o", "out", "--target", "none"], 2, "none: No such file or directory"),
        (["in", "-o", "out", "--weights", "none.h5"], 2, "none.h5"),
        (["twice", "-o", "out"], 2, "would both become"),
        (["bad", "-o", "out"], 1, "bad: no image could be read"),
        (["in", "-o", "out", "--target", "bad"], 1, "bad: no image could be read"),
        (["in", "-o", "in"], 2, "in: holds the images; choose another OUT"),
        (["in", "-o", "styles", "--target", "styles"], 2, "styles: holds the target; choose another OUT"),
        (["in", "-o", "file"], 2, "file: is there and is not a folder"),
    ],
)
def test_bad_input(arguments, status, line, folder, capsys):
    assert run(*arguments) == status
    assert line in capsys.readouterr().err


@pytest.mark.parametrize("value", ["-1", "256", "2.5", "many"])
def test_a_budget_that_is_none(value, folder, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["in", "-o", "out", f"--epsilon={value}"])
    assert f"'{value}' is not a whole number of grey levels from 0 to 255" in capsys.readouterr().err


def test_help_needs_no_tensorflow_and_speaks_of_mist():
    code = """
import runpy, sys
sys.argv = ["x", "--help"]
try:
    runpy.run_module("preprocessing.cloak", run_name="__main__")
except SystemExit:
    pass
print([name for name in ("tensorflow", "numpy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "Mist" in done.stdout and done.stdout.splitlines()[-1] == "[]"
