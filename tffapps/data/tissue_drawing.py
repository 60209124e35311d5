"""Drawn tissue: how much haematoxylin and eosin every pixel of a patch holds, and the patch that gives.

Normal tissue is that of a lymph node: small, round, dark nuclei, among them some plump pale ones and the thin
ones of the stroma. A tumour's nuclei are large, of unlike sizes and shapes, with a rim and nucleoli; it fills the
middle of the patch and some or all of the rest. How much of a patch nuclei cover, how dark they are, how much
stroma and how many holes there are is drawn alike for both, so that the amount of dye says little about the label.
"""

import dataclasses
import math

import cv2
import numpy as np

SIZE = 96  # pixels, of the real patches, about a micrometre each; every length below is in them
_NOISE = 1.5  # grey levels, of the camera
_COVERED = (0.25, 0.09, 0.08, 0.46)  # share of the tissue that nuclei cover: mean, spread, least, most
_CROWDED = 0.03  # how much more of it a tumour's do, on the whole
UNIT = 90  # grey levels of the canvas for one unit of density, while nuclei are drawn

_POINTS = 18  # of a nucleus's outline
_ROUND = np.exp(2j * math.pi * np.arange(_POINTS) / _POINTS)
_BUMPS = np.concatenate([[wave.real, wave.imag] / np.sqrt(n - 1) for n, wave in ((n, _ROUND**n) for n in (2, 3, 4))])
# Points one apart, the nearest to the middle first, and how far from it each is.
LATTICE = np.array([column + row % 2 / 2 + 0.87j * row for row in range(-60, 61) for column in range(-60, 61)])
LATTICE = LATTICE[np.argsort(np.abs(LATTICE))]
_FAR = np.abs(LATTICE)


@dataclasses.dataclass(frozen=True)
class Kind:
    """A sort of nuclei."""

    radius: float  # pixels, mean
    spread: float  # of the radius, as a share of it
    longer: float  # how much longer than wide, mean
    rough: float  # depth of bumps in the outline, as a share of the radius
    shade: float  # density of haematoxylin, mean
    rim: float  # how much denser the membrane is, as a share
    nucleoli: float  # mean number


LYMPHOCYTE = Kind(3.3, 0.10, 0.10, 0.02, 1.35, 0.0, 0.0)
PLUMP = Kind(4.7, 0.14, 0.30, 0.05, 0.95, 0.15, 0.3)  # histiocytes, lining cells
SPINDLE = Kind(2.9, 0.15, 4.00, 0.03, 1.20, 0.0, 0.0)  # of the stroma
TUMOUR = Kind(5.8, 0.22, 0.35, 0.12, 1.20, 0.35, 1.2)


def densities(rng: np.random.Generator, tumour: bool, size: int = SIZE) -> np.ndarray:
    """Haematoxylin and eosin of a patch, float32 (2, size, size)."""
    angle = rng.uniform(0, math.pi)  # of the fibres
    solid = _solid(rng, size)
    stroma = _step(clouds(rng, size, 3) + rng.normal(-0.2, 0.7), 0.3)
    covered = between(rng, *_COVERED) + _CROWDED * tumour
    shade = math.exp(rng.normal(0, 0.13))
    region = _region(rng, size) if tumour else np.zeros((size, size), np.float32)

    canvas = np.zeros((size, size), np.uint8)
    draw_nuclei(canvas, SPINDLE, rng, solid * stroma, rng.uniform(0.01, 0.06), shade, angle)
    plump = rng.beta(0.8, 2.0)
    normal = solid * (1 - region)
    draw_nuclei(canvas, PLUMP, rng, normal, plump * covered, shade)
    draw_nuclei(canvas, LYMPHOCYTE, rng, normal, (1 - plump) * covered, shade)
    if tumour:
        larger = between(rng, 1.0, 0.16, 0.7, 1.4)
        kind = dataclasses.replace(TUMOUR, radius=TUMOUR.radius * larger)
        draw_nuclei(canvas, kind, rng, solid * region, covered, shade)

    nuclei = cv2.GaussianBlur(canvas, (0, 0), 0.65 * size / SIZE).astype(np.float32) / UNIT
    noise = rng.standard_normal((size, size), np.float32)
    nuclei *= 1 + 0.22 * grain(noise, 1.0)
    around = cv2.GaussianBlur(nuclei, (0, 0), 4 * size / SIZE)
    # Cytoplasm and what lies between the fibres are pale, stroma is dense and streaky; nuclei take little eosin.
    pink = 0.20 + 0.18 * around + stroma * (0.40 + 0.15 * fibres(rng, size, angle)) + 0.05 * grain(noise[::-1], 1.4)
    pink = np.maximum(pink, 0.05) * solid * np.exp(-0.8 * nuclei)
    blue = nuclei + solid * (0.02 + 0.05 * around)
    amounts = np.stack([blue, pink])
    amounts *= np.exp(rng.normal(0, 0.13, (2, 1, 1)))  # the section's thickness, its time in each dye
    return amounts


def blank(rng: np.random.Generator, size: int = SIZE) -> np.ndarray:
    """The densities of a patch beside the tissue: glass, at times with a wisp of tissue on it."""
    dust = np.maximum(0.012 + 0.004 * clouds(rng, size, 6), 0)
    amounts = np.stack([0.4 * dust, dust])
    if rng.random() < 0.5:
        wisp = np.zeros((size, size), np.float32)
        start, end = rng.integers(0, size, (2, 2)).tolist()
        cv2.line(wisp, start, end, (0.6,), max(1, round(1.5 * size / SIZE)), cv2.LINE_AA)
        amounts[1] += cv2.GaussianBlur(wisp, (0, 0), 1.2 * size / SIZE)
    return amounts


def expose(matrix: np.ndarray, amounts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
    """The patch by Beer and Lambert, 255·exp(−w h), uint8 (size, size, 3) RGB; with `rng`, the camera's noise too.

    `matrix` is w (3, 2), the optical density of one unit of haematoxylin and of eosin in red, green and blue;
    `amounts` is h (2, size, size).
    """
    taken = np.tensordot(amounts, matrix.astype(np.float32), (0, 1))  # (size, size, 3)
    light = 255 * np.exp(-taken)
    if rng is not None:
        light += _NOISE * rng.standard_normal(light.shape, np.float32)
    return np.clip(np.rint(light), 0, 255).astype(np.uint8)


def outlines(kind: Kind, rng: np.random.Generator, count: int, angle: float | None = None) -> np.ndarray:
    """That many nuclei about the origin, (count, points) as x + iy; `angle` is where they point, if all alike."""
    radius = kind.radius * np.exp(rng.normal(0, kind.spread, (count, 1)))
    longer = np.sqrt(1 + kind.longer * rng.gamma(4.0, 0.25, (count, 1)))
    turn = rng.uniform(0, math.pi, (count, 1)) if angle is None else rng.normal(angle, 0.15, (count, 1))
    bumps = rng.normal(0, kind.rough, (count, len(_BUMPS))) @ _BUMPS
    far = radius * np.maximum(1 + bumps, 0.4)
    return (far * _ROUND.real * longer + 1j * far * _ROUND.imag / longer) * np.exp(1j * turn)


def draw_nuclei(
    canvas: np.ndarray,
    kind: Kind,
    rng: np.random.Generator,
    where: np.ndarray,
    share: float,
    shade: float,
    angle: float | None = None,
) -> None:
    """Covers that share of the area `where` (above 0.5) with nuclei."""
    scale = len(canvas) / SIZE
    places = _places(rng, where, share, kind.radius * scale)
    shapes = outlines(kind, rng, len(places), angle) * scale + places[:, None]
    shades = UNIT * kind.shade * shade * np.exp(rng.normal(0, 0.12, len(places)))
    for outline, shade_here in zip(sixteenths(shapes), shades.tolist()):
        body = shade_here * (1 - 0.45 * kind.rim)
        cv2.fillPoly(canvas, [outline], (body,), cv2.LINE_AA, shift=4)
        if kind.rim:
            rim = (min(body * (1 + 1.5 * kind.rim), 255),)
            cv2.polylines(canvas, [outline], True, rim, max(1, round(scale)), cv2.LINE_AA, shift=4)
    if kind.nucleoli:
        spots = rng.poisson(kind.nucleoli, len(places))
        off = rng.normal(0, 0.3 * kind.radius * scale, (spots.sum(), 2)).view(complex)[:, 0]
        for spot, level in zip(sixteenths(np.repeat(places, spots) + off).tolist(), np.repeat(shades, spots).tolist()):
            cv2.circle(canvas, spot, round(16 * 1.2 * scale), (min(1.5 * level, 255),), -1, cv2.LINE_AA, shift=4)


def sixteenths(points: np.ndarray) -> np.ndarray:
    """Points x + iy as OpenCV takes them, int32 (..., 2), in sixteenths of a pixel."""
    return np.rint(np.stack([16 * points.real, 16 * points.imag], axis=-1)).astype(np.int32)


def _places(rng: np.random.Generator, where: np.ndarray, share: float, radius: float) -> np.ndarray:
    """Centres of nuclei, x + iy: in loose groups, rarely on top of each other."""
    size = len(where)
    apart = 2.1 * radius
    reach = 0.75 * size / apart + 1  # from the middle past the corners
    grid = LATTICE[: np.searchsorted(_FAR, reach)] * np.exp(1j * rng.uniform(0, math.pi))
    grid = grid + rng.normal(0, 0.17, (len(grid), 2)).view(complex)[:, 0]
    grid = grid * apart + (0.5 + 0.5j) * size
    x, y = grid.real, grid.imag
    inside = np.maximum(np.abs(x - size / 2), np.abs(y - size / 2)) < size / 2 + 0.5 * radius
    column, row = (np.clip(place, 0, size - 1).astype(int) for place in (x, y))
    inside &= where[row, column] > 0.5
    wanted = share * np.count_nonzero(where > 0.5) * (1 + radius / size) ** 2 / (math.pi * radius**2)
    crowd = clouds(rng, 24, 5)[row * 24 // size, column * 24 // size] + rng.gumbel(0, 0.7, len(grid))
    crowd[~inside] = -np.inf
    count = min(int(wanted + rng.random()), np.count_nonzero(inside))
    return grid[np.argsort(-crowd)[:count]]


def _solid(rng: np.random.Generator, size: int) -> np.ndarray:
    """1 where there is tissue, 0 in holes, vessels and beside its edge."""
    holes = 0.3 * rng.beta(1.0, 2.5) if rng.random() < 0.6 else 0.0
    field = clouds(rng, size, 5) + 0.15 * clouds(rng, size, 16)
    return _step(field - _quantile(field, holes), 0.06) if holes else np.ones_like(field)


def _region(rng: np.random.Generator, size: int) -> np.ndarray:
    """Where a tumour lies: 1 in the middle and in some or all of the rest."""
    if rng.random() < 0.5:
        return np.ones((size, size), np.float32)
    across = np.linspace(-1, 1, size, dtype=np.float32)
    far = across**2 + across[:, None] ** 2
    field = clouds(rng, size, 4) - 1.5 * far
    region = (field > _quantile(field, rng.uniform(0.1, 0.5))) | (far < 0.12)
    return region.astype(np.float32)


def fibres(rng: np.random.Generator, size: int, angle: float) -> np.ndarray:
    """Wavy streaks along the angle, mean 0 and spread 1."""
    short, wide = 20, math.ceil(1.5 * size)  # the texture is drawn short and pulled long
    noise = rng.standard_normal((wide, short), np.float32)
    streaks = cv2.GaussianBlur(noise, (0, 0), 0.9, None, 1.1 * size / SIZE)
    across = np.arange(size, dtype=np.float32) - np.float32(size / 2)
    cosine, sine = np.float32(math.cos(angle)), np.float32(math.sin(angle))
    x = cosine * across + (sine * across)[:, None]
    y = -sine * across + (cosine * across)[:, None]
    height, waves = rng.uniform((1.0, 1.0), (4.0, 2.5)).astype(np.float32)
    y += height * np.float32(size / SIZE) * np.sin(x * (waves * np.float32(2 * math.pi / size)))
    x = x * np.float32(short / wide) + np.float32(short / 2)
    bent = cv2.remap(streaks, x, y + np.float32(wide / 2), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    return bent / bent.std()


def grain(noise: np.ndarray, width: float) -> np.ndarray:
    """White noise made coarse; its spread stays about 1."""
    width *= len(noise) / SIZE
    return cv2.GaussianBlur(noise, (0, 0), width) * np.float32(2 * math.sqrt(math.pi) * width)


def _quantile(field: np.ndarray, share: float) -> float:
    return float(np.quantile(field[::4, ::4], share))  # of smooth fields: every sixteenth pixel will do


def clouds(rng: np.random.Generator, size: int, cells: int) -> np.ndarray:
    return cv2.resize(rng.standard_normal((cells, cells), np.float32), (size, size), interpolation=cv2.INTER_CUBIC)


def _step(value: np.ndarray, width: float) -> np.ndarray:
    """0 below zero, 1 above it, and a slope between."""
    return np.clip(value / (4 * width) + 0.5, 0, 1).astype(np.float32)


def between(rng: np.random.Generator, mean: float, spread: float, least: float, most: float) -> float:
    return float(np.clip(rng.normal(mean, spread), least, most))
