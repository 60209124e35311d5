from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models import ddpm, stain_diffusion
from tffapps.engine import open_engine
from tffapps.federated.denoising import Denoising, NoiselessData, denoising_task, noised
from tffapps.federated.moments import federated_moments
from tffapps.federated.robust_denoising import RobustDenoising
from tffapps.federated.round import build_round


def data(values, epochs=2, rate=1.0, key=(1, 2)):
    nothing = np.zeros(len(values), np.int32)
    batches = tf.data.Dataset.from_tensors((values, nothing)).repeat(epochs)
    return NoiselessData(batches, np.array(key, np.int32), np.float32(rate))


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(rows, 6)).astype(np.float32) for rows in (20, 5)]


def played(values, rounds=1, rate=1.0, engine="in-process", present=None, kind=Denoising, **options):
    """(the model's weights' names, their values before and after, the clients' reports in the last round)."""
    present = list(range(len(values))) if present is None else present
    with open_engine(engine):
        model = stain_diffusion.build("mlp", clients=len(values), schedule=ddpm.scaled(20))
        if kind is RobustDenoising:
            trained = [variable.name for variable in model.trainable_variables]
            options["embedding"] = trained.index("client_embedding/embeddings:0")
        method = kind(optimizer="adamw", learning_rate=0.01, schedule_steps=20, **options)
        round_ = build_round(denoising_task(model, 6), method)
        state = round_.start(model.get_weights())
        for number in range(rounds):
            clients = [data(values[place], rate=rate, key=(number, place)) for place in present]
            state, reports, *_ = round_.next(state, present, clients)
        names = [weight.name for weight in model.weights]
        return names, model.get_weights(), [np.asarray(value) for value in round_.result(state)], np.asarray(reports)


def test_noise_is_that_of_the_forward_process():
    schedule = ddpm.scaled(20)
    vectors = tf.ones([4000, 6]) * 3.0
    noisy, times, noise = noised(schedule, vectors, tf.constant([1, 2]), tf.constant(0))
    product = schedule.products[times.numpy() - 1][:, None]
    assert noisy.numpy() == pytest.approx(np.sqrt(product) * 3 + np.sqrt(1 - product) * noise.numpy(), abs=1e-5)
    assert set(np.unique(times)) == set(range(1, 21))
    assert noise.numpy().std() == pytest.approx(1, rel=0.02)
    again = noised(schedule, vectors, tf.constant([1, 2]), tf.constant(0))
    other = noised(schedule, vectors, tf.constant([1, 2]), tf.constant(1))
    assert np.array_equal(again[0], noisy) and not np.array_equal(other[0], noisy)


def test_the_condition_is_the_clients_place(values):
    names, before, after, _ = played(values, present=[1], weight_decay=0.0)
    place = next(place for place, name in enumerate(names) if "client_embedding" in name)
    changed = (after[place] != before[place]).any(axis=1)
    assert changed.tolist() == [False, True]


def test_clients_count_by_examples_or_the_same(values):
    by_examples, equal = (played(values, equal=equal) for equal in (False, True))
    first, second = (played(values, present=[place]) for place in (0, 1))
    updates = [[b - a for a, b in zip(alone[1], alone[2])] for alone in (first, second)]
    assert by_examples[3][:, 2].tolist() == [40, 10] and equal[3][:, 2].tolist() == [1, 1]
    for run, share in ((by_examples, 0.8), (equal, 0.5)):
        for before, after, one, other in zip(run[1], run[2], *updates):
            assert after - before == pytest.approx(share * one + (1 - share) * other, abs=1e-5)


def test_a_clients_row_is_its_own_and_all_else_is_held(values):
    """A row moves by the whole of what it moved at its client, and at no other; all else is held by mu."""
    loose: dict = {"kind": RobustDenoising, "mu": 0.0, "weight_decay": 0.1}
    names, before, after, _ = played(values, **loose)
    alone = played(values, present=[1], **loose)[2]
    held = played(values, **{**loose, "mu": 1e4})[2]
    place = next(place for place, name in enumerate(names) if "client_embedding" in name)
    assert after[place][1] == pytest.approx(alone[place][1], abs=1e-6)
    assert np.array_equal(alone[place][0], before[place][0])
    kernel = names.index("project/kernel:0")
    assert np.abs(held[kernel] - before[kernel]).max() < 0.8 * np.abs(after[kernel] - before[kernel]).max()
    assert np.abs(held[place] - before[place]).max() > 0.5 * np.abs(after[place] - before[place]).max()


def test_the_rate_of_a_round(values):
    _, before, after, _ = played(values, rate=0.0)
    assert all(np.array_equal(a, b) for a, b in zip(before, after))


def test_both_engines_give_the_same_numbers(values):
    here, there = (played(values, rounds=2, engine=engine)[2] for engine in ("in-process", "worker"))
    assert all(a == pytest.approx(b, abs=1e-5) for a, b in zip(here, there))


@pytest.mark.parametrize("engine", ["in-process", "worker"])
def test_moments_are_those_of_all_rows(values, engine):
    with open_engine(engine):
        tables = [np.asarray(table, np.float64) for table in (*values, np.full((1, 6), 7.0))]
        moments = federated_moments([tf.data.Dataset.from_tensors(table) for table in tables], 6)
    together = np.concatenate([*values, np.full((1, 6), 7.0)]).astype(np.float64)
    assert moments.mean == pytest.approx(together.mean(axis=0)) and moments.std == pytest.approx(together.std(axis=0))
