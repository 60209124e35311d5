"""Drawn glands of the colon: how much haematoxylin and eosin every pixel of a patch holds.

    normal            round crypts, well apart, round lumen, small round nuclei along the rim
    serrated          the same crypts and nuclei, but the lumen is a star: its edge is a saw
    adenoma           crowded long glands side by side, slit lumen, pencil-shaped nuclei in a palisade
    adenocarcinoma    glands of no regular form that fuse, ragged holes, large uneven nuclei everywhere

How much of either dye a patch holds on the whole is drawn alike for all four: the structure tells the class.
"""

import dataclasses
import math

import cv2
import numpy as np

from tffapps.data import tissue_drawing as tissue
from tffapps.data.tissue_drawing import SIZE, Kind

_BLUE, _PINK = 0.34, 0.27  # mean density of either dye in a patch
_MISSING = 0.1  # share of the glands of which stroma has taken the place
_POINTS = 72  # of a gland's outline
_TURNS = 2 * math.pi * np.arange(_POINTS) / _POINTS
_ROUND = np.exp(1j * _TURNS)
_WAVES = np.stack([wave for n in (2, 3, 4, 5) for wave in (np.cos(n * _TURNS) / n, np.sin(n * _TURNS) / n)])

_BASAL = Kind(2.3, 0.10, 0.25, 0.02, 1.35, 0.0, 0.0)
_PENCIL = Kind(2.3, 0.10, 2.60, 0.02, 1.25, 0.0, 0.0)
_UNEVEN = Kind(3.1, 0.28, 0.50, 0.12, 1.30, 0.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Form:
    """A sort of glands; lengths in pixels, or as a share of the gland's radius where it says so."""

    radius: float
    longer: float  # how much longer than wide: 1 is round
    gap: float  # between neighbours
    wobble: float  # of the outline, as a share
    lumen: float  # its radius, as a share
    teeth: tuple[int, int]  # of the lumen's edge: fewest and most
    depth: float  # of the teeth, as a share of the lumen's radius
    nuclei: Kind
    row: float  # how far out the nuclei lie, as a share
    apart: float  # from one nucleus to the next


FORMS = {
    "normal": Form(17.0, 1.0, 7.0, 0.05, 0.42, (0, 0), 0.0, _BASAL, 0.84, 5.4),
    "serrated": Form(17.0, 1.0, 7.0, 0.05, 0.50, (6, 9), 0.62, _BASAL, 0.86, 5.4),
    "adenoma": Form(18.0, 1.32, 3.0, 0.05, 0.24, (0, 0), 0.0, _PENCIL, 0.70, 3.7),
}


def densities(rng: np.random.Generator, label: str, size: int = SIZE) -> np.ndarray:
    """Haematoxylin and eosin of a patch of that class, float32 (2, size, size)."""
    layers = np.zeros((3, size, size), np.uint8)  # epithelium, lumen, nuclei
    zoom = tissue.between(rng, 1.0, 0.10, 0.8, 1.25) * size / SIZE
    if label in FORMS:
        _draw_glands(layers, FORMS[label], rng, zoom)
    else:
        _draw_carcinoma(layers, rng, zoom)
    angle = rng.uniform(0, math.pi)
    stroma = (layers[0] < 128).astype(np.float32)
    _draw_stroma(layers[2], rng, stroma, angle)
    return _composed(layers, rng, angle)


def _composed(layers: np.ndarray, rng: np.random.Generator, angle: float) -> np.ndarray:
    """The dyes that the three layers take."""
    size = layers.shape[-1]
    cells, lumen, nuclei = (
        cv2.GaussianBlur(layer, (0, 0), 0.65 * size / SIZE).astype(np.float32) / unit
        for layer, unit in zip(layers, (255, 255, tissue.UNIT))
    )
    noise = rng.standard_normal((size, size), np.float32)
    nuclei *= 1 + 0.18 * tissue.grain(noise, 1.0)
    full = 1 - lumen
    fibres = 0.42 + 0.13 * tissue.fibres(rng, size, angle)
    pink = (
        (1 - cells) * fibres + cells * (0.30 + 0.05 * tissue.clouds(rng, size, 8)) + 0.04 * tissue.grain(noise.T, 1.4)
    )
    pink = np.maximum(pink, 0.05) * full * np.exp(-0.8 * nuclei) + 0.03
    blue = nuclei + full * (0.03 + 0.10 * cells) + 0.01
    amounts = np.stack([blue, pink])
    wanted = np.array([_BLUE, _PINK]) * np.exp(rng.normal(0, 0.15, 2))  # the section's thickness, its time in each dye
    amounts *= (wanted / amounts.mean(axis=(1, 2)))[:, None, None].astype(np.float32)
    return amounts


def _draw_glands(layers: np.ndarray, form: Form, rng: np.random.Generator, zoom: float) -> None:
    size = layers.shape[-1]
    turn = np.exp(1j * rng.uniform(0, 2 * math.pi))
    places = _centres(rng, form, size / zoom, turn)
    rims, lumens, nuclei = _glands(form, rng, len(places))
    turns = turn * np.exp(1j * rng.normal(0, 0.12, len(places)))
    middle = (0.5 + 0.5j) * size
    for layer, shapes in ((layers[0], rims), (layers[1], lumens)):
        shapes = zoom * (places[:, None] + turns[:, None] * shapes) + middle
        _fill(layer, shapes, [255.0] * len(shapes))
    nuclei = zoom * (places[:, None, None] + turns[:, None, None] * nuclei)
    nuclei = nuclei.reshape(-1, nuclei.shape[-1])
    nuclei = nuclei[_inside(nuclei[:, 0], 0.5 * size + 8 * zoom)] + middle
    _draw_nuclei(layers[2], nuclei, form.nuclei, rng, 0.10)


def _centres(rng: np.random.Generator, form: Form, size: float, turn: complex) -> np.ndarray:
    """Middles of glands about the origin, x + iy: a lattice, stretched along the glands, a little out of order."""
    wide, long = 2 * form.radius / form.longer + form.gap, 2 * form.radius * form.longer + form.gap
    lattice = tissue.LATTICE[:200] + complex(*rng.uniform(-0.5, 0.5, 2))
    places = (lattice.real * long + 1j * lattice.imag * wide) * turn
    places = places[_inside(places, size / 2 + form.radius)]
    places = places[rng.random(len(places)) > _MISSING]
    return places + rng.normal(0, 0.25 * form.gap, (len(places), 2)).view(complex)[:, 0]


def _glands(form: Form, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rims and lumens, (count, points), and nuclei, (count, each, points), of glands about the origin, x + iy."""
    radius = form.radius * np.exp(rng.normal(0, 0.07, (count, 1)))
    far = radius * (1 + _bumps(rng, form.wobble, count))
    rims = far * (form.longer * _ROUND.real + 1j * _ROUND.imag / form.longer)
    lumens = rims * form.lumen * np.exp(rng.normal(0, 0.12, (count, 1))) * (1 + _bumps(rng, 0.07, count))
    if form.depth:
        teeth = rng.integers(*form.teeth, size=(count, 1), endpoint=True)
        phase = (teeth * _TURNS / (2 * math.pi) + rng.random((count, 1))) % 1
        depth = form.depth * rng.uniform(0.6, 1.1, (count, 1))
        lumens = lumens * (1 + depth * (2 * np.abs(2 * phase - 1) - 1))
    return rims, lumens, _rim_nuclei(form, rng, rims, radius)


def _rim_nuclei(form: Form, rng: np.random.Generator, rims: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Nuclei at equal steps along the rims, as many for every gland, turned inwards; (count, each, points)."""
    even = form.longer * _ROUND.real + 1j * _ROUND.imag / form.longer  # the steps are those of a gland without bumps
    along = np.append(0, np.cumsum(np.abs(np.roll(even, -1) - even)))
    count, each = len(rims), round(form.radius * along[-1] * form.row / form.apart)
    steps = (np.arange(each) + rng.random((count, 1)) + rng.normal(0, 0.12, (count, each))) / each % 1
    at = np.interp(steps, along / along[-1], np.arange(_POINTS + 1)) % _POINTS
    before = at.astype(int)
    base, ahead = (np.take_along_axis(rims, index, 1) for index in (before, (before + 1) % _POINTS))
    inwards = 1j * (ahead - base) / np.abs(ahead - base)
    depth = (1 - form.row) * radius / form.longer * np.exp(rng.normal(0, 0.1, (count, each))) + 0.3 * form.nuclei.radius
    middles = base + (at - before) * (ahead - base) + inwards * depth
    shapes = tissue.outlines(form.nuclei, rng, count * each, 0.0).reshape(count, each, -1)
    return shapes * inwards[..., None] + middles[..., None]


def _bumps(rng: np.random.Generator, rough: float, count: int) -> np.ndarray:
    return rng.normal(0, rough, (count, len(_WAVES))) @ _WAVES


def _draw_carcinoma(layers: np.ndarray, rng: np.random.Generator, zoom: float) -> None:
    """Blobs that run into each other, ragged holes in them, nuclei of every size all over and beyond."""
    size = layers.shape[-1]
    count = int(rng.integers(7, 11))
    for layer, number, mean, rough in ((layers[0], count, 15.0, 0.55), (layers[1], count + 3, 5.0, 0.9)):
        far = mean * np.exp(rng.normal(0, 0.35, (number, 1))) * np.maximum(1 + _bumps(rng, rough, number), 0.2)
        middles = rng.uniform(-0.05 * size, 1.05 * size, (number, 2)).view(complex)
        _fill(layer, zoom * far * _ROUND + middles, [255.0] * number)
    layers[1] &= cv2.erode(layers[0], np.ones((3, 3), np.uint8))
    apart = rng.uniform(6.5, 8.5) * zoom
    places = tissue.LATTICE[:1000] * np.exp(1j * rng.uniform(0, math.pi)) * apart
    places = places[_inside(places, size / 2)] + (0.5 + 0.5j) * size
    places = places + rng.normal(0, 0.3 * apart, (len(places), 2)).view(complex)[:, 0]
    column, row = (np.clip(place, 0, size - 1).astype(int) for place in (places.real, places.imag))
    chance = np.where(layers[1][row, column] > 127, 0, np.where(layers[0][row, column] > 127, 0.85, 0.15))
    places = places[rng.random(len(places)) < chance]
    _draw_nuclei(layers[2], tissue.outlines(_UNEVEN, rng, len(places)) * zoom + places[:, None], _UNEVEN, rng, 0.22)


def _draw_nuclei(canvas: np.ndarray, shapes: np.ndarray, kind: Kind, rng: np.random.Generator, spread: float) -> None:
    """Fills outlines, each in a shade of its own."""
    shades = kind.shade * np.exp(rng.normal(0, spread, len(shapes)))
    _fill(canvas, shapes, (tissue.UNIT * shades).tolist())


def _draw_stroma(canvas: np.ndarray, rng: np.random.Generator, where: np.ndarray, angle: float) -> None:
    shade = math.exp(rng.normal(0, 0.1))
    tissue.draw_nuclei(canvas, tissue.SPINDLE, rng, where, rng.uniform(0.02, 0.06), shade, angle)
    tissue.draw_nuclei(canvas, _BASAL, rng, where, rng.uniform(0.01, 0.08), shade)


def _inside(places: np.ndarray, far: float) -> np.ndarray:
    """Which of the places x + iy lie in a square about the origin."""
    return np.maximum(np.abs(places.real), np.abs(places.imag)) < far


def _fill(canvas: np.ndarray, shapes: np.ndarray, levels: list[float]) -> None:
    """Fills outlines (count, points), x + iy, each with its level."""
    for outline, level in zip(tissue.sixteenths(shapes), levels):
        cv2.fillPoly(canvas, [outline], (level,), cv2.LINE_AA, shift=4)
