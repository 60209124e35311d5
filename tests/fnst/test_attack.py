"""Ranks are what they say, and an attack on Gram matrices does what an attacker would."""

import numpy as np
import pytest

from preprocessing import gram
from tffapps.fnst import AttackSettings
from tffapps.fnst import attack as module
from tffapps.fnst.attack import attack, invert
from tffapps.fnst.data import images_of

SETTINGS = AttackSettings(attack=True, attack_images=4, attack_steps=60)


def test_ranks_are_counted_with_ties_in_the_middle():
    distances = np.array([[0.0, 1, 2, 3], [1, 1, 1, 1], [0, 1, 2, 3]])  # own: the diagonal
    row = module._row("name", "how", distances)
    # ranks: 1; three others are equal, so 1 + 1.5; two are nearer, so 3
    assert row["median_rank"] == 2.5 and row["first"] == pytest.approx(1 / 3) and row["first_five"] == 1


def test_the_image_found_has_nearly_the_gram_matrices_given(styler, federation):
    images = styler.read(images_of(federation, "client1", "normal").path)[:3]
    matrices = gram.grams(gram.taps(styler.encoder), images)
    found, losses = invert(styler, matrices, 32, steps=150)
    assert found.shape == images.shape and (losses.style_end < 0.1 * losses.style_start).all()


def test_suspects_at_hand_are_found_out_and_chance_is_said(styler, federation):
    result = attack(styler, federation, SETTINGS)
    table = result.table.set_index(["attack", "how"])
    exact = table.loc[("suspects at hand, the very files", "nearest Gram matrices")]
    assert exact["first"] == 1 and exact["median_rank"] == 1 and np.isnan(exact.ssim_own)
    count = len(images_of(federation, "client1", "normal"))
    assert (table.chance_first == 1 / count).all() and (table.chance_first_five == 5 / count).all()
    assert (table.attacked == 4).all() and (table.images == count).all()
    assert len(table) == 6 and result.real.shape == result.recovered.shape == (4, 32, 32, 3)
    made = table.loc["image optimised"]
    assert made.ssim_own.notna().all() and (made.style_left < 1).all()
