"""What is released of Gram matrices, who finds out whose they are, and whether styled images look real."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from preprocessing import gram, gram_files, style_moments
from tests.fnst.conftest import styler_of
from tffapps.fnst import AttackSettings, realism
from tffapps.fnst.data import images_of
from tffapps.fnst.lab import DEFENCES, lab, scores
from tffapps.fnst.realism import Judge, structure
from tffapps.fnst.released import averaged, noised, projected, protected


def test_means_are_of_images_that_follow_each_other():
    (found,) = averaged([np.arange(10.0)[:, None, None]], 3)
    assert found.ravel().tolist() == [1, 4, 7]  # the tenth is left out
    assert averaged([np.array([[[2.0]], [[4.0]]])], 5)[0].ravel().tolist() == [3]  # fewer than asked for


def test_noise_leaves_what_receivers_take(styler, federation, away):
    """Symmetric, no negative eigenvalue, of the size asked for; the file is one that is not refused."""
    images = styler.read(images_of(federation, "client1", "normal").path)[:4]
    means = style_moments.means(styler.encoder, images)
    grams = gram.measure(styler.encoder, images, "normal", "random", means)
    changed = protected(grams, 2, 0.5, style_moments.LEVEL, np.random.default_rng(0))
    gram_files.save(away / "noised.npz", changed)
    assert len(gram_files.load(away / "noised.npz", 4, styler.sha256)) == 2
    matrix = np.tile(np.eye(40, dtype=np.float32), (1, 1, 1))
    noise = noised([matrix], 0.01, np.random.default_rng(0))[0] - matrix
    assert np.linalg.eigvalsh(projected(-matrix + noise)).min() > -1e-4
    assert noise.std() == pytest.approx(0.01 * np.sqrt(1 / 40), rel=0.1) and np.allclose(noise[0], noise[0].T)
    same = protected(grams, 1, 0.0, style_moments.LEVEL, np.random.default_rng(0))
    assert all(np.array_equal(*pair) for pair in zip(same.matrices, grams.matrices))


def test_a_site_sends_what_is_protected(federation, away):
    rows = images_of(federation, "client1", "normal")
    plain, guarded = styler_of(), styler_of("--gram-average", "2")
    plain.measure(away / "plain.npz", rows, "normal", 4, 0)
    guarded.measure(away / "guarded.npz", rows, "normal", 2, 0)
    four, two = (gram_files.load(away / f"{name}.npz", 4).matrices[0] for name in ("plain", "guarded"))
    np.testing.assert_allclose(two, four.reshape(2, 2, *four.shape[1:]).mean(axis=1), rtol=1e-5)
    noisy, again = styler_of("--gram-noise", "0.5"), away / "again.npz"
    for secret, equal in ((False, True), (True, False)):
        for name in ("noisy", "again"):
            noisy.measure(away / f"{name}.npz", rows, "normal", 1, 0, secret=secret)
        first, second = (gram_files.load(path, 4).matrices[0] for path in (away / "noisy.npz", again))
        assert np.array_equal(first, second) == equal


def test_a_release_is_traced_if_the_nearest_is_one_of_its_images():
    distances = np.array([[0.0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]])
    found = scores(distances, np.array([[0, 3], [4, 5]]))
    assert found["first"] == 0.5 and found["first_five"] == 1 and found["chance_first"] == pytest.approx(2 / 6)
    assert found["chance_first_five"] == 1 and found["at_chance"] == "yes" and found["releases"] == 2


def test_suspects_at_hand_from_size_to_size_and_defence_to_defence(styler, federation):
    settings = AttackSettings(attack_images=6, attack_suspects=10)
    table = lab([styler, styler_of("--style-size", "48")], federation, settings)
    assert len(table) == 2 * len(DEFENCES) * 3 and set(table["size"]) == {32, 48} and set(table.images) == {10}
    files = table[table.suspects == "the very files"].set_index(["size", "defence"])
    assert (files.xs("none", level="defence")["first"] == 1).all()
    assert files.loc[(32, "noise 50"), "first"] < 1 and (files.first_low <= files["first"]).all()
    entries = sum(width * (width + 1) / 2 for width in (4, 8, 16, 32, 32))
    assert files.loc[(32, "none"), "entries_a_pixel"] == pytest.approx(entries / 32 / 32 / 3)
    assert files.loc[(32, "first two layers"), "entries_a_pixel"] == pytest.approx((10 + 36) / 32 / 32 / 3)


def test_structure_is_blind_to_stain_and_light():
    image = np.random.default_rng(0).integers(60, 160, (1, 32, 32, 3), np.uint8)
    assert structure(image + 40, image)[0] > 0.99 and structure(image[:, ::-1], image)[0] < 0.3


def features(paths):
    """Of drawn names, such as 3-adenoma-...: where it lies, and nothing else."""
    return np.array([[float(number) for number in path.split("|")[0].split(",")] for path in paths])


def test_images_are_called_by_a_classifier_of_images_that_they_were_not_made_of(monkeypatch):
    rows = [(f"{x},{n}|{label}", label, "train" if n < 2 else "test")
            for x, label in ((0, "normal"), (9, "adenoma")) for n in range(12)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["path", "label", "split"])
    judge = Judge.of(table[table.split == "test"], features)
    made = pd.DataFrame({"path": ["0,1|a", "9,1|b", "0,3|c", "9,0|d"],
                         "label": ["normal", "adenoma", "adenoma", "adenoma"],
                         "content": ["0,0|normal", "9,0|adenoma", "9,1|adenoma", "9,0|adenoma"]})  # fmt: skip
    monkeypatch.setattr(realism, "_pairs", lambda paths, contents: [(np.zeros((4, 16, 16, 3), np.uint8),) * 2])
    found = realism._row(made, judge, features)
    assert (
        found["called_right"] == 0.75
        and found["called_normal"] == 1
        and found["called_adenoma"] == pytest.approx(2 / 3)
    )
    assert found["called_right_low"] <= 0.75 <= found["called_right_high"] and found["structure"] == 1
    assert found["nearest_right"] == 0.75 and found["nearest_own"] == 0.25  # d alone
    others = realism._others(dataclasses.make_dataclass("F", ["part"])(lambda split: table[table.split == split]),
                             made.assign(content=made.content))  # fmt: skip
    assert set(others.label) == {"normal"} and not set(others.path) & set(made.content)  # adenomas are all contents
