"""What the stain model learns from and what is drawn from it, on numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from preprocessing.stain import REFERENCE
from tffapps.data import tissue
from tffapps.federated.moments import Moments
from tffapps.fedsda import stain_model, stain_vectors

SIX = np.array([[[1, 4], [2, 5], [3, 6]]], float)  # haematoxylin 1 2 3, eosin 4 5 6


@pytest.fixture(scope="module")
def clients():
    """The stains of two centres, of which one has more patches."""
    return [tissue.centre_stains(0, 40, 0), tissue.centre_stains(1, 15, 0)]


def moments_of(clients):
    vectors = stain_vectors.as_vectors(np.concatenate(clients))
    return Moments(vectors.mean(axis=0), vectors.std(axis=0))


def drawn(monkeypatch, vectors, moments):
    """Stain matrices of a denoiser that gives these standardised vectors."""
    monkeypatch.setattr(stain_model, "sample_standardised", lambda *arguments: np.array(vectors, np.float32))
    return stain_model.draw(None, np.zeros(len(vectors), int), moments, seed=0, steps=10)


def rows_of(data):
    """The epochs' rows one after another, and the sizes of the batches."""
    batches = [vectors for vectors, _ in data.batches.as_numpy_iterator()]
    return np.concatenate(batches), [len(batch) for batch in batches]


def test_vectors_are_haematoxylin_then_eosin_and_become_matrices_again(clients):
    assert stain_vectors.as_vectors(SIX).tolist() == [[1, 2, 3, 4, 5, 6]]
    assert np.array_equal(stain_vectors.as_matrices(stain_vectors.as_vectors(clients[0])), clients[0])


def test_standardised_stains_of_all_clients_have_mean_0_and_deviation_1(clients):
    moments = moments_of(clients)
    values = [stain_vectors.standardised(own, moments) for own in clients]
    together = np.concatenate(values)
    assert together.dtype == np.float32
    assert together.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-5)
    assert together.std(axis=0) == pytest.approx(np.ones(6), abs=1e-5)
    assert np.abs(values[0].mean(axis=0)).max() > 0.1  # of all together, not of each


def test_a_number_that_is_the_same_in_all_matrices_survives(clients, monkeypatch):
    same = [own.copy() for own in clients]
    for own in same:
        own[:, 1, 1] = 0.9
    moments = moments_of(same)
    values = stain_vectors.standardised(same[0], moments)
    assert np.isfinite(values).all() and np.abs(values[:, 4]).max() < 1e-5
    back = drawn(monkeypatch, values, moments)
    assert back == pytest.approx(same[0] / np.linalg.norm(same[0], axis=1, keepdims=True), abs=1e-5)


@pytest.mark.parametrize("batch", [4, 10, 64])
def test_every_epoch_gives_every_row_once(batch):
    values = np.arange(60, dtype=np.float32).reshape(10, 6)
    rows, sizes = rows_of(stain_model.data(values, batch=batch, epochs=3, seed=1))
    assert sizes == ([4, 4, 2] if batch == 4 else [10]) * 3
    for epoch in rows.reshape(3, 10, 6):
        assert sorted(epoch[:, 0]) == values[:, 0].tolist()
        assert (epoch - epoch[:, :1] == np.arange(6)).all()  # a row stays a row
    orders = {tuple(epoch[:, 0]) for epoch in rows.reshape(3, 10, 6)}
    assert len(orders) == (3 if batch == 4 else 1)


@pytest.mark.parametrize("batch", [4, 64])
def test_the_seed_decides_the_key_of_the_noise_and_the_order(batch):
    values = np.arange(60, dtype=np.float32).reshape(10, 6)
    first, again, other = (stain_model.data(values, batch=batch, epochs=1, seed=seed) for seed in (1, 1, 2))
    assert first.key.dtype == np.int32 and first.key.shape == (2,)
    assert np.array_equal(first.key, again.key) and not np.array_equal(first.key, other.key)
    assert np.array_equal(rows_of(first)[0], rows_of(again)[0])
    assert np.array_equal(rows_of(first)[0], rows_of(other)[0]) == (batch == 64)


def test_the_share_of_the_learning_rate_is_handed_on():
    values = np.zeros((2, 6), np.float32)
    assert stain_model.data(values, batch=2, epochs=1, seed=0).rate == 1
    rate = stain_model.data(values, batch=2, epochs=1, seed=0, rate=0.25).rate
    assert rate == 0.25 and rate.dtype == np.float32


def test_drawing_undoes_the_standardisation(clients, monkeypatch):
    moments = moments_of(clients)
    back = drawn(monkeypatch, stain_vectors.standardised(clients[1], moments), moments)
    assert back.dtype == np.float32 and back == pytest.approx(clients[1], abs=1e-5)


def test_drawn_columns_have_length_1_and_nothing_negative(clients, monkeypatch):
    vectors = np.random.default_rng(0).normal(0, 20, (500, 6))  # a denoiser that has learned little
    back = drawn(monkeypatch, vectors, moments_of(clients))
    assert (back >= 0).all() and (back == 0).any()
    assert np.linalg.norm(back, axis=1) == pytest.approx(1, abs=1e-5)


def test_a_stain_without_any_colour_becomes_the_textbooks(monkeypatch):
    moments = Moments(np.zeros(6), np.ones(6))
    back = drawn(monkeypatch, [[-1, -2, -3, 0, 3, 4], [-1] * 6], moments)
    assert np.array_equal(back[0, :, 0], REFERENCE[:, 0]) and back[0, :, 1] == pytest.approx([0, 0.6, 0.8])
    assert np.array_equal(back[1], REFERENCE)
