"""A contact sheet: each picture asked about, and beside it the artists it may be by, with some of their public work."""

import pathlib
from typing import Any

import numpy as np

from tffapps import replacing
from tffapps.fedstyle.asked import Answers
from tffapps.fedstyle.data import pictures_of
from tffapps.fedstyle.global_model import square
from tffapps.files import original

ROWS = 8  # on a sheet
_SIDE, _SAMPLE, _GAP, _MARGIN = 148, 64, 14, 32
_CARD = 3 * _SAMPLE + 2 * 4  # three samples in a line
_PAPER, _CARDS, _INK, _QUIET = (250, 248, 244), (255, 255, 255), (34, 34, 40), (128, 124, 118)
_RIGHT, _BAR, _TRACK = (36, 138, 92), (70, 96, 170), (226, 224, 218)


def draw(folder: pathlib.Path, answers: Answers, top: int, by: str = "probability") -> list[pathlib.Path]:
    """Writes sheet-1.png, sheet-2.png, … and returns their paths."""
    files = []
    for number, start in enumerate(range(0, len(answers.paths), ROWS), start=1):
        picture = _page(answers, range(start, min(start + ROWS, len(answers.paths))), top, by)
        files.append(folder / f"sheet-{number}.png")
        with replacing(files[-1], "wb") as file:
            picture.save(file, format="PNG")
    return files


def _page(answers: Answers, rows: range, top: int, by: str) -> Any:
    from PIL import Image, ImageDraw

    order = answers.ranking(by)[:, :top]
    row_height = _SIDE + 28 + _GAP
    width = 2 * _MARGIN + _SIDE + order.shape[1] * (_CARD + 2 * _GAP) + _GAP
    height = 2 * _MARGIN + 44 + len(rows) * row_height
    page = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(page)
    title, large = "Whose hand is it?", _font(22, bold=True)
    pen.text((_MARGIN, _MARGIN - 6), title, _INK, font=large)
    explained = "likeliest artists first, with public pictures of theirs" + (", by style" if by == "style" else "")
    pen.text((_MARGIN + pen.textlength(title, font=large) + _GAP, _MARGIN + 1), explained, _QUIET, font=_font(14))
    pictures = _pictures([answers.paths[row] for row in rows])
    for line, row in enumerate(rows):
        y = _MARGIN + 44 + line * row_height
        page.paste(Image.fromarray(pictures[line]), (_MARGIN, y))
        pen.text(
            (_MARGIN, y + _SIDE + 5), _cut(pathlib.Path(original(answers.paths[row])).name, 20), _QUIET, font=_font(12)
        )
        for rank, index in enumerate(order[row]):
            x = _MARGIN + _SIDE + 2 * _GAP + rank * (_CARD + 2 * _GAP)
            _card(page, pen, answers, (row, int(index)), (x, y))
    return page


def _card(page: Any, pen: Any, answers: Answers, cell: tuple[int, int], corner: tuple[int, int]) -> None:
    """`cell`: the picture's row, and the artist's position in the model's list."""
    from PIL import Image

    (row, index), (x, y), model = cell, corner, answers.model
    right = answers.known[row] == model.artists[index]
    box = (x - _GAP // 2, y, x + _CARD + _GAP // 2, y + _SIDE)
    pen.rounded_rectangle(box, 8, _CARDS, _RIGHT if right else _TRACK, 3 if right else 1)
    for number, sample in enumerate(model.samples[index]):
        page.paste(Image.fromarray(sample), (x + number * (_SAMPLE + 4), y + 8))
    text_y = y + _SAMPLE + 16
    pen.text((x, text_y), _cut(model.artists[index], 24), _RIGHT if right else _INK, font=_font(14, bold=True))
    share = float(answers.probabilities[row, index])
    pen.rounded_rectangle((x, text_y + 24, x + _CARD, text_y + 32), 4, _TRACK)
    if share * _CARD >= 1:
        pen.rounded_rectangle((x, text_y + 24, x + max(8, share * _CARD), text_y + 32), 4, _RIGHT if right else _BAR)
    cosine = answers.cosines[row, index]
    near = "" if np.isnan(cosine) else f"   style {cosine:.2f}"
    pen.text((x, text_y + 38), f"{share:.0%}{near}", _QUIET, font=_font(13))


def _pictures(paths: list[str]) -> list[np.ndarray]:
    blank, readable = np.full((_SIDE, _SIDE, 3), 235, np.uint8), pictures_of(paths)
    return [square(readable.get(position, blank), _SIDE) for position in range(len(paths))]


def _font(size: int, bold: bool = False) -> Any:
    import matplotlib
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(pathlib.Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), size)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
