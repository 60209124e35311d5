"""Is a Gram matrix private? Measured, where the paper argues.

An attacker has one image's Gram matrices and nothing else. It optimises an image until VGG-19 sees the same
matrices in it, and looks for the nearest of the client's real images: in pixels, in structure (SSIM), in what
VGG-19's content layer sees. How often the right one is first, or among the first five, stands beside chance.

Three attackers more, who need no optimisation because they have suspects: they measure the suspects' own Gram matrices
and compare. One has the very files; one has them as JPEGs of poor quality; one turned by 90 degrees.
"""

import dataclasses
from typing import Any

import cv2
import numpy as np
import pandas as pd
import tensorflow as tf
from scipy.spatial.distance import cdist

from models import vgg
from preprocessing import gram, style_transfer
from preprocessing.style_settings import CONTENT_LAYER
from tffapps import Pool
from tffapps.evaluation.image_quality import ssim
from tffapps.fnst import AttackSettings
from tffapps.fnst.data import images_of
from tffapps.fnst.styler import Styler

_SEED = 0
_RATE = 0.005  # of Adam
_NOISE = 8  # grey levels
QUALITY = 30  # of JPEGs
_SHOWN = 6
_TOP = 5


@dataclasses.dataclass(frozen=True)
class Attacked:
    table: pd.DataFrame
    real: np.ndarray  # uint8, a few of those attacked
    recovered: np.ndarray  # what the attack made of their Gram matrices


def attack(styler: Styler, federation: Pool, settings: AttackSettings) -> Attacked:
    """On images of the first client's largest class, among all its images of that class."""
    client = federation.clients[0]
    label = str(federation.part("train", client).label.value_counts().index[0])
    images = styler.read(images_of(federation, client, label).path)
    rng = np.random.default_rng(_SEED)
    images = images[rng.permutation(len(images))]
    count = min(settings.attack_images, len(images))
    matrices = gram.grams(gram.taps(styler.encoder), images[:count])
    recovered, losses = invert(styler, matrices, images.shape[1], settings.attack_steps)

    content = vgg.taps(styler.encoder, [CONTENT_LAYER])
    rows = [
        _row("image optimised", "nearest in pixels", cdist(_flat(recovered), _flat(images))),
        _row("image optimised", "nearest by SSIM", -_similarities(recovered, images)),
        _row(
            "image optimised",
            f"nearest in VGG-19's {CONTENT_LAYER}",
            cdist(_encoded(content, recovered), _encoded(content, images)),
        ),
    ]
    for name, suspects in (
        ("suspects at hand, the very files", images),
        (f"suspects at hand, as JPEGs of quality {QUALITY}", np.stack([jpeg(image) for image in images])),
        ("suspects at hand, turned by 90 degrees", np.rot90(images, axes=(1, 2)).copy()),
    ):
        theirs = gram.grams(gram.taps(styler.encoder), suspects)
        rows.append(_row(name, "nearest Gram matrices", gram_distances(matrices, theirs)))
    own = ssim(images[:count], recovered)
    others = ssim(np.roll(images[:count], 1, axis=0), recovered)
    table = pd.DataFrame(rows).assign(
        chance_first=1 / len(images), chance_first_five=min(_TOP / len(images), 1.0),
        ssim_own=float(own.mean()), ssim_other=float(others.mean()),
        style_left=float(np.mean(losses.style_end / losses.style_start)), steps=settings.attack_steps,
        attacked=count, images=len(images), client=client, label=label,
    )  # fmt: skip
    table.loc[table.attack != "image optimised", ["ssim_own", "ssim_other", "style_left", "steps"]] = np.nan
    return Attacked(table, images[: min(count, _SHOWN)], recovered[:_SHOWN])


def invert(
    styler: Styler, matrices: list[np.ndarray], size: int, steps: int
) -> tuple[np.ndarray, style_transfer.Losses]:
    """An image for each of the Gram matrices: style transfer without content, from grey with a little noise.

    From white noise (the paper's start) what VGG-19 does not see stays noise, which makes the attack look harmless.
    """
    settings = dataclasses.replace(
        styler.settings, content_weight=0.0, init="content", steps=steps, optimizer="adam", learning_rate=_RATE
    )
    count = len(matrices[0])
    noise = np.random.default_rng(_SEED).normal(128, _NOISE, (count, size, size, 3))
    pairs = np.column_stack([np.arange(count)] * 2)
    return style_transfer.transfer(styler.encoder, np.rint(noise).astype(np.uint8), matrices, pairs, settings)


def _row(name: str, how: str, distances: np.ndarray) -> dict[str, Any]:
    """`distances` (attacked, images); the image attacked has its own number among the images."""
    own = np.diagonal(distances)[:, None]
    others = distances.copy()
    np.fill_diagonal(others, np.inf)
    ranks = 1 + (others < own).sum(axis=1) + (others == own).sum(axis=1) / 2  # ties are decided by chance
    return {
        "attack": name,
        "how": how,
        "first": float((ranks < 1.5).mean()),
        "first_five": float((ranks < _TOP + 0.5).mean()),
        "median_rank": float(np.median(ranks)),
    }


def gram_distances(first: list[np.ndarray], second: list[np.ndarray]) -> np.ndarray:
    """Summed over layers, each relative to its size."""
    total = np.zeros((len(first[0]), len(second[0])))
    for a, b in zip(first, second):
        ours, theirs = _flat(a), _flat(b)
        squares = (theirs**2).sum(axis=1)
        # Not `cdist`, which takes seconds for matrices of 512 channels.
        apart = (ours**2).sum(axis=1)[:, None] + squares - 2 * ours @ theirs.T
        total += np.maximum(apart, 0) / (squares.mean() / theirs.shape[1])
    return total


def _similarities(recovered: np.ndarray, images: np.ndarray) -> np.ndarray:
    return np.stack([ssim(np.broadcast_to(image, images.shape), images) for image in recovered])


def _encoded(taps: tf.keras.Model, images: np.ndarray) -> np.ndarray:
    parts = [taps(tf.constant(images[row : row + 32], tf.float32) / 255.0) for row in range(0, len(images), 32)]
    return _flat(np.concatenate([(part[0] if isinstance(part, list) else part).numpy() for part in parts]))


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1).astype(np.float64)


def jpeg(image: np.ndarray) -> np.ndarray:
    packed = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1]
    return np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR))
