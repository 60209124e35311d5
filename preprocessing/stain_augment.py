"""Other ways to deal with stains: the rivals and controls of FedSDA, each on uint8 patches (n, height, width, 3).

    hed_jitter     haematoxylin, eosin and residual scaled and shifted at random (Tellez et al. 2018)
    reinhard       mean and deviation of the Lab channels are a target's (Reinhard et al. 2001)
    randstainna    the same with a target drawn anew for each patch from the data's own spread (Shen et al. 2022)
    stain_mixup    stain matrices mixed with another domain's, densities scaled at random (Chang et al. 2021)
    restyled       a patch's tissue in other stains of another strength: ours

All that is random is in what they are given, so that the same gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from preprocessing import stain
from preprocessing.stain import REFERENCE, StainSettings

JITTER = 0.05  # of HED, Tellez's "light"
SCALES = (0.75, 1.25)  # of densities in stain mix-up
NUMBERS = 8  # of a look: six of the stain matrix, two strengths
STRONGER = 2.0  # times as strong, or as weak, a stain may become: beyond that bytes have no room for the tissue
_LEAST = 1.0  # a deviation in Lab: quotients stay finite


def hed_jitter(images: np.ndarray, numbers: Sequence[Sequence[float]]) -> np.ndarray:
    """`numbers`: for each patch three factors and three shifts."""
    matrix = _hed()
    density = -np.log(np.maximum(images.astype(np.float32), 1) / 255) @ np.linalg.inv(matrix).T  # (n, h, w, 3)
    given = np.array(numbers, np.float32).reshape(-1, 2, 1, 1, 3)
    return _bytes(255 * np.exp(-(density * given[:, 0] + given[:, 1]) @ matrix.T))


def lab_moments(images: np.ndarray) -> np.ndarray:
    """Mean and deviation of each patch's Lab channels, float32 (n, 6)."""
    lab = _lab(images).reshape(len(images), -1, 3)
    return np.concatenate([lab.mean(axis=1), lab.std(axis=1)], axis=1)


def reinhard(images: np.ndarray, targets: Sequence[Sequence[float]]) -> np.ndarray:
    """`targets`: for each patch the `lab_moments` that it gets; randstainna, where they were drawn."""
    own, wanted = (np.asarray(x, np.float32).reshape(-1, 2, 1, 1, 3) for x in (lab_moments(images), targets))
    factor = np.maximum(wanted[:, 1], 0) / np.maximum(own[:, 1], _LEAST)
    lab = (_lab(images) - own[:, 0]) * factor + wanted[:, 0]
    lab = np.clip(lab, (0, -127, -127), (100, 127, 127)).astype(np.float32)
    return _bytes(np.stack([cv2.cvtColor(patch, cv2.COLOR_Lab2RGB) for patch in lab]) * 255)


def stain_mixup(
    images: np.ndarray, numbers: Sequence[Sequence[float]], settings: StainSettings
) -> list[np.ndarray | None]:
    """`numbers`: six of the other domain's matrix row by row, its share, two factors of the densities."""
    separated, given = stain.separate(images, settings), np.array(numbers, np.float32)
    share = given[:, 6, None, None]
    matrices = (1 - share) * separated.matrices + share * given[:, :6].reshape(-1, 3, 2)
    matrices /= np.linalg.norm(matrices, axis=1, keepdims=True)
    pictures = stain.compose(matrices, separated.densities * given[:, 7:9, None, None])
    return [picture if ok else None for picture, ok in zip(pictures, separated.ok)]


def looks(images: np.ndarray, settings: StainSettings) -> tuple[np.ndarray, np.ndarray]:
    """What a patch looks like, beside its tissue, float32 (n, 8), and whether it could be told (n).

    Haematoxylin's red, green and blue, then eosin's; how strong each is (`stain.strength`). All of it is measured
    against white, so what an empty slide absorbs is in these numbers: there is no background beside them.
    """
    separated = stain.separate(images, settings)
    vectors = separated.matrices.transpose(0, 2, 1).reshape(-1, 6)
    return np.concatenate([vectors, stain.strength(separated.densities)], axis=1), separated.ok


def restyled(images: np.ndarray, given: Sequence[Sequence[float]], settings: StainSettings) -> list[np.ndarray | None]:
    """The patches with these `looks`; None where a patch's own could not be told.

    Densities are scaled, by `STRONGER` at most, and nothing is added to them, so that the tissue's structure stays: a
    background's light on top would be told for stain all over the patch.
    """
    wanted = np.array(given, np.float32)
    separated = stain.separate(images, settings)
    matrices = np.maximum(wanted[:, :6].reshape(-1, 2, 3).transpose(0, 2, 1), 0)
    lengths = np.linalg.norm(matrices, axis=1, keepdims=True)
    matrices = np.where(lengths > 0, matrices / np.where(lengths > 0, lengths, 1), REFERENCE)
    own = stain.strength(separated.densities)
    factors = np.where(own > 0, wanted[:, 6:8] / np.where(own > 0, own, 1), 1)
    factors = np.clip(factors, 1 / STRONGER, STRONGER)[:, :, None, None]
    pictures = stain.compose(matrices, separated.densities * factors)
    return [picture if ok else None for picture, ok in zip(pictures, separated.ok)]


def _hed() -> np.ndarray:
    """Colours of haematoxylin, eosin and what neither is, as columns (3, 3)."""
    third = np.cross(REFERENCE[:, 0], REFERENCE[:, 1])
    return np.column_stack([REFERENCE, third / np.linalg.norm(third)]).astype(np.float32)


def _lab(images: np.ndarray) -> np.ndarray:
    return np.stack([cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2Lab) for image in images])


def _bytes(images: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(images, 0, 255)).astype(np.uint8)
