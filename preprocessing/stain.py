"""H&E patches taken apart into their stains: a stain matrix and two density maps for each patch.

Light through tissue falls off exponentially, so a pixel's optical density −ln(I / 255) is the sum of what its stains
absorb: w h, with w (3 × 2) the colours of haematoxylin and eosin and h (2 × pixels) how much of each lies there.
Vahadane et al. 2016 find both by Eq. 3 of FedSDA: w over tissue, then h over all pixels. Macenko et al. 2009 is the
other choice for w. `compose` is the way back; with another patch's w it gives the same tissue in that patch's stains.

What is certain and what is not. A patch says nothing of its stains' colours if it shows hardly any tissue, or one stain
only, or stains other than H&E. Such a patch is never guessed at and never stops the others: its `ok` is False, its
`reasons` entry says what was measured and the limit, its matrix is the textbook's (so that every number is finite and
the densities roughly right), and it should be kept as it is and counted, not normalised or learned from. Colours are
those of this patch under this scanner: mixed pixels pull both columns a few degrees towards each other, more so the
more tissue is mixed (Eq. 3's penalty; smaller with a smaller `lambda_matrix`), and neither map is a measure of how
much dye there is. Normalised pictures are for training and for viewing side by side, not for diagnosis.

    python -m preprocessing.stain IN OUT [--method vahadane|macenko] [--target FILE]
"""

from __future__ import annotations

if __name__ == "__main__":  # before NumPy and OpenCV are imported: --help needs neither
    from preprocessing.stain_command import main

    raise SystemExit(main())

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from preprocessing import stain_dictionary, stain_pixels
from preprocessing.parallel import cores
from preprocessing.stain_settings import METHODS, StainRejected, StainSettings

__all__ = [
    "METHODS",
    "REFERENCE",
    "Separation",
    "StainRejected",
    "StainSettings",
    "compose",
    "in_stains",
    "matrices_of",
    "normalise",
    "separate",
    "strength",
]

# Haematoxylin and eosin as Ruifrok and Johnston measured them (2001), at unit length (3, 2).
REFERENCE = np.array([[0.65, 0.07], [0.70, 0.99], [0.29, 0.11]], np.float32)
REFERENCE /= np.linalg.norm(REFERENCE, axis=0)

_NAMES = ("first", "second")
_DEFAULT = StainSettings()
_CHUNK = 2**18  # pixels worked on at once by each thread: about 20 MB
_BLOCK = 2**14  # pixels of one patch for one product; BLAS would start threads of its own for more


class Separation(NamedTuple):
    matrices: np.ndarray  # float32 (n, 3, 2): unit columns ≥ 0, haematoxylin first
    densities: np.ndarray  # float32 (n, 2, height, width), ≥ 0
    ok: np.ndarray  # bool (n): whether the matrix was measured; else it is `REFERENCE`
    reasons: list[str]  # why not; "" where ok


def separate(images: np.ndarray, settings: StainSettings = _DEFAULT, workers: int | None = None) -> Separation:
    """Stain matrices and density maps of uint8 patches (n, height, width, 3).

    A fourth channel is opacity: the patch is laid on white. `workers` is a number of threads (all cores if None); it
    changes the time taken and nothing else, nor does a patch's place in the stack.
    """
    _check(images)
    count, height, width = images.shape[:3]
    maps = np.empty((count, 2, height * width), np.float32)
    matrices, ok, reasons = _measure(images, settings, workers, maps)
    return Separation(matrices, maps.reshape(count, 2, height, width), ok, reasons)


def matrices_of(
    images: np.ndarray, settings: StainSettings = _DEFAULT, workers: int | None = None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(matrices, ok, reasons) as of `separate`, in less time and memory."""
    _check(images)
    return _measure(images, settings, workers, None)


def compose(matrices: np.ndarray, densities: np.ndarray, workers: int | None = None) -> np.ndarray:
    """uint8 images (n, height, width, 3): 255 exp(−w h). One matrix (3, 2) does for all."""
    count, _, height, width = densities.shape
    matrices = np.broadcast_to(matrices, (count, 3, 2)).astype(np.float32)
    images = np.empty((count, height, width, 3), np.uint8)

    def work(part: slice) -> None:
        light = np.matmul(
            -matrices[part], densities[part].astype(np.float32, copy=False).reshape(-1, 2, height * width)
        )
        np.exp(light, out=light)
        light *= 255
        np.clip(np.rint(light, out=light), 0, 255, out=light)
        images[part] = light.astype(np.uint8).transpose(0, 2, 1).reshape(-1, height, width, 3)

    _in_chunks(work, count, height * width, workers)
    return images


def strength(densities: np.ndarray) -> np.ndarray:
    """How strong each stain is, as Vahadane has it: the 99th percentile of its density (n, 2)."""
    return np.percentile(densities.reshape(*densities.shape[:2], -1), 99, axis=2).astype(np.float32)


def normalise(densities: np.ndarray, matrix: np.ndarray, strong: np.ndarray, workers: int | None = None) -> np.ndarray:
    """Images of the tissue in a target's stains: its matrix (3, 2), and densities scaled to its `strength` (2).

    The scaling is each patch's own, as Vahadane has it, so a patch with few nuclei gets them as dark as the target's.
    Only for patches that are ok: keep the others as they are.
    """
    own = strength(densities)
    scale = np.where(own > 0, strong / np.where(own > 0, own, 1), 1).astype(np.float32)
    return compose(matrix, densities * scale[:, :, None, None], workers)


def in_stains(
    images: np.ndarray, matrices: Sequence[Sequence[float]], settings: StainSettings = _DEFAULT
) -> list[np.ndarray | None]:
    """Each patch's densities under another matrix, its six numbers row by row; None where they could not be told."""
    separated = separate(images, settings)
    composed = compose(np.array(matrices, np.float32).reshape(-1, 3, 2), separated.densities)
    return [image if ok else None for image, ok in zip(composed, separated.ok)]


def _check(images: np.ndarray) -> None:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (3, 4) or 0 in images.shape[1:]:
        raise TypeError(
            f"uint8 images of shape (n, height, width, 3 or 4) are needed, not {images.dtype} {images.shape}; "
            "bring floats to 0..255 and round them, give one image as image[None]"
        )


def _measure(
    images: np.ndarray, settings: StainSettings, workers: int | None, maps: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Fills `maps` (n, 2, pixels) if there are any."""
    matrices = np.empty((len(images), 3, 2), np.float32)
    reasons = [""] * len(images)

    def work(part: slice) -> None:
        planes = stain_pixels.planes(images[part])
        mask = stain_pixels.tissue(planes, settings.luminosity)
        learned, share = stain_dictionary.learn(stain_pixels.sample(planes, mask, settings), settings)
        reasons[part] = _judge(mask.mean(axis=1), learned, share, settings)
        learned[[reason != "" for reason in reasons[part]]] = REFERENCE
        matrices[part] = learned
        if maps is None:
            return
        for start in range(0, planes.shape[2], _BLOCK):
            block = slice(start, start + _BLOCK)
            x = stain_dictionary.with_ones(stain_pixels.optical_density(np.ascontiguousarray(planes[:, :, block])))
            maps[part, :, block] = stain_dictionary.densities(x, learned, settings.lambda_density)

    _in_chunks(work, len(images), images.shape[1] * images.shape[2], workers)
    return matrices, np.array([reason == "" for reason in reasons], bool), reasons


def _judge(tissue: np.ndarray, matrices: np.ndarray, shares: np.ndarray, settings: StainSettings) -> list[str]:
    """Why each patch's matrix cannot be trusted, "" where it can."""
    cosines = np.clip((matrices[..., 0] * matrices[..., 1]).sum(axis=1), -1, 1)
    angles = np.degrees(np.arccos(cosines))
    reasons = []
    for covered, angle, share, (_, green, blue) in zip(tissue, angles, shares, matrices):
        reason = ""
        if covered < settings.min_tissue:
            reason = (
                f"too little tissue: {covered:.1%} of the pixels are below lightness {settings.luminosity:g}, "
                f"at least {settings.min_tissue:.1%} must be"
            )
        elif angle < settings.min_angle:
            reason = (
                f"one stain only: the two colours found are {angle:.1f}° apart, "
                f"at least {settings.min_angle:.1f}° are needed"
            )
        elif share.min() < settings.min_share:
            reason = (
                f"one stain only: the {_NAMES[int(share.argmin())]} stain makes up {share.min():.1%} of the density, "
                f"at least {settings.min_share:.1%} is needed"
            )
        elif (blue > settings.max_blue * green).any():
            brown = int((blue - settings.max_blue * green).argmax())
            reason = (
                f"not H&E: the {_NAMES[brown]} stain absorbs {blue[brown]:.2f} of blue to {green[brown]:.2f} of green, "
                f"as brown and yellow do; at most {settings.max_blue:.2f} times as much is allowed"
            )
        reasons.append(reason)
    return reasons


def _in_chunks(work: Callable[[slice], None], count: int, pixels: int, workers: int | None) -> None:
    """Calls `work` for a few patches at a time, so that memory does not grow with their number."""
    size = max(1, _CHUNK // pixels)
    parts = [slice(start, start + size) for start in range(0, count, size)]
    workers = min(workers or cores(), len(parts))
    if workers <= 1:
        for part in parts:
            work(part)
        return
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, parts):
            pass
