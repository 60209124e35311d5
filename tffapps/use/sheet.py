"""A contact sheet of explained answers: each image beside its heat map, the class, its probability, the file's name."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tffapps.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAUTION = (
    "Not a medical device: no diagnosis, no treatment may rest on this. "
    "A heat map shows what the network used, not why."
)
MOST = 40  # images on a sheet; more are more sheets
_DPI = 120
_INK, _GREY, _BAR = "#1d2330", "#5c6470", "#d9480f"
_CARD = (3.9, 2.47)  # inches: two pictures side by side, two lines of text above
_LARGE = 1.6  # times that where there are few images
_MARGIN, _GAP, _TOP, _BOTTOM = 0.35, 0.25, 0.75, 0.75  # inches
_LONGEST = 34  # characters of a line that fit above two pictures


class Answer(NamedTuple):
    """What was said of an image."""

    name: str  # of its file
    label: str  # the predicted class
    probability: float


def write_sheet(
    path: pathlib.Path, images: np.ndarray, heats: np.ndarray, answers: Sequence[Answer], *, title: str, note: str = ""
) -> None:
    """Writes a PNG.

    Args:
      path: of the file.
      images: (n, height, width, 1 or 3) in [0,1], at most MOST.
      heats: (n, height, width) in [0,1], as `tffapps.use.explain.explain` gives them.
      answers: one an image.
      title: above all of them.
      note: below the title, smaller: which model.
    """
    if len(images) > MOST:
        raise ValueError(f"{len(images)} images; {MOST} fit on a sheet")
    figure = _figure(images, heats, answers, title, note)
    with replacing(path, "wb") as file:
        figure.savefig(file, format="png", dpi=_DPI, facecolor="white")


def overlay(image: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """The image in grey with the heat over it in colour, stronger where it is hotter: (height, width, 3) in [0,1]."""
    from matplotlib import colormaps

    grey = np.repeat(image.mean(axis=-1, keepdims=True), 3, axis=-1)
    colour = colormaps["inferno"](heat)[..., :3]
    share = 0.8 * np.clip(heat, 0, 1)[..., None]
    return np.clip((1 - share) * grey + share * colour, 0, 1)


def _figure(images: np.ndarray, heats: np.ndarray, answers: Sequence[Answer], title: str, note: str) -> Figure:
    from matplotlib.figure import Figure  # not pyplot: no window system and no state that stays

    columns = _columns(len(images))
    rows = max(1, math.ceil(len(images) / columns))
    scale = _LARGE if len(images) <= 2 else 1.0
    card = _CARD[0] * scale, _CARD[0] * scale / 2 + (_CARD[1] - _CARD[0] / 2)
    width = 2 * _MARGIN + columns * card[0] + (columns - 1) * _GAP
    height = _TOP + _BOTTOM + rows * card[1] + (rows - 1) * _GAP
    figure = Figure(figsize=(width, height), dpi=_DPI)
    _write(figure, _MARGIN, height - 0.38, title, size=14, weight="bold", limit=int(width * 9))
    _write(figure, _MARGIN, height - 0.60, note, size=9, colour=_GREY, limit=int(width * 14))
    for index, (image, heat, answer) in enumerate(zip(images, heats, answers)):
        left = _MARGIN + index % columns * (card[0] + _GAP)
        top = height - _TOP - index // columns * (card[1] + _GAP)
        _draw(figure, left, top, card[0], image, heat, answer, scale)
    _colours(figure, width)
    for line, text in enumerate(_wrapped(CAUTION, int((width - 2 * _MARGIN) * 13))):
        _write(figure, _MARGIN, 0.27 - 0.15 * line, text, size=8.5, colour=_GREY, limit=len(text))
    return figure


def _columns(count: int) -> int:
    """So that a sheet is about as wide as it is high: cards are wider than high."""
    return max(1, min(4, math.ceil(math.sqrt(count / 2.2)))) if count > 2 else 1


def _draw(
    figure: Figure, left: float, top: float, width: float, image: np.ndarray, heat: np.ndarray, answer: Answer,
    scale: float,
) -> None:  # fmt: skip
    limit = int(_LONGEST * scale)
    _write(figure, left, top - 0.16, answer.label, size=11, weight="bold", limit=limit - 7)
    _write(figure, left + width, top - 0.16, f"{answer.probability:.1%}", size=11, weight="bold", align="right")
    _write(figure, left, top - 0.35, answer.name, size=8, colour=_GREY, limit=int(1.5 * limit))
    _fill(figure, left, top - 0.45, width, 0.035, "#e6e8eb")
    _fill(figure, left, top - 0.45, width * min(max(answer.probability, 0.0), 1.0), 0.035, _BAR)
    side = (width - 0.06) / 2
    for position, shown in enumerate((image, overlay(image, heat))):
        _picture(figure, left + position * (side + 0.06), top - 0.5 - side, side, shown)


def _colours(figure: Figure, width: float) -> None:
    """What the colours mean, at the foot."""
    from matplotlib import colormaps

    length, steps = min(1.6, width / 4), 64
    for step in range(steps):
        colour = colormaps["inferno"](step / (steps - 1))
        _fill(figure, _MARGIN + length * step / steps, 0.47, length / steps, 0.1, colour)
    _write(figure, _MARGIN + length + 0.1, 0.48, "no evidence → most evidence in this image", size=8.5)


def _fill(figure: Figure, left: float, bottom: float, width: float, height: float, colour: Any) -> None:
    from matplotlib.patches import Rectangle

    across, up = figure.get_size_inches()
    corner = left / across, bottom / up
    figure.add_artist(Rectangle(corner, width / across, height / up, transform=figure.transFigure, color=colour, lw=0))


def _picture(figure: Figure, left: float, bottom: float, side: float, image: np.ndarray) -> None:
    """In the middle of a square. Pixel by pixel: axes for each picture would take ten times as long."""
    import cv2

    room = round(side * _DPI)
    scale = room / max(image.shape[:2])
    height, width = (max(1, round(length * scale)) for length in image.shape[:2])
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    resized = cv2.resize(np.clip(image, 0, 1).astype(np.float32), (width, height), interpolation=method)
    colour = np.repeat(resized.reshape(height, width, -1), 3 // (resized.size // (height * width)), axis=-1)
    right, up = left * _DPI + (room - width) / 2, bottom * _DPI + (room - height) / 2
    figure.figimage(np.flipud(colour), xo=round(right), yo=round(up), origin="lower")


def _write(
    figure: Figure, left: float, bottom: float, text: str, *, size: float, colour: str = _INK, weight: str = "normal",
    align: str = "left", limit: int = 0,
) -> None:  # fmt: skip
    whole = figure.get_size_inches()
    shown = _shortened("".join(letter if letter.isprintable() else "?" for letter in text), limit or len(text))
    # parse_math: a file may be called $\frac$, and that is not a formula.
    figure.text(
        left / whole[0], bottom / whole[1], shown, size=size, color=colour, weight=weight, ha=align, parse_math=False
    )


def _shortened(text: str, limit: int) -> str:
    """The beginning and the end of what is too long: names of files differ at their end."""
    if len(text) <= limit:
        return text
    start = (limit - 1) // 2
    return f"{text[:start]}…{text[len(text) - (limit - 1 - start) :]}"


def _wrapped(text: str, limit: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, max(20, limit))
