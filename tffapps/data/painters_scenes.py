"""What is painted: four kinds of scenes, the same for every painter.

    landscape    sky and clouds, hills one behind the other, trees, a path
    portrait     a head on shoulders, lit from one side
    still life   fruit, bottles and bowls on a table
    town         houses side by side, their windows, a street

A scene has no colours: it says how light each place is and where a second colour may be used. The painter has the rest.
"""

import math
from collections.abc import Callable

import cv2
import numpy as np

KINDS = ("landscape", "portrait", "still life", "town")
_SHIFT = 4  # bits below the pixel in what OpenCV is given
_ROUND = np.exp(2j * math.pi * np.arange(40) / 40)


class Sheet:
    """Shapes in shares of the side, from the upper left corner; a tone from 0 (dark) to 1, an accent from 0 to 1."""

    def __init__(self, size: int, tone: float, accent: float) -> None:
        self.pixels = np.empty((size, size, 3), np.uint8)  # tone, accent; OpenCV draws on three
        self.pixels[:] = _level(tone, accent)

    def polygon(self, points: np.ndarray, tone: float, accent: float) -> None:
        """`points` are x + iy."""
        corners = np.stack([points.real, points.imag], -1) * (len(self.pixels) << _SHIFT)
        cv2.fillPoly(self.pixels, [corners.astype(np.int32)], _level(tone, accent), cv2.LINE_AA, _SHIFT)

    def box(self, left: float, top: float, right: float, bottom: float, tone: float, accent: float) -> None:
        self.polygon(
            np.array([left + 1j * top, right + 1j * top, right + 1j * bottom, left + 1j * bottom]), tone, accent
        )

    def oval(self, middle: complex, across: float, down: float, tone: float, accent: float, turn: float = 0.0) -> None:
        """`across` and `down` are radii."""
        rim = (across * _ROUND.real + 1j * down * _ROUND.imag) * np.exp(1j * turn)
        self.polygon(middle + rim, tone, accent)

    def fade(self, top: float, bottom: float, start: float, end: float) -> None:
        """Changes the tones of a band from `start` more at its top to `end` more at its bottom."""
        size = len(self.pixels)
        rows = slice(int(top * size), int(bottom * size))
        count = rows.stop - rows.start
        more = 255 * np.linspace(start, end, count, dtype=np.float32)
        self.pixels[rows, :, 0] = np.clip(self.pixels[rows, :, 0] + more[:, None], 0, 255)


def scene(rng: np.random.Generator, kind: str, size: int) -> np.ndarray:
    """Tones and accents, uint8 (size, size, 3); the third plane means nothing."""
    sheet = _SCENES[kind](rng, size)
    pixels = sheet.pixels if rng.random() < 0.5 else sheet.pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


def _landscape(rng: np.random.Generator, size: int) -> Sheet:
    horizon = rng.uniform(0.35, 0.62)
    sheet = Sheet(size, rng.uniform(0.66, 0.82), rng.uniform(0.0, 0.5))
    sheet.fade(0, horizon, rng.uniform(-0.2, 0.0), 0.12)
    if rng.random() < 0.5:
        sun = rng.uniform(0.04, 0.09)
        sheet.oval(complex(rng.uniform(0.1, 0.9), horizon * rng.uniform(0.3, 0.8)), sun, sun, 0.98, 1.0)
    for _ in range(rng.integers(1, 5)):
        middle = complex(rng.uniform(0, 1), horizon * rng.uniform(0.15, 0.8))
        sheet.oval(middle, rng.uniform(0.08, 0.22), rng.uniform(0.02, 0.05), rng.uniform(0.85, 0.97), 0.1)
    layers = int(rng.integers(2, 5))
    x = np.linspace(-0.05, 1.05, 24)
    for layer in range(layers):
        base = horizon + (0.9 - horizon) * (layer / layers) ** 1.3
        rise = rng.uniform(0.02, 0.13) * (1 - 0.4 * layer / layers)
        ridge = base - rise * (1 + np.sin(rng.uniform(3, 9) * x + rng.uniform(0, 6)) + 0.4 * np.sin(17 * x)) / 2
        outline = np.concatenate([x + 1j * ridge, [1.05 + 1.05j, -0.05 + 1.05j]])
        sheet.polygon(outline, rng.uniform(0.55, 0.7) - 0.4 * layer / layers + rng.normal(0, 0.05), rng.uniform(0, 0.9))
    if rng.random() < 0.4:  # a path or a river
        far, near = rng.uniform(0.2, 0.8, 2)
        bend, top = rng.uniform(-0.2, 0.2), horizon + 0.06
        points = [far + 1j * top, far + 0.02 + 1j * top, (far + near) / 2 + bend + 0.07 + 0.75j, near + 0.2 + 1.02j]
        points += [near - 0.1 + 1.02j, (far + near) / 2 + bend - 0.02 + 0.75j]
        sheet.polygon(np.array(points), rng.uniform(0.7, 0.9), rng.uniform(0, 1))
    for _ in range(rng.integers(1, 5)):
        _tree(sheet, rng, complex(rng.uniform(0.05, 0.95), rng.uniform(horizon + 0.1, 0.95)))
    return sheet


def _tree(sheet: Sheet, rng: np.random.Generator, foot: complex) -> None:
    tall = rng.uniform(0.12, 0.3) * (0.5 + foot.imag)
    wide = tall * rng.uniform(0.18, 0.4)
    sheet.box(foot.real - 0.08 * tall, foot.imag - 0.5 * tall, foot.real + 0.08 * tall, foot.imag, 0.12, 0.3)
    tone, accent = rng.uniform(0.12, 0.35), rng.uniform(0, 0.6)
    crown = foot - 0.7j * tall
    sheet.oval(crown, wide, 0.45 * tall, tone, accent)
    sheet.oval(crown - (0.3 + 0.25j) * wide, 0.5 * wide, 0.2 * tall, tone + 0.2, accent)


def _portrait(rng: np.random.Generator, size: int) -> Sheet:
    ground = rng.uniform(0.15, 0.75)
    sheet = Sheet(size, ground, rng.uniform(0, 1))
    sheet.fade(0, 1, rng.uniform(-0.12, 0.12), rng.uniform(-0.12, 0.12))
    x, y, wide = rng.uniform(0.4, 0.6), rng.uniform(0.38, 0.48), rng.uniform(0.13, 0.18)
    tall = wide * rng.uniform(1.25, 1.45)
    face, skin = rng.uniform(0.62, 0.8), rng.uniform(0, 0.35)
    hair, clothes = rng.uniform(0.05, 0.5), rng.uniform(0.1, 0.6)
    shade = rng.uniform(0.15, 0.28)
    colour = rng.uniform(0.4, 1)
    middle = complex(x, y)
    sheet.oval(middle - 0.12j * tall, 1.22 * wide, 1.15 * tall, hair, 0.4)
    if rng.random() < 0.5:  # long hair
        sheet.box(x - 1.2 * wide, y, x + 1.2 * wide, y + 1.2 * tall, hair, 0.4)
    sheet.oval(complex(x, y + 2.9 * tall), 2.6 * wide, 1.7 * tall, clothes, colour)
    sheet.polygon(
        np.array([x - 0.5 * wide, x + 0.5 * wide, x + 1j * 0.5 * tall]) + 1j * (y + 1.3 * tall), face - shade, skin
    )
    sheet.box(x - 0.4 * wide, y + 0.6 * tall, x + 0.4 * wide, y + 1.35 * tall, face - shade, skin)
    sheet.oval(middle, wide, tall, face - shade, skin)
    sheet.oval(middle - 0.14 * wide, 0.82 * wide, 0.96 * tall, face, skin)
    sheet.oval(middle - 0.3 * wide + 0.25j * tall, 0.34 * wide, 0.24 * tall, face + 0.1, skin + 0.25)
    brow = middle - 0.05j * tall
    for side in (-0.42, 0.36):
        sheet.oval(brow + side * wide, 0.2 * wide, 0.075 * tall, 0.08, 0.2)
        sheet.oval(brow + side * wide - 0.17j * tall, 0.26 * wide, 0.035 * tall, hair, 0.4)
    sheet.polygon(brow + np.array([0.0, 0.16 * wide + 0.4j * tall, -0.12 * wide + 0.42j * tall]), face - shade, skin)
    sheet.oval(middle + 0.56j * tall - 0.03 * wide, 0.3 * wide, 0.065 * tall, 0.35, 1.0)
    fringe = middle - 0.82j * tall + rng.uniform(-0.3, 0.3) * wide
    sheet.oval(fringe, 0.95 * wide, 0.36 * tall, hair, 0.4, rng.uniform(-0.3, 0.3))
    if rng.random() < 0.3:  # a hat
        sheet.oval(middle - 0.85j * tall, 1.7 * wide, 0.16 * tall, clothes, colour)
        sheet.oval(middle - 1.1j * tall, 1.0 * wide, 0.4 * tall, clothes, colour)
    return sheet


def _still_life(rng: np.random.Generator, size: int) -> Sheet:
    edge = rng.uniform(0.5, 0.64)
    sheet = Sheet(size, rng.uniform(0.2, 0.7), rng.uniform(0, 1))
    sheet.fade(0, edge, rng.uniform(-0.12, 0.12), rng.uniform(-0.12, 0.12))
    table, cloth = rng.uniform(0.4, 0.88), rng.uniform(0, 0.8)
    sheet.box(-0.01, edge, 1.01, 1.01, table, cloth)
    sheet.fade(edge, 1, 0.06, -0.12)
    for number in range(rng.integers(1, 3)):
        x = (0.25 + 0.4 * number + rng.uniform(-0.1, 0.1)) % 1
        (_bottle if rng.random() < 0.6 else _bowl)(sheet, rng, complex(x, edge + rng.uniform(0.06, 0.16)))
    count = int(rng.integers(3, 7))
    feet = np.sort(rng.uniform(edge + 0.14, 0.94, count))  # the far ones first
    places = rng.permutation(np.linspace(0.12, 0.88, count)) + rng.normal(0, 0.05, count)
    kind, colour = rng.uniform(0.35, 0.7), rng.uniform(0, 1)
    for x, foot in zip(places, feet):
        radius = rng.uniform(0.06, 0.11)
        tone, accent = kind + rng.normal(0, 0.08), colour if rng.random() < 0.7 else 1 - colour
        middle = complex(x, foot - radius)
        sheet.oval(middle + (0.6 + 0.85j) * radius, 1.2 * radius, 0.3 * radius, table - 0.3, cloth)
        sheet.oval(middle, radius, 0.95 * radius, tone - 0.2, accent)
        sheet.oval(middle - (0.15 + 0.15j) * radius, 0.8 * radius, 0.76 * radius, tone, accent)
        sheet.oval(middle - (0.35 + 0.38j) * radius, 0.26 * radius, 0.2 * radius, tone + 0.3, accent)
    return sheet


def _bottle(sheet: Sheet, rng: np.random.Generator, foot: complex) -> None:
    wide, tall = rng.uniform(0.06, 0.1), rng.uniform(0.34, 0.48)
    tone, accent = rng.uniform(0.1, 0.45), rng.uniform(0, 1)
    half = np.array([0.0 + 0j, wide, wide - 0.55j * tall, 0.35 * wide - 0.72j * tall, 0.35 * wide - 1j * tall])
    sheet.oval(foot + 0.6 * wide, 1.6 * wide, 0.3 * wide, 0.25, 0.3)
    sheet.polygon(foot + np.concatenate([half, -half[::-1].conj()]), tone, accent)
    sheet.box(
        foot.real - 0.7 * wide, foot.imag - 0.55 * tall, foot.real - 0.3 * wide, foot.imag - 0.08, tone + 0.35, accent
    )


def _bowl(sheet: Sheet, rng: np.random.Generator, foot: complex) -> None:
    wide = rng.uniform(0.15, 0.22)
    tone, accent = rng.uniform(0.3, 0.85), rng.uniform(0, 1)
    lower = wide * (_ROUND[:21].real + 0.8j * _ROUND[:21].imag)
    rim = foot - 0.75j * wide
    sheet.oval(foot + 0.3 * wide, 1.0 * wide, 0.14 * wide, 0.25, 0.3)
    sheet.polygon(rim + lower, tone, accent)
    sheet.oval(rim, wide, 0.22 * wide, tone - 0.25, accent)


def _town(rng: np.random.Generator, size: int) -> Sheet:
    street = rng.uniform(0.7, 0.85)
    sheet = Sheet(size, rng.uniform(0.6, 0.85), rng.uniform(0, 0.6))
    sheet.fade(0, street, rng.uniform(-0.2, 0.0), 0.1)
    for row in range(2):  # the houses behind first
        left = rng.uniform(-0.15, 0.0)
        while left < 1:
            wide = rng.uniform(0.13, 0.27)
            top = street - rng.uniform(0.22, 0.5) - 0.1 * (1 - row)
            if row or rng.random() < 0.6:
                _house(sheet, rng, left, top, left + wide, street, 0.12 * (1 - row))
            left += wide + (0.0 if rng.random() < 0.7 else rng.uniform(0.02, 0.1))
    sheet.box(-0.01, street, 1.01, 1.01, rng.uniform(0.3, 0.75), rng.uniform(0, 0.6))
    sheet.fade(street, 1, -0.12, 0.1)
    for _ in range(rng.integers(0, 4)):  # people
        x, foot, tall = rng.uniform(0.05, 0.95), street + rng.uniform(0.03, 0.13), rng.uniform(0.08, 0.12)
        sheet.oval(complex(x, foot - 0.4 * tall), 0.2 * tall, 0.42 * tall, rng.uniform(0.05, 0.3), rng.uniform(0, 1))
        sheet.oval(complex(x, foot - 0.92 * tall), 0.12 * tall, 0.12 * tall, 0.7, 0.2)
    return sheet


def _house(
    sheet: Sheet, rng: np.random.Generator, left: float, top: float, right: float, bottom: float, far: float
) -> None:
    tone, accent = rng.uniform(0.25, 0.85), rng.uniform(0, 1)
    tone += (0.7 - tone) * 4 * far
    wide = right - left
    sheet.box(left, top, right, bottom, tone, accent)
    sheet.box(right - 0.2 * wide, top, right, bottom, tone - 0.15, accent)
    if rng.random() < 0.65:
        gable = np.array(
            [left - 0.02 + 1j * top, right + 0.02 + 1j * top, (left + right) / 2 + 1j * (top - 0.5 * wide)]
        )
        sheet.polygon(gable, tone - 0.3, 1 - accent)
    columns, rows = max(2, round(wide / 0.08)), max(2, round((bottom - top) / 0.12))
    glass = 0.1 if tone > 0.4 else 0.95
    across, down = wide / columns, (bottom - top) / rows
    for row in range(rows):
        for column in range(columns):
            x, y = left + (column + 0.28) * across, top + (row + 0.25) * down
            sheet.box(x, y, x + 0.42 * across, y + 0.5 * down, glass + 0.2 * far, 0.5)


_SCENES: dict[str, Callable[[np.random.Generator, int], Sheet]] = {
    "landscape": _landscape,
    "portrait": _portrait,
    "still life": _still_life,
    "town": _town,
}


def _level(tone: float, accent: float) -> tuple[float, float, float]:
    return 255 * min(max(tone, 0.0), 1.0), 255 * min(max(accent, 0.0), 1.0), 0.0
