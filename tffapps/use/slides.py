"""Heat maps over whole slides: tiles side by side, those with tissue predicted, their probabilities laid on the slide.

    OUT/<slide>.csv    one row a tile with tissue: x and y of its corner in pixels of the finest level, and its answer
    OUT/<slide>.png    the slide, and beside it the probability of one class; dots are tiles unlike the training images

A tile is a square of as many pixels as the network sees, at the magnification that is asked for.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import tensorflow as tf

from preprocessing.patches import Cut, Patch
from preprocessing.patches_command import PatchSettings, list_slides
from preprocessing.slides import Slide, open_slide
from tffapps.data import images, made
from tffapps.errors import Rejected, UserError
from tffapps.figures import Canvas
from tffapps.files import replacing
from tffapps.progress import track
from tffapps.use.bundle import NOT_A_DEVICE, Preprocess
from tffapps.use.predict import UNLIKE, Answer, Predictor, Table

_OUT = Path("predicted")
_SHOWN = 1500  # pixels of a figure's slide, on its longer side
_STRIP = 2**24  # pixels of a slide read at once for it


def predict(predictor: Predictor, options: argparse.Namespace) -> int:
    """Heat maps of all slides named; the exit status: 1 where a slide could not be used."""
    bundle, out = predictor.bundle, options.out or _OUT
    positive = bundle.classes[-1] if options.positive is None else options.positive
    if positive not in bundle.classes:
        raise UserError(f"--positive {positive}: no class of this bundle; choose from {', '.join(bundle.classes)}")
    side = options.tile or bundle.preprocess.size[0]
    level = 0 if options.magnification is None else None
    settings = PatchSettings(size=side, magnification=options.magnification, level=level)
    slides: dict[str, Path] = {}
    for given in options.images:
        slides |= list_slides(given, out)
    failed = 0
    for name, path in slides.items():
        try:
            with contextlib.closing(open_slide(path)) as slide:
                _one(predictor, slide, name, out, settings, options, positive)
        except UserError as error:
            failed += 1
            print(f"left out: {error}", file=sys.stderr)
    return 1 if failed else 0


def _one(
    predictor: Predictor,
    slide: Slide,
    name: str,
    out: Path,
    settings: PatchSettings,
    options: argparse.Namespace,
    positive: str,
) -> None:
    cut = Cut(slide, name, None, settings)
    code = predictor.bundle.classes.index(positive)
    heat, unlike = np.full(cut.grid, np.nan), np.zeros(cut.grid, bool)
    with replacing(out / f"{name}.csv") as file:
        table = Table(file, predictor.bundle.classes, ["x", "y", "tissue"], calibrated=not options.uncalibrated)
        tracked = track(_answers(predictor, cut, options.batch), cut.total, name, unit="tile")
        for place, (patch, answer) in enumerate(tracked):
            if answer is None:
                continue
            table.add([patch.x, patch.y, patch.tissue], answer)
            if answer.calibrated is not None and answer.probabilities is not None:
                shown = answer.probabilities if options.uncalibrated else answer.calibrated
                heat[divmod(place, cut.grid[1])] = shown[code]
                unlike[divmod(place, cut.grid[1])] = answer.warning == UNLIKE
    _draw(out / f"{name}.png", slide, heat, unlike, f"{name}: {positive}", cut.covered)
    count = int(np.isfinite(heat).sum())
    mean = f", mean probability of {positive} {np.nanmean(heat):.3f}" if count else ""
    print(
        f"{name}: {count} of {cut.total} tiles predicted{mean}; {out / name}.png, .csv; {NOT_A_DEVICE}", file=sys.stderr
    )


def _answers(predictor: Predictor, cut: Cut, batch: int) -> Iterator[tuple[Patch, Answer | None]]:
    """Every tile in order; None for one without tissue."""
    tiles = enumerate(cut.pictures())
    while group := list(itertools.islice(tiles, batch)):
        answers, places, pixels = dict[int, Answer](), list[int](), list[np.ndarray]()
        for place, (_, picture) in group:
            if picture is not None:
                try:
                    pixels.append(_seen(picture, predictor.bundle.preprocess))
                    places.append(place)
                except Rejected as rejected:
                    answers[place] = Answer(place, problem=str(rejected))
        if pixels:
            answers |= {answer.place: answer for answer in predictor.of_pixels(np.stack(pixels), places)}
        yield from ((patch, answers.get(place)) for place, (patch, _) in group)


def _seen(picture: np.ndarray, preprocess: Preprocess) -> np.ndarray:
    """uint8 RGB (side, side, 3) as the network sees it, prepared like a file of it."""
    if preprocess.steps or preprocess.channels == 1:
        image = images.decode(tf.constant(preprocess(made.encode(picture))), preprocess.channels, ("png",))
    else:
        image = tf.constant(picture, tf.float32) / 255.0
    return images.fit(image, preprocess.size).numpy()


def _draw(
    path: Path, slide: Slide, heat: np.ndarray, unlike: np.ndarray, title: str, covered: tuple[float, float]
) -> None:
    """`covered` is the share of the slide's width and height that the tiles cover."""
    picture = _thumbnail(slide)
    height, width = picture.shape[:2]
    high = 6 * height / width + 0.8
    with Canvas(path, 1, 2, width=6, height=min(high, 14), title=f"{title} · {NOT_A_DEVICE}") as canvas:
        left, right = canvas.axes[0]
        for axes in (left, right):
            axes.imshow(picture, extent=(0, width, height, 0))
            axes.set(xticks=[], yticks=[])
        right_edge, bottom = width * covered[0], height * covered[1]
        drawn = right.imshow(
            heat, extent=(0, right_edge, bottom, 0), vmin=0, vmax=1, cmap="coolwarm", alpha=0.6, interpolation="nearest"
        )
        rows, columns = np.nonzero(unlike)
        across, down = right_edge / heat.shape[1], bottom / heat.shape[0]
        right.scatter((columns + 0.5) * across, (rows + 0.5) * down, s=6, c="black")
        right.set(xlim=(0, width), ylim=(height, 0))
        right.figure.colorbar(drawn, ax=right, shrink=0.7)


def _thumbnail(slide: Slide) -> np.ndarray:
    """The slide, small: read strip by strip, because its coarsest level may be large."""
    level = _level(slide.levels)
    width, height = slide.levels[level]
    scale = min(1.0, _SHOWN / max(width, height))
    rows = max(1, round(height * scale))
    step = max(1, round(_STRIP / width * scale))  # rows of the result at once
    strips = []
    for first in range(0, rows, step):
        last = min(first + step, rows)
        top, bottom = round(first / scale), min(round(last / scale), height)
        strip = slide.read(level, 0, top, width, max(1, bottom - top))
        size = (max(1, round(width * scale)), last - first)
        strips.append(cv2.resize(strip, size, interpolation=cv2.INTER_AREA))
    return np.concatenate(strips)


def _level(levels: Sequence[tuple[int, int]]) -> int:
    """The coarsest that is large enough to be shown."""
    large = [level for level, sides in enumerate(levels) if max(sides) >= _SHOWN]
    return large[-1] if large else 0
