"""The federation's model of its stains: what it learns from, its training rounds' data, and drawing from it.

    client k: matrices ── sums ──► mean, std (server) ──► standardised ── noised, with t and k ──► FedAvg of denoisers
    G(i): noise ── denoiser, T steps ──► · std + mean ── negatives cut, columns of length 1 ──► stain matrices

Only sums and denoisers' weights leave a client; a stain matrix is six numbers of a patch and shows none of its tissue.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from models import ddpm, stain_diffusion
from preprocessing.stain import REFERENCE
from tffapps.data import pipeline
from tffapps.federated.denoising import NoiselessData
from tffapps.federated.moments import Moments

_FLAT = 1e-6  # a number that is the same in all matrices is left as it is


def as_vectors(matrices: np.ndarray) -> np.ndarray:
    """(n, 3, 2) → (n, 6): haematoxylin's red, green and blue, then eosin's."""
    return matrices.transpose(0, 2, 1).reshape(-1, stain_diffusion.NUMBERS)


def as_matrices(vectors: np.ndarray) -> np.ndarray:
    return vectors.reshape(-1, 2, 3).transpose(0, 2, 1)


def standardised(matrices: np.ndarray, moments: Moments) -> np.ndarray:
    return ((as_vectors(matrices) - moments.mean) / _scale(moments)).astype(np.float32)


def data(values: np.ndarray, *, batch: int, epochs: int, seed: int, rate: float = 1.0) -> NoiselessData:
    """What a client trains its denoiser on in a round: its standardised vectors (n, 6), and a key for the noise."""
    key = np.random.SeedSequence([seed, 0x57A1]).generate_state(2).astype(np.int32)
    nothing = np.zeros(len(values), np.int32)
    if batch < len(values):
        batches = pipeline.from_arrays(values, nothing, batch=batch, epochs=epochs, seed=seed)
    else:  # all at once need no order, and a dataset without functions starts several times faster
        batches = tf.data.Dataset.from_tensors((values, nothing)).repeat(epochs)
    return NoiselessData(batches, key, np.float32(rate))


def sample_standardised(denoiser: tf.keras.Model, clients: np.ndarray, seed: int, steps: int) -> np.ndarray:
    """Standardised vectors (n, 6) from the distributions of the clients named (n) by their numbers."""
    return ddpm.sample(denoiser, clients, seed, stain_diffusion.NUMBERS, ddpm.scaled(steps))


def draw(denoiser: tf.keras.Model, clients: np.ndarray, moments: Moments, *, seed: int, steps: int) -> np.ndarray:
    """The same as stain matrices (n, 3, 2): columns of length 1, nothing negative."""
    matrices = as_matrices(sample_standardised(denoiser, clients, seed, steps) * _scale(moments) + moments.mean)
    matrices = np.maximum(matrices, 0)
    lengths = np.linalg.norm(matrices, axis=1, keepdims=True)
    # A column without any colour would wipe a stain out; only a denoiser that has not learned draws one.
    return np.where(lengths > 0, matrices / np.where(lengths > 0, lengths, 1), REFERENCE).astype(np.float32)


def _scale(moments: Moments) -> np.ndarray:
    return np.where(moments.std > _FLAT, moments.std, 1.0)
