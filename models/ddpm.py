"""Denoising diffusion (Ho, Jain and Abbeel 2020; FedSDA's Eqs. 6 to 8) over vectors, conditioned on a number.

Forward: x_t = √ᾱ_t x_0 + √(1 − ᾱ_t) ε, the closed form of T steps of Eq. 6. Backward, Eq. 7: from x_T ~ N(0, I) by
x_{t−1} = (x_t − β_t / √(1 − ᾱ_t) · ε_θ(x_t, t, c)) / √α_t + √β_t z, without z at the last step.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf

STEPS, FIRST_BETA, LAST_BETA = 1000, 1e-4, 0.02
_AT_ONCE = 256  # vectors sampled together by a core: memory does not grow with their number, one trace serves all

# (noisy (n, d), time (n) from 1 to T, condition (n)) -> noise (n, d)
Denoiser = Callable[[list[tf.Tensor]], tf.Tensor]


class Schedule:
    """Linear β_1 … β_T; index 0 of every array is step 1."""

    def __init__(self, steps: int = STEPS, first: float = FIRST_BETA, last: float = LAST_BETA) -> None:
        self.steps = steps
        self.betas = np.linspace(first, last, steps)
        self.alphas = 1 - self.betas
        self.products = np.cumprod(self.alphas)  # ᾱ

    def noised(self, start: tf.Tensor, time: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """x_t of x_0 (n, d), for times (n) from 1 to T."""
        product = tf.gather(tf.constant(self.products, tf.float32), time - 1)[:, tf.newaxis]
        return tf.sqrt(product) * start + tf.sqrt(1 - product) * noise

    def back(self, x: tf.Tensor, time: tf.Tensor, predicted: tf.Tensor, fresh: tf.Tensor) -> tf.Tensor:
        """x_{t−1} of x_t, all at one time (scalar), with the predicted noise and fresh noise."""
        beta, alpha, product = (
            tf.gather(tf.constant(values, tf.float32), time - 1) for values in (self.betas, self.alphas, self.products)
        )
        mean = (x - beta / tf.sqrt(1 - product) * predicted) / tf.sqrt(alpha)
        return mean + tf.where(time > 1, tf.sqrt(beta), 0.0) * fresh


def sample(
    denoise: Denoiser, conditions: np.ndarray, seed: int, dimensions: int, schedule: Schedule | None = None
) -> np.ndarray:
    """A vector for each condition (n), float32 (n, dimensions); depends on the seed and on the order alone.

    Keep a denoiser's calls together: each new one is compiled once, which takes seconds.
    """
    run = _compiled(denoise, dimensions, schedule or scaled(STEPS))
    words = np.random.SeedSequence([seed, 0xD1FF]).generate_state(2).astype(np.int32)

    def some(start: int) -> np.ndarray:
        part = np.asarray(conditions[start : start + _AT_ONCE], np.int32)
        filled = np.concatenate([part, np.zeros(_AT_ONCE - len(part), np.int32)])
        key = tf.random.experimental.stateless_fold_in(tf.constant(words), start // _AT_ONCE, alg="philox")
        return run(tf.constant(filled), key).numpy()[: len(part)]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # compiled, it keeps to one core
        parts = list(pool.map(some, range(0, len(conditions), _AT_ONCE)))
    return np.concatenate(parts) if parts else np.zeros((0, dimensions), np.float32)


@functools.cache
def scaled(steps: int) -> Schedule:
    """The usual one for 1,000 steps; with fewer, betas are larger, so that as much noise is left at the end."""
    factor = STEPS / steps
    return Schedule(steps, FIRST_BETA * factor, min(LAST_BETA * factor, 0.999))


@functools.lru_cache(maxsize=4)
def _compiled(denoise: Denoiser, dimensions: int, schedule: Schedule) -> Callable[..., tf.Tensor]:
    @tf.function(jit_compile=True, autograph=False)
    def run(conditions: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        shape = [_AT_ONCE, dimensions]

        def noise(number: tf.Tensor | int) -> tf.Tensor:
            own = tf.random.experimental.stateless_fold_in(key, number, alg="philox")
            return tf.random.stateless_normal(shape, own, alg="philox")

        def step(time: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            predicted = denoise([x, tf.fill([_AT_ONCE], time), conditions])
            return time - 1, schedule.back(x, time, predicted, noise(time))

        last = tf.constant(schedule.steps)
        first = noise(schedule.steps + 1)
        return tf.while_loop(lambda time, x: time > 0, step, (last, first))[1]

    return run
