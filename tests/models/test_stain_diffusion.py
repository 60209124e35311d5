from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models import ddpm, stain_diffusion


@pytest.mark.parametrize(("block", "thousands"), [("transformer", 13.2), ("token-mlp", 4.8), ("mlp", 4.7)])
def test_table_1_parameters(block, thousands):
    """With CAMELYON17's five clients."""
    model = stain_diffusion.build(block, clients=5)
    assert round(model.count_params() / 1000, 1) == thousands


@pytest.mark.parametrize("block", ["transformer", "mlp"])
def test_every_input_matters(block):
    model = stain_diffusion.build(block, clients=3)
    rng = np.random.default_rng(0)
    noisy = rng.normal(size=(1, 6)).astype(np.float32)

    def noise(values=noisy, time=10, client=1):
        return model([values, np.array([time]), np.array([client])]).numpy()

    usual = noise()
    assert usual.shape == (1, 6)
    assert not np.allclose(usual, noise(time=500)) and not np.allclose(usual, noise(client=2))
    for place in range(6):  # each number of w_t is a token that the others see
        other = noisy.copy()
        other[0, place] += 1
        assert (np.abs(noise(other) - usual) > 1e-6).all()


def test_a_token_wise_mlp_finds_the_same_whatever_the_client_and_the_other_numbers():
    """As in the authors' code, of 4,769 parameters with five clients."""
    model = stain_diffusion.build("token-mlp", clients=5)
    assert model.count_params() == 4769
    noisy, numbers = np.random.default_rng(0).normal(size=(1, 6)).astype(np.float32), np.array([1])
    usual = model([noisy, 10 * numbers, numbers]).numpy()
    assert np.array_equal(model([noisy, 10 * numbers, 2 * numbers]).numpy(), usual)
    other = noisy.copy()
    other[0, 3] += 1
    changed = model([other, 10 * numbers, numbers]).numpy() != usual
    assert changed.tolist() == [[False, False, False, True, False, False]]


def test_attention_is_attention():
    """Against scores, softmax and mean written out for one head after another."""
    rng = np.random.default_rng(1)
    together = rng.normal(size=(2, 8, 96)).astype(np.float32)
    found = stain_diffusion.Attend()(together).numpy()
    query, key, value = np.split(together, 3, axis=-1)
    for head in range(8):
        part = slice(head * 4, head * 4 + 4)
        scores = query[..., part] @ key[..., part].transpose(0, 2, 1) / 2
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        assert found[..., part] == pytest.approx(weights @ value[..., part], abs=1e-5)


def test_a_network_that_finds_nothing_is_exact_for_standard_normal_data():
    """√(1 − ᾱ) x_t is the conditional mean of the noise then, so samples are standard normal."""
    schedule = ddpm.scaled(100)
    model = stain_diffusion.build("mlp", clients=1, schedule=schedule)
    last = model.get_layer("found")
    last.set_weights([np.zeros_like(value) for value in last.get_weights()])
    drawn = ddpm.sample(model, np.zeros(1024, int), 0, 6, schedule)
    assert drawn.mean() == pytest.approx(0, abs=0.05) and drawn.std() == pytest.approx(1, rel=0.05)


def test_weights_depend_on_the_seed_alone():
    first, again, other = (stain_diffusion.build("transformer", clients=2, seed=seed) for seed in (0, 0, 1))
    pairs = zip(first.get_weights(), again.get_weights(), other.get_weights())
    assert all(np.array_equal(a, b) for a, b, _ in pairs)
    assert not np.array_equal(first.get_weights()[0], other.get_weights()[0])
    tf.keras.backend.clear_session()


def test_unknown_block():
    with pytest.raises(ValueError, match="block cnn: unknown; choose one of transformer, token-mlp, mlp"):
        stain_diffusion.build("cnn", clients=2)
