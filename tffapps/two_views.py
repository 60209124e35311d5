"""A client's data where few images are labelled, made of its rows (`federated.few_labels.TwoViewData`)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tffapps.federated.few_labels import TwoViewData
from tffapps.inputs import Inputs

VIEWS = ("weak", "strong")  # names of augmentations that the inputs must have


@dataclasses.dataclass(frozen=True)
class Share:
    """What a client trains with in a round: `steps` batches of each kind; `known` may be empty."""

    known: Sequence[str]  # paths of labelled images
    codes: np.ndarray  # their classes
    unknown: Sequence[str]  # paths of the others
    steps: int
    labelled_batch: int
    batch: int  # of unlabelled images


def two_views(inputs: Inputs, share: Share, prior: np.ndarray, *, number: int, seed: int) -> TwoViewData:
    """The same order for both views; the augmentations draw from the seed independently."""
    unknown, rows = list(share.unknown), np.arange(len(share.unknown))
    epochs = _passes(share.steps, len(unknown), share.batch)

    def view(name: str, seed: int) -> tf.data.Dataset:
        return inputs.batches(unknown, rows, name, batch=share.batch, epochs=epochs, seed=seed)

    pairs = tf.data.Dataset.zip((view("weak", seed + 1), view("strong", seed + 1)))
    return TwoViewData(
        once=inputs.batches(unknown, rows, batch=share.batch, shuffle=False),
        labelled=_labelled(inputs, share, seed),
        unlabelled=pairs.map(lambda weak, strong: (weak[0], strong[0], weak[1])),
        others=view("weak", seed + 2),
        images=np.int32(len(unknown)),
        batch=np.int32(share.batch),
        steps=np.int32(share.steps),
        number=np.int32(number),
        prior=prior,
        seed=np.random.SeedSequence([seed, 3]).generate_state(2).astype(np.int32),
    )


def smoothed(codes: Sequence[int] | np.ndarray, classes: int) -> np.ndarray:
    """Class shares as if each class had one image more: one of which nobody has a labelled image is not ruled out."""
    counts = np.bincount(np.asarray(codes, int), minlength=classes) + 1.0
    return (counts / counts.sum()).astype(np.float32)


def _labelled(inputs: Inputs, share: Share, seed: int) -> tf.data.Dataset:
    if len(share.known):
        epochs = _passes(share.steps, len(share.known), share.labelled_batch)
        return inputs.batches(
            list(share.known), share.codes, "weak", batch=share.labelled_batch, epochs=epochs, seed=seed
        )
    none: tuple[Any, ...] = tuple(tf.zeros([0, *spec.shape[1:]], spec.dtype) for spec in inputs.spec)
    return tf.data.Dataset.from_tensors(none).repeat(share.steps)


def _passes(steps: int, images: int, batch: int) -> int:
    """Epochs that have so many batches at least."""
    return -(-steps // -(-images // batch))
