"""Near-duplicates: images that are the same but for a rotation, a flip, a zoom, brightness or compression.

A perceptual hash in two steps, both of a log-polar map of the image's edges, which is kept on disk by content:

1. candidates: magnitudes of the map's angular spectrum do not change when the image is rotated by any angle or flipped,
   and a zoom moves them to other rings. Images whose spectra are alike, beside what all images of the set have in
   common, are looked at again.
2. correlation of the maps themselves, at the best rotation, flip and zoom. A pair is a near-duplicate if it correlates
   far better than two images of this set that are picked at random: knees are all alike, tissue is not.

Augmented sets need both: copies in LC25000 are rotated by up to 25 degrees either way, zoomed and flipped, which a
hash of eight turned images does not follow. What an image shares with another in a part of it only is not found.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import scipy.fft

from preprocessing import image_bytes
from tffapps.data.cache import Rejected, cached_images
from tffapps.progress import track

_SIDE = 128  # pixels that an image is brought to
_FINE, _COARSE = 1.5, 6.0  # what is between these two blurs is kept: edges, not brightness
_ANGLES, _RINGS, _OUTER = 64, 64, 32  # of the map; the inner half of its rings shows a few pixels only
_FREQUENCIES = 24  # of the angular spectrum, for candidates
_ZOOM = 8  # rings that two copies may be apart: a factor of 1.7
_ALL_PAIRS = 300  # up to so many images every pair is looked at: too few to say what they have in common
_ALIKE = 0.3  # correlation of spectra from which a pair is a candidate
_MOST = 20  # candidates of an image
_LEAST, _SURE = 0.7, 0.95  # correlation of maps: never a near-duplicate below, always one above
_RANDOM_PAIRS, _DEVIATIONS = 2000, 5.0  # what is usual in a set, and how far beyond it a near-duplicate is
_BATCH = 1024


def pairs(paths: Sequence[str], folder: Path, *, workers: int | None = None) -> list[tuple[int, int]]:
    """Positions of images that are near-duplicates of each other, each pair once; `folder` keeps the maps.

    A file that cannot be read is nobody's duplicate.
    """
    few = len(paths) <= _ALL_PAIRS  # other processes take longer to start
    files, _ = cached_images(paths, edge_map, {}, folder, workers=1 if few else workers)
    known = np.array([position for position, file in enumerate(files) if file is not None], int)
    same: dict[Path, int] = {}  # files of the same content have one map
    found = [
        (first, position) for position in known if (first := same.setdefault(files[position], position)) != position
    ]
    alone = np.array(list(same.values()), int)
    if len(alone) < 2:
        return found
    maps = np.stack([_decoded(file) for file in same])
    return found + [(int(alone[one]), int(alone[other])) for one, other in _near(maps)]


def edge_map(contents: bytes) -> bytes:
    """The log-polar map of an image's edges as a PNG: (_OUTER rings, _ANGLES) around 128."""
    image = image_bytes.decode(contents, cv2.IMREAD_GRAYSCALE)
    image = cv2.resize(image, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA).astype(np.float32)
    edges = cv2.GaussianBlur(image, (0, 0), _FINE) - cv2.GaussianBlur(image, (0, 0), _COARSE)
    edges = np.sign(edges) * np.sqrt(np.abs(edges))  # a few strong edges do not outweigh all others
    middle = (_SIDE - 1) / 2
    polar = cv2.warpPolar(
        edges, (_RINGS, _ANGLES), (middle, middle), _SIDE / 2 - 1, cv2.WARP_POLAR_LOG | cv2.INTER_LINEAR
    )[:, _RINGS - _OUTER :].T
    scaled = 128 + 40 * polar / max(float(polar.std()), 1e-3)
    return cv2.imencode(".png", np.clip(np.rint(scaled), 0, 255).astype(np.uint8))[1].tobytes()


edge_map.version = 1  # type: ignore[attr-defined]  # raise when its results change


def _decoded(file: Path) -> np.ndarray:
    try:
        return image_bytes.decode(file.read_bytes(), cv2.IMREAD_GRAYSCALE).astype(np.float32) - 128
    except (OSError, Rejected):  # removed or damaged since it was written: nobody's duplicate, in this run
        return np.zeros((_OUTER, _ANGLES), np.float32)


def _near(maps: np.ndarray) -> list[tuple[int, int]]:
    """Of maps (n, rings, angles): pairs that correlate far better than is usual in this set."""
    spectra = np.asarray(scipy.fft.rfft(maps, axis=2), np.complex64)
    spectra[:, :, 0] = 0  # the mean of a ring
    count, rng = len(maps), np.random.default_rng(0)
    if count <= _ALL_PAIRS:
        rows, columns = np.triu_indices(count, 1)
        values = usual = _correlations(spectra, rows, columns)
    else:
        found = np.array(sorted(_candidates(np.abs(spectra[:, :, 1 : _FREQUENCIES + 1]))), int).reshape(-1, 2)
        rows, columns = found[:, 0], found[:, 1]
        values = _correlations(spectra, rows, columns)
        first = rng.integers(count, size=_RANDOM_PAIRS)
        usual = _correlations(spectra, first, (first + rng.integers(1, count, size=_RANDOM_PAIRS)) % count)
    near = values >= _threshold(usual)
    return list(zip(rows[near].tolist(), columns[near].tolist()))


def _threshold(usual: np.ndarray) -> float:
    """The correlation from which a pair is no chance: by the median of usual pairs and their spread."""
    middle = float(np.median(usual))
    spread = 1.4826 * float(np.median(np.abs(usual - middle)))  # of a normal distribution: its standard deviation
    return float(np.clip(middle + _DEVIATIONS * spread, _LEAST, _SURE))


def _candidates(magnitudes: np.ndarray) -> set[tuple[int, int]]:
    """Pairs whose angular spectra (n, rings, frequencies) are alike at some zoom, beside what all have in common."""
    values = np.log1p(magnitudes)
    values = (values - values.mean(axis=0)) / (values.std(axis=0) + 1e-6)
    count, found = len(values), set[tuple[int, int]]()
    shifted = [(_normed(values[:, shift:]), _normed(values[:, : _OUTER - shift])) for shift in range(_ZOOM + 1)]
    begins = range(0, count, _BATCH)
    for begin in track(begins, len(begins), "looking for near-duplicates", len(begins) > 4):
        best = np.full((min(_BATCH, count - begin), count), -1, np.float32)
        for larger, smaller in shifted:  # either may be the one that is zoomed
            np.maximum(best, larger[begin : begin + _BATCH] @ smaller.T, out=best)
            np.maximum(best, smaller[begin : begin + _BATCH] @ larger.T, out=best)
        rows = np.arange(len(best))
        best[rows, begin + rows] = -1
        most = min(_MOST, count - 1)
        nearest = np.argpartition(-best, most - 1, axis=1)[:, :most]
        for row, column in zip(np.repeat(rows, most), nearest.ravel()):
            if best[row, column] >= _ALIKE:
                found.add((min(begin + row, column), max(begin + row, column)))
    return found


def _normed(values: np.ndarray) -> np.ndarray:
    flat = values.reshape(len(values), -1)
    flat = flat - flat.mean(axis=1, keepdims=True)
    return (flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)).astype(np.float32)


def _correlations(spectra: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Of maps given by their spectra, pair by pair: the best over rotations, the flip and zooms."""
    result = np.zeros(len(first), np.float32)
    for chosen in _batches(len(first)):
        one, other = spectra[first[chosen]], spectra[second[chosen]]
        energies = [np.concatenate([_zero(each), _energy(each)], axis=1) for each in (one, other)]
        best = np.zeros(len(one), np.float32)
        for shift in range(-_ZOOM, _ZOOM + 1):
            begin, end = max(0, shift), _OUTER + min(0, shift)
            a, b = one[:, begin:end], other[:, begin - shift : end - shift]
            norm = (energies[0][:, end] - energies[0][:, begin]) * (
                energies[1][:, end - shift] - energies[1][:, begin - shift]
            )
            scale = np.sqrt(np.maximum(norm, 1e-12))
            for flipped in (np.conj(b), b):
                at_angles = scipy.fft.irfft(np.einsum("nrf,nrf->nf", a, flipped), _ANGLES, axis=1)
                np.maximum(best, at_angles.max(axis=1) / scale, out=best)
        result[chosen] = best
    return result


def _batches(count: int) -> Iterator[slice]:
    return (slice(begin, begin + _BATCH) for begin in range(0, count, _BATCH))


def _energy(spectra: np.ndarray) -> np.ndarray:
    """(n, rings) of the rings up to each: sums of squares of the map's values, by Parseval."""
    squares = np.abs(spectra) ** 2
    squares[:, :, 1:-1] *= 2  # each stands for a conjugate, too
    return np.cumsum(squares.sum(axis=2), axis=1) / _ANGLES


def _zero(spectra: np.ndarray) -> np.ndarray:
    return np.zeros((len(spectra), 1), np.float32)
