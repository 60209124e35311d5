"""The federation's model of its stains: what it learns from, its training rounds' data, and drawing from it.

    client k: matrices ── sums ──► mean, std (server) ──► standardised ── noised, with t and k ──► FedAvg of denoisers
    G(i): noise ── denoiser, T steps ──► · std + mean ── negatives cut, columns of length 1 ──► stain matrices

Only sums and denoisers' weights leave a client; a stain matrix is six numbers of a patch and shows none of its tissue.
"""

import numpy as np
import tensorflow as tf

from models import ddpm, stain_diffusion
from preprocessing.stain import REFERENCE
from tffapps.data import pipeline
from tffapps.federated.denoising import NoiselessData
from tffapps.federated.moments import Moments
from tffapps.fedsda.stain_vectors import as_matrices, scale


def data(values: np.ndarray, *, batch: int, epochs: int, seed: int, rate: float = 1.0) -> NoiselessData:
    """What a client trains its denoiser on in a round: its standardised vectors (n, 6), and a key for the noise."""
    nothing = np.zeros(len(values), np.int32)
    if batch < len(values):
        batches = pipeline.from_arrays(values, nothing, batch=batch, epochs=epochs, seed=seed)
    else:  # all at once need no order, and a dataset without functions starts several times faster
        batches = tf.data.Dataset.from_tensors((values, nothing)).repeat(epochs)
    return _with_key(batches, seed, rate)


def data_in_file(
    path: str, count: int, moments: Moments, *, batch: int, epochs: int, seed: int, rate: float = 1.0
) -> NoiselessData:
    """The same of a file of float32 vectors that need not be here: standardised where the pipeline runs."""
    mean, deviation = tf.constant(moments.mean), tf.constant(scale(moments))
    table = vectors_in_file(path).map(lambda vectors: tf.cast((vectors - mean) / deviation, tf.float32))
    rows = pipeline.of_table(table, batch=batch, epochs=epochs, seed=seed, shuffle=batch < count)
    return _with_key(rows.map(lambda values: (values, tf.zeros(tf.shape(values)[:1], tf.int32))), seed, rate)


def vectors_in_file(path: str) -> tf.data.Dataset:
    """One table of float64 (n, 6)."""

    def read(path: tf.Tensor) -> tf.Tensor:
        numbers = tf.io.decode_raw(tf.io.read_file(path), tf.float32)
        return tf.cast(tf.reshape(numbers, [-1, stain_diffusion.NUMBERS]), tf.float64)

    return tf.data.Dataset.from_tensors(path).map(read)


def _with_key(batches: tf.data.Dataset, seed: int, rate: float) -> NoiselessData:
    key = np.random.SeedSequence([seed, 0x57A1]).generate_state(2).astype(np.int32)
    return NoiselessData(batches, key, np.float32(rate))


def sample_standardised(denoiser: tf.keras.Model, clients: np.ndarray, seed: int, steps: int) -> np.ndarray:
    """Standardised vectors (n, 6) from the distributions of the clients named (n) by their numbers."""
    return ddpm.sample(denoiser, clients, seed, stain_diffusion.NUMBERS, ddpm.scaled(steps))


def draw(denoiser: tf.keras.Model, clients: np.ndarray, moments: Moments, *, seed: int, steps: int) -> np.ndarray:
    """The same as stain matrices (n, 3, 2): columns of length 1, nothing negative."""
    return matrices_of(sample_standardised(denoiser, clients, seed, steps), moments)


def matrices_of(vectors: np.ndarray, moments: Moments) -> np.ndarray:
    """Stain matrices (n, 3, 2) of standardised vectors (n, 6): columns of length 1, nothing negative."""
    matrices = np.maximum(as_matrices(vectors * scale(moments) + moments.mean), 0)
    lengths = np.linalg.norm(matrices, axis=1, keepdims=True)
    # A column without any colour would wipe a stain out; only a denoiser that has not learned draws one.
    return np.where(lengths > 0, matrices / np.where(lengths > 0, lengths, 1), REFERENCE).astype(np.float32)
