"""The forward and the reverse process on Gaussians, of which everything is known."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models import ddpm

MEAN, STD = 2.0, 0.5


def exact(schedule):
    """ε(x, t) of data N(MEAN + condition, STD²): the conditional mean of the noise, in closed form."""
    products = tf.constant(schedule.products, tf.float32)

    def denoise(inputs):
        x, time, condition = inputs
        product = tf.gather(products, time - 1)[:, None]
        centre = tf.sqrt(product) * (MEAN + tf.cast(condition, tf.float32)[:, None])
        return tf.sqrt(1 - product) * (x - centre) / (product * STD**2 + 1 - product)

    return denoise


def test_the_usual_schedule():
    schedule = ddpm.Schedule()
    assert schedule.steps == 1000
    assert schedule.betas[0] == pytest.approx(1e-4) and schedule.betas[-1] == pytest.approx(0.02)
    assert schedule.products[0] == pytest.approx(1 - 1e-4)
    assert schedule.products[-1] == pytest.approx(np.prod(1 - schedule.betas))
    assert schedule.products[-1] < 1e-4  # nothing of the data is left


def test_fewer_steps_end_in_as_much_noise():
    assert ddpm.scaled(100).products[-1] < 1e-3
    assert ddpm.scaled(1000).products[-1] == pytest.approx(ddpm.Schedule().products[-1])


def test_the_closed_form_is_the_chain_of_equation_6():
    """Variance and mean of x_t by t single steps of Eq. 6 are those of the closed form."""
    schedule = ddpm.Schedule(50, 1e-3, 0.2)
    mean, variance = 1.0, 0.0
    for time in range(1, 51):
        mean *= np.sqrt(1 - schedule.betas[time - 1])
        variance = (1 - schedule.betas[time - 1]) * variance + schedule.betas[time - 1]
        alone = schedule.noised(tf.ones([1, 1]), tf.constant([time]), tf.zeros([1, 1]))
        noise = schedule.noised(tf.zeros([1, 1]), tf.constant([time]), tf.ones([1, 1]))
        assert float(alone[0, 0]) == pytest.approx(mean, rel=1e-5)
        assert float(noise[0, 0]) ** 2 == pytest.approx(variance, rel=1e-4)


def test_one_step_back_by_hand():
    schedule = ddpm.Schedule(2, 0.1, 0.3)
    x, predicted, fresh = (tf.constant([[value]]) for value in (1.0, 0.5, 2.0))
    mean = (1.0 - 0.3 / np.sqrt(1 - 0.9 * 0.7) * 0.5) / np.sqrt(0.7)
    assert float(schedule.back(x, tf.constant(2), predicted, fresh)[0, 0]) == pytest.approx(mean + np.sqrt(0.3) * 2)
    last = (1.0 - 0.1 / np.sqrt(0.1) * 0.5) / np.sqrt(0.9)  # no fresh noise at the last step
    assert float(schedule.back(x, tf.constant(1), predicted, fresh)[0, 0]) == pytest.approx(last, rel=1e-5)


def test_the_reverse_process_with_the_exact_denoiser_gives_the_data():
    schedule = ddpm.scaled(200)
    conditions = np.arange(2000) % 2
    drawn = ddpm.sample(exact(schedule), conditions, 0, 3, schedule)
    for condition in (0, 1):
        rows = drawn[conditions == condition]
        assert rows.mean(axis=0) == pytest.approx(np.full(3, MEAN + condition), abs=0.08)
        assert rows.std(axis=0) == pytest.approx(np.full(3, STD), rel=0.1)


def test_samples_depend_on_seed_and_place_alone():
    schedule = ddpm.scaled(5)
    denoise = exact(schedule)
    many = ddpm.sample(denoise, np.zeros(700, int), 1, 2, schedule)
    few = ddpm.sample(denoise, np.zeros(10, int), 1, 2, schedule)
    assert np.array_equal(many[:10], few)
    assert not np.array_equal(few, ddpm.sample(denoise, np.zeros(10, int), 2, 2, schedule))
    assert len(np.unique(many[:, 0])) == 700
    assert ddpm.sample(denoise, np.zeros(0, int), 1, 2, schedule).shape == (0, 2)
