"""Drawn micrographs of two materials, and the grains in them.

Grains are the cells of a power diagram whose points lie on a jittered lattice with gaps and whose plane is warped:
they differ in size, and their boundaries bend.

    austenite    bright grains hardly told apart, thin dark boundaries of unequal strength, an uneven etch; many grains
                 hold twins: straight bands whose edges look like boundaries and are none
    iron         each grain a grey of its own, broad soft boundaries, some of them faint; pits and scratches
"""

import dataclasses
import functools
import math

import cv2
import numpy as np
from scipy.ndimage import label
from scipy.spatial import cKDTree

from tffapps.data.tissue_drawing import SIZE, clouds, sixteenths

AUSTENITE, IRON = "austenite", "iron"
MATERIALS = (AUSTENITE, IRON)
_NEAREST = 6  # points among which a pixel's own and the one beyond its nearest boundary are looked for
_SLIVER = 1 / 40  # of a grain's mean area: what is smaller and cut off is boundary
_PAIRS = 509  # strengths that boundaries are given, by the numbers of the two grains they divide


@dataclasses.dataclass(frozen=True)
class Look:
    """What all images of one micrograph have in common; lengths in pixels of an image SIZE wide."""

    across: float  # grains from side to side
    line: float  # half the width of a boundary as it is seen
    strength: float  # how much darker a boundary is than its surroundings
    light: float  # mean grey
    contrast: float  # spread of the grains' greys
    uneven: float  # spread of the light and the etch over the image
    noise: float  # spread of the camera's
    twinned: float  # share of the grains that hold twins
    pits: float  # mean number
    scratches: float  # mean number


@dataclasses.dataclass(frozen=True)
class Structure:
    """The grains of an image, all (size, size)."""

    cells: np.ndarray  # int, the number of each pixel's point
    beyond: np.ndarray  # int, the point on the other side of the nearest boundary
    depth: np.ndarray  # float32, pixels from there
    grains: np.ndarray  # int32, 0 on boundaries, grains numbered from 1
    points: np.ndarray  # (points, 2): x, y


def look(rng: np.random.Generator, material: str) -> Look:
    """A micrograph of that material: its magnification, its etch, its lamp."""
    draw = rng.uniform
    if material == AUSTENITE:
        return Look(draw(4.3, 5.8), draw(0.65, 0.95), draw(0.36, 0.52), draw(0.72, 0.82), draw(0.015, 0.035),
                    draw(0.04, 0.08), draw(0.012, 0.022), draw(0.35, 0.60), 3.0, 0.3)  # fmt: skip
    return Look(draw(4.3, 5.8), draw(1.25, 1.75), draw(0.18, 0.30), draw(0.42, 0.56), draw(0.07, 0.12),
                draw(0.03, 0.06), draw(0.02, 0.035), 0.0, 14.0, 2.5)  # fmt: skip


def structure(rng: np.random.Generator, size: int, across: float) -> Structure:
    """Grains, that many from side to side; their boundaries are two pixels wide where an image is SIZE wide."""
    apart = size / across
    points = _points(rng, size, apart)
    weights = rng.uniform(0, 0.22 * apart**2, len(points))
    plane = _plane(size) + 0.09 * apart * _warp(rng, size, round(1.2 * across))
    plane += 0.025 * apart * _warp(rng, size, round(4 * across))
    far, near = cKDTree(points).query(plane.reshape(-1, 2), _NEAREST)
    power = far**2 - weights[near]
    best = np.argpartition(power, 1, axis=1)[:, :2]
    rows = np.arange(len(power))[:, None]
    best = np.take_along_axis(best, np.argsort(power[rows, best], axis=1), axis=1)  # the pixel's own, the next one
    own, beyond = near[rows, best].T
    first, second = power[rows, best].T
    towards = points[own] - points[beyond]
    gap = np.linalg.norm(towards, axis=1)
    depth = (second - first) / (2 * gap * _stretch(plane, towards / gap[:, None]))
    cells, depth = own.reshape(size, size), depth.reshape(size, size).astype(np.float32)
    grains = _grains(cells, depth < max(size / SIZE, 0.75), _SLIVER * apart**2)
    return Structure(cells, beyond.reshape(size, size), depth, grains, points)


def micrograph(rng: np.random.Generator, look: Look, found: Structure) -> np.ndarray:
    """The image of the grains, uint8 (size, size)."""
    size = len(found.cells)
    scale = size / SIZE
    greys = look.contrast * rng.standard_normal(len(found.points)).clip(-2.2, 2.2)
    image = greys.astype(np.float32)[found.cells]
    etch = 1 + 4 * look.uneven * clouds(rng, size, 4)  # where the acid was stronger, lines are darker and broader
    width = look.line * scale * np.clip(etch, 0.6, 1.6)
    lines = _strengths(rng, found) * np.exp(-((found.depth / width) ** 2))
    if look.twinned:
        bands, edges = _twins(rng, found, look.twinned, width)
        image += bands
        lines = np.maximum(lines, edges)
    image += look.light - look.strength * np.clip(etch, 0.5, 1.5) * lines
    image += look.uneven * clouds(rng, size, 3) + _shade(rng, size)
    image -= _pits(rng, size, look.pits)
    image += _scratches(rng, size, look.scratches)
    image = cv2.GaussianBlur(image, (0, 0), 0.45 * scale)
    mottle = cv2.GaussianBlur(rng.standard_normal((size, size), np.float32), (0, 0), 0.8 * scale) * (2 * scale)
    image += look.noise * (0.7 * mottle + 0.5 * rng.standard_normal((size, size), np.float32))
    return (255 * np.clip(image, 0, 1)).round().astype(np.uint8)


def _points(rng: np.random.Generator, size: int, apart: float) -> np.ndarray:
    """(points, 2): a jittered lattice with gaps, beyond the image on all sides."""
    count = math.ceil(size / apart) + 4
    column, row = np.meshgrid(np.arange(count), np.arange(math.ceil(count / 0.87)))
    places = np.stack([column + row % 2 / 2, 0.87 * row], axis=-1).reshape(-1, 2) - 2 + rng.uniform(-0.5, 0.5, 2)
    places += rng.uniform(-0.32, 0.32, places.shape)
    return apart * places[rng.random(len(places)) > 0.12]


@functools.lru_cache(maxsize=4)
def _plane(size: int) -> np.ndarray:
    """The pixels' places x, y: (size, size, 2)."""
    along = np.arange(size, dtype=np.float32)
    return np.stack(np.meshgrid(along, along), axis=-1)


def _warp(rng: np.random.Generator, size: int, cells: int) -> np.ndarray:
    return np.stack([clouds(rng, size, cells + 1), clouds(rng, size, cells + 1)], axis=-1)


def _stretch(plane: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """How far one pixel's step straight towards a boundary leads in the warped plane: (pixels,)."""
    down, right = (each.reshape(-1, 2) for each in np.gradient(plane, axis=(0, 1)))
    return np.hypot((down * towards).sum(axis=1), (right * towards).sum(axis=1)).clip(0.4)


def _grains(cells: np.ndarray, boundary: np.ndarray, sliver: float) -> np.ndarray:
    """What of each cell hangs together, numbered; where two cells touch, the upper or left pixel is boundary."""
    boundary = boundary.copy()
    boundary[:, :-1] |= cells[:, :-1] != cells[:, 1:]
    boundary[:-1] |= cells[:-1] != cells[1:]
    pieces, _ = label(~boundary)
    large = np.bincount(pieces.ravel()) >= sliver
    large[0] = False
    return (np.cumsum(large) * large)[pieces].astype(np.int32)


def _strengths(rng: np.random.Generator, found: Structure) -> np.ndarray:
    """How strongly the nearest boundary of each pixel is etched: it depends on the two grains."""
    strengths = rng.uniform(0.45, 1.1, _PAIRS).astype(np.float32)
    low, high = np.minimum(found.cells, found.beyond), np.maximum(found.cells, found.beyond)
    return strengths[(31 * low + 17 * high) % _PAIRS]


def _twins(
    rng: np.random.Generator, found: Structure, share: float, width: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How much lighter each pixel is for the band it lies in, and how strong the edges of bands are."""
    count, size = len(found.points), len(found.cells)
    apart = size / math.sqrt(max(found.grains.max(), 1))
    angle = rng.uniform(0, math.pi, count)
    twinned = rng.random(count) < share
    x, y = np.moveaxis(_plane(size), -1, 0)
    bands, edges = np.zeros((2, size, size), np.float32)
    for chance in (1.0, 0.4):  # of a first and of a second band
        middle = rng.normal(0, 0.26 * apart, count)
        half = rng.uniform(0.035, 0.16, count) * apart
        half[~(twinned & (rng.random(count) < chance))] = -4 * size  # no band: its edges are far away
        tone, strength = rng.normal(0, 0.055, count), rng.uniform(0.45, 1.05, count)
        offset = middle + np.cos(angle) * found.points[:, 0] + np.sin(angle) * found.points[:, 1]
        table = np.stack([np.cos(angle), np.sin(angle), offset, half, tone, strength], axis=-1).astype(np.float32)
        cosine, sine, offset, half, tone, strength = np.moveaxis(table[found.cells], -1, 0)
        outside = np.abs(cosine * x + sine * y - offset) - half
        bands += np.where(outside < 0, tone, 0)
        edges = np.maximum(edges, strength * np.exp(-((outside / (0.85 * width)) ** 2)))
    return bands, edges


def _shade(rng: np.random.Generator, size: int) -> np.ndarray:
    """The lamp: brightest somewhere in the middle."""
    across = np.linspace(-1, 1, size, dtype=np.float32)
    x, y = rng.uniform(-0.4, 0.4, 2).astype(np.float32)
    return np.float32(-rng.uniform(0.01, 0.05)) * ((across - x) ** 2 + (across[:, None] - y) ** 2)


def _pits(rng: np.random.Generator, size: int, mean: float) -> np.ndarray:
    """Dark spots, most of them small."""
    canvas = np.zeros((size, size), np.uint8)
    scale = size / SIZE
    for _ in range(rng.poisson(mean)):
        centre, radius = complex(*rng.uniform(0, size, 2)), scale * rng.uniform(0.3, 0.7) / rng.uniform(0.35, 1)
        middle = sixteenths(np.array([centre]))[0].tolist()
        cv2.circle(canvas, middle, round(16 * radius), (int(rng.integers(60, 130)),), -1, cv2.LINE_AA, 4)
    return cv2.GaussianBlur(canvas, (0, 0), 0.4 * scale).astype(np.float32) / 255


def _scratches(rng: np.random.Generator, size: int, mean: float) -> np.ndarray:
    """Long straight lines of the polishing, most of them in one direction, light or dark."""
    light, dark = np.zeros((2, size, size), np.uint8)
    angle = rng.uniform(0, math.pi)
    for _ in range(rng.poisson(mean)):
        middle, turn = complex(*rng.uniform(0, size, 2)), np.exp(1j * rng.normal(angle, 0.25))
        half = size * rng.uniform(0.2, 0.9)
        start, end = sixteenths(np.array([middle - half * turn, middle + half * turn])).tolist()
        canvas, level = (light, 45) if rng.random() < 0.4 else (dark, 60)
        shade, thick = (int(level * rng.uniform(0.5, 1.2)),), max(1, round(0.9 * size / SIZE))
        cv2.line(canvas, start, end, shade, thick, cv2.LINE_AA, 4)
    return (light.astype(np.float32) - dark) / 255
