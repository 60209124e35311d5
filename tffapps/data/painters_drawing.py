"""How a painter paints: a palette, and strokes of a length, a width and a direction, laid from coarse to fine.

A scene (`painters_scenes`) gives the tone of each place. The palette gives tones their colours; many strokes, each of
one colour, are laid over a toned ground in four layers, the last two where the scene has detail. At last light falls
on the thickness of the paint and on the weave of the canvas.
"""

import dataclasses
import functools
import math

import cv2
import numpy as np

from tffapps.data.painters_scenes import scene

# Each has its opposite three places on.
DIRECTIONS = ("across", "slant", "swirl", "upright", "contour", "crossed")
SCHEMES = ((0, 25, 180), (0, 70, 205), (0, 120, 240), (0, -35, 55), (0, 165, 20))  # degrees of hue: dark, light, accent
# Width, length and cover of each layer, in multiples of the painter's own.
_LAYERS = ((2.3, 0.9, 1.5), (1.25, 1.0, 1.6), (0.65, 0.7, 0.9), (0.4, 0.5, 0.5))
_MOST = (120, 350, 300, 330)  # strokes of each layer
_CANVAS = (128, 512)  # smallest and largest, in pixels; within it, twice the picture's side, which smooths edges
_SHIFT = 4  # bits below the pixel in what OpenCV is given
_STEPS = 2  # of a stroke, on either side of its middle


@dataclasses.dataclass(frozen=True)
class Style:
    """A painter's hand; lengths are shares of the picture's side."""

    ramp: tuple[tuple[float, float, float], ...]  # colours from dark to light: lightness, chroma, hue (CIE LCh)
    accent: tuple[tuple[float, float, float], ...]  # the same for the second colour
    direction: str  # of the strokes: one of DIRECTIONS
    angle: float  # of slanting strokes, in radians
    width: float  # of a stroke
    length: float  # of a stroke
    wobble: float  # of the direction, in radians
    broken: float  # how far a stroke's tone is off, as a share of the range
    mixed: float  # share of the strokes that take the other colour
    thick: float  # how much light the paint's thickness catches
    grain: float  # depth of the canvas's weave, as a share of the range
    soft: float  # blur of edges
    contrast: float  # of tones: 1 keeps them
    outlined: float  # how dark the outlines are drawn, 0 for not at all


@functools.lru_cache(maxsize=256)
def style(seed: int, number: int, close: int = 0) -> Style:
    """Of painter `number`, whoever else there is. The first `close` pairs differ in their strokes' direction only."""
    if number < 2 * close and number % 2:
        other = style(seed, number - 1, close)
        opposite = (DIRECTIONS.index(other.direction) + len(DIRECTIONS) // 2) % len(DIRECTIONS)
        return dataclasses.replace(other, direction=DIRECTIONS[opposite])
    u = _spread(seed, number)
    ramp, accent = _palette(seed, number, *u[:4])
    if number < 2 * close:
        u[4], u[7] = max(u[4], 0.5), u[7] / 2  # dabs have no direction, and a shaky hand has hardly one
    dabs = u[4] < 0.2  # hardly longer than wide
    width = 0.026 + 0.034 * u[5]
    return Style(
        ramp=ramp,
        accent=accent,
        direction=DIRECTIONS[(number + int(_shifts(seed)[-1] * len(DIRECTIONS))) % len(DIRECTIONS)],
        angle=(1 if u[6] < 0.5 else -1) * math.radians(35 + 20 * (2 * u[6] % 1)),
        width=width,
        length=width * 0.2 if dabs else min(width * (2.0 + 7.0 * (u[4] - 0.2)), 0.3),
        wobble=0.06 + 0.25 * u[7] ** 2,
        broken=0.02 + 0.09 * u[8],
        mixed=0.01 + 0.13 * u[9] ** 2,
        thick=0.9 * u[10],
        grain=0.09 * u[11] ** 2,
        soft=0.016 * u[12] ** 2,
        contrast=0.65 + 0.65 * u[13],
        outlined=max(0.0, u[14] - 0.65) * 2.4,
    )


def paint(rng: np.random.Generator, kind: str, hand: Style, size: int) -> np.ndarray:
    """A picture of a scene of that kind, uint8 RGB (size, size, 3)."""
    side = max(_CANVAS[0], min(2 * size, _CANVAS[1]), size)
    plan = scene(rng, kind, side)
    if hand.soft:
        plan = cv2.GaussianBlur(plan, (0, 0), max(hand.soft * side, 0.3))
    tones = np.clip(128 + hand.contrast * (plan[..., 0] - np.float32(128)), 0, 255)
    field = _Field(rng, hand, plan[..., 0])
    canvas = np.empty((side, side, 4), np.uint8)  # colour, and how thick the paint is
    canvas[..., :3] = _colours(hand)[0, int(tones.mean())]
    canvas[..., 3] = 128
    line = cv2.LINE_8 if side >= 2 * size else cv2.LINE_AA  # which takes three times as long
    for (wide, long, cover), most in zip(_LAYERS, _MOST):
        width, length = wide * hand.width, long * wide * hand.length
        count = min(most, round(cover / (width * (width + length))))
        places = _places(rng, count, side, None if wide > 1 else field.detail)
        inks = _inks(rng, hand, tones, plan[..., 1], *field.cells(*places))
        _lay(canvas, rng, hand, field, places, inks, width * side, length * side, line)
    if hand.outlined:
        _outline(canvas, field.edges, hand.outlined)
    return _varnish(canvas, rng, hand, size)


class _Field:
    """Which way strokes go, and where there is detail."""

    def __init__(self, rng: np.random.Generator, hand: Style, tones: np.ndarray) -> None:
        side = len(tones)
        smooth = cv2.GaussianBlur(tones, (0, 0), side / 40)
        self._hand, self._side = hand, side
        self._across, self._down = (cv2.Sobel(smooth, cv2.CV_32F, *order) for order in ((1, 0), (0, 1)))
        self.edges = cv2.Sobel(tones, cv2.CV_32F, 1, 0) ** 2 + cv2.Sobel(tones, cv2.CV_32F, 0, 1) ** 2
        self.detail = np.sqrt(cv2.blur(self.edges, (side // 16, side // 16))) + 2
        middle, arm = complex(*rng.uniform(0.35, 0.65, 2)), rng.uniform(0.2, 0.4) * np.exp(1j * rng.uniform(0, 7))
        self._centres = side * (middle + arm), side * (middle - arm)
        self._calm = rng.uniform(0, 2 * math.pi, 3)

    def angles(self, x: np.ndarray, y: np.ndarray, flip: np.ndarray) -> np.ndarray:
        """In radians, of strokes at these places; `flip` says which of two crossing directions."""
        direction = self._hand.direction
        if direction == "across":
            return 0.12 * np.sin(6 * y / self._side + self._calm[0])
        if direction == "upright":
            return math.pi / 2 + 0.12 * np.sin(6 * x / self._side + self._calm[0])
        if direction == "slant":
            return np.full(len(x), self._hand.angle)
        if direction == "crossed":
            return np.where(flip, math.pi / 4, -math.pi / 4)
        if direction == "swirl":
            first, second = (x + 1j * y - centre for centre in self._centres)
            near, far = (1 / (np.abs(arm) ** 2 + 1) for arm in (first, second))
            return np.angle(near * first + far * second) + math.pi / 2
        column, row = self.cells(x, y)
        across, down = self._across[row, column], self._down[row, column]
        # Where there is no contour near, strokes lie flat.
        return np.arctan2(across, -down + np.where(np.abs(across) + np.abs(down) < 1.5, 1e3, 0))

    def cells(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        most = self._side - 1
        return np.clip(x, 0, most).astype(int), np.clip(y, 0, most).astype(int)


def _places(
    rng: np.random.Generator, count: int, side: int, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spread and in random order, or as dense as the weight."""
    if weight is None:
        across = math.ceil(math.sqrt(count))
        cells = rng.permutation(across * across)[:count]
        x, y = (cells % across + rng.random(count)) / across, (cells // across + rng.random(count)) / across
        return x * side, y * side
    sums = np.cumsum(weight.ravel(), dtype=np.float64)
    cells = np.searchsorted(sums, rng.random(count) * sums[-1])
    return cells % side + rng.random(count), cells // side + rng.random(count)


def _inks(
    rng: np.random.Generator, hand: Style, tones: np.ndarray, accents: np.ndarray, column: np.ndarray, row: np.ndarray
) -> list[list[int]]:
    """Colour and thickness of a stroke at each of these pixels."""
    count = len(row)
    level = tones[row, column] + rng.normal(0, 255 * hand.broken, count)
    second = (accents[row, column] + rng.normal(0, 15, count) > 127) ^ (rng.random(count) < hand.mixed)
    colours = _colours(hand)[second.astype(int), np.clip(level, 0, 255).astype(int)]
    return np.concatenate([colours, rng.integers(60, 196, (count, 1))], axis=1).tolist()


def _lay(
    canvas: np.ndarray,
    rng: np.random.Generator,
    hand: Style,
    field: _Field,
    places: tuple[np.ndarray, np.ndarray],
    inks: list[list[int]],
    width: float,
    length: float,
    line: int,
) -> None:
    """One stroke through each place; width and length in pixels, `line` is OpenCV's type."""
    count = len(inks)
    if length < width:  # dabs
        middles = (np.stack(places, -1) * (1 << _SHIFT)).astype(int).tolist()
        radii = (np.maximum(width * rng.uniform(0.4, 0.65, count), 1) * (1 << _SHIFT)).astype(int).tolist()
        for middle, radius, ink in zip(middles, radii, inks):
            cv2.circle(canvas, middle, radius, ink, cv2.FILLED, line, _SHIFT)
        return
    paths = _paths(rng, hand, field, *places, length * rng.uniform(0.6, 1.3, count))
    widths = np.maximum(np.rint(width * rng.uniform(0.75, 1.25, count)), 1).astype(int).tolist()
    for path, wide, ink in zip(paths, widths, inks):
        cv2.polylines(canvas, [path], False, ink, wide, line, _SHIFT)


def _paths(
    rng: np.random.Generator, hand: Style, field: _Field, x: np.ndarray, y: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """Points of the strokes that follow the field through these places, int32 (count, points, 2), for OpenCV."""
    step = length / (2 * _STEPS)
    off, flip = rng.normal(0, hand.wobble, len(x)), rng.random(len(x)) < 0.5
    points = np.empty((2 * _STEPS + 1, 2, len(x)))
    points[_STEPS] = x, y
    for way in (-1, 1):
        before = None
        for number in range(1, _STEPS + 1):
            here = points[_STEPS + way * (number - 1)]
            ahead = np.exp(1j * (field.angles(here[0], here[1], flip) + off))
            if before is not None:
                ahead = np.where((ahead * before.conj()).real < 0, -ahead, ahead)  # a direction has no sign
            points[_STEPS + way * number] = here + way * step * (ahead.real, ahead.imag)
            before = ahead
    return (points.transpose(2, 0, 1) * (1 << _SHIFT)).astype(np.int32)


def _outline(canvas: np.ndarray, edges: np.ndarray, strength: float) -> None:
    """Darkens what is painted where the scene has edges."""
    lines = np.clip(cv2.GaussianBlur(np.sqrt(edges), (0, 0), len(edges) / 160) / 150, 0, 1)
    dark = 1 - strength * lines
    canvas[..., :3] = canvas[..., :3] * dark[..., None]


def _varnish(canvas: np.ndarray, rng: np.random.Generator, hand: Style, size: int) -> np.ndarray:
    """The picture in the light, in its size."""
    side = len(canvas)
    height = cv2.GaussianBlur(canvas[..., 3], (0, 0), side / 220).astype(np.float32)
    slope = np.zeros_like(height)
    slope[1:, 1:] = height[1:, 1:] - height[:-1, :-1]
    light = (hand.thick * 64 / 255) * slope * (side / 128)
    if hand.grain:
        thread = np.sin(np.arange(side, dtype=np.float32) * (2 * math.pi * 40 / side))
        weave = thread[:, None] * thread + 0.5 * rng.standard_normal((side, side), np.float32)
        light += 255 * hand.grain * weave
    picture = np.clip(canvas[..., :3] + light[..., None], 0, 255).astype(np.uint8)
    if side != size:
        picture = cv2.resize(picture, (size, size), interpolation=cv2.INTER_AREA)
    return picture


@functools.lru_cache(maxsize=256)
def _colours(hand: Style) -> np.ndarray:
    """What each tone is painted with, uint8 RGB (2, 256, 3): the first colour's, the second's."""
    tables = []
    for stops in (hand.ramp, hand.accent):
        lightness, chroma, hue = np.array(stops).T
        hue = np.radians(hue)
        lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], -1)
        at = np.linspace(0, 255, len(stops))
        table = np.stack([np.interp(np.arange(256), at, plane) for plane in lab.T], -1).astype(np.float32)
        tables.append(cv2.cvtColor(table[None], cv2.COLOR_Lab2RGB)[0])
    return np.rint(255 * np.clip(tables, 0, 1)).astype(np.uint8)


def _palette(
    seed: int, number: int, key: float, vivid: float, many: float, scheme: float
) -> tuple[tuple[tuple[float, float, float], ...], tuple[tuple[float, float, float], ...]]:
    """Five or six colours: three or four from dark to light, two of another hue. Hues go round by turns."""
    start = 360 * ((_shifts(seed)[-2] + number * 0.61803398875) % 1)
    dark, light, other = (start + turn for turn in SCHEMES[int(scheme * len(SCHEMES))])
    lowest, highest = 8 + 22 * key, 72 + 24 * key
    chroma = 12 + 42 * vivid
    count = 3 + (many > 0.5)
    share = np.linspace(0, 1, count)
    ramp = tuple(
        (lowest + (highest - lowest) * s, chroma * (0.55 + 0.9 * s * (1 - s)), dark + (light - dark) * s)
        for s in share.tolist()
    )
    accent = ((lowest + 8, 0.8 * chroma + 6, other), (highest - 6, 0.9 * chroma + 8, other))
    return ramp, accent


def _spread(seed: int, number: int) -> list[float]:
    """Numbers between 0 and 1, spread so that no two painters have nearly the same."""
    shifts = _shifts(seed)[:-2]
    base = 1.0  # the root of base ** (dimensions + 1) = base + 1: multiples of its powers fill a cube evenly
    for _ in range(40):
        base = (1 + base) ** (1 / (len(shifts) + 1))
    steps = base ** -np.arange(1, len(shifts) + 1)
    return ((shifts + number * steps) % 1).tolist()


@functools.lru_cache(maxsize=16)
def _shifts(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 0, 5]).random(17)  # three numbers: never an item's two
