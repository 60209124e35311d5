"""Predicting images with a bundle: `tffapps predict BUNDLE IMAGES… [-o out.csv]`

IMAGES are files, folders of them, or CSV files with a column path. Every image gets a row: the answer (a class, or
"unsure"), calibrated probabilities, and a warning where it is unlike the training images or could not be used.
With --slides they are whole slides: each gets a heat map and a CSV of its tiles.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from preprocessing.parser import Parser
from tffapps import cli
from tffapps.errors import UserError
from tffapps.files import replacing
from tffapps.progress import track
from tffapps.use import EXPLANATIONS

if TYPE_CHECKING:
    import numpy as np

_MODULE = "tffapps.use.predict_command"


def main(arguments: Sequence[str] | None = None) -> int:
    """Predicts images; returns the exit status: 1 where some could not be used."""
    options = _parser().parse_args(arguments)
    return cli.guarded("predict", lambda: _run(options), module=_MODULE)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=cli.called_as("predict", _MODULE), allow_abbrev=False,
        description="Predicts images with the bundle of a finished run. Not a medical device.",
    )  # fmt: skip
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="the folder `bundle` of a finished run, or a copy")
    parser.add_argument(
        "images", metavar="IMAGES", nargs="+", type=Path, help="files, folders of them, or a CSV with the column path"
    )
    parser.add_argument("-o", dest="out", type=Path, metavar="OUT", help="the CSV; with --slides a folder (predicted)")
    parser.add_argument("--model", choices=("last", "chosen"), default="", help="default: the one validation chose")
    parser.add_argument("--unsure-below", type=float, metavar="P", help="instead of the threshold of the bundle")
    parser.add_argument("--uncalibrated", action="store_true", help="probabilities as the network has them")
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="images at once (default %(default)s)")
    parser.add_argument(
        "--explain",
        choices=EXPLANATIONS,
        default="",
        help="draw where in each image the evidence is: contact sheets (PNG)",
    )
    slides = parser.add_argument_group("whole slides")
    slides.add_argument("--slides", action="store_true", help="IMAGES are slides: heat maps and tables of tiles")
    slides.add_argument("--magnification", type=float, metavar="M", help="of the tiles; default: the finest level")
    slides.add_argument("--tile", type=int, metavar="N", help="pixels of a tile's side; default: as the network sees")
    slides.add_argument("--positive", metavar="CLASS", help="whose probability is drawn; default: the last class")
    return parser


def _run(options: argparse.Namespace) -> int:
    _check(options)
    cli.quiet()
    from tffapps.use import bundle, images
    from tffapps.use.explained import Sheets
    from tffapps.use.predict import Answer, Predictor, Table, Tally

    paths = [] if options.slides else images.listed(options.images)
    predictor = Predictor(bundle.load(options.bundle), options.model, options.unsure_below)
    print(f"{options.bundle}: {predictor.decision.told}", file=sys.stderr)
    if options.slides:
        from tffapps.use import slides

        return slides.predict(predictor, options)
    tally = Tally()
    sheets = Sheets(predictor, options.explain, _sheet(options), calibrated=not options.uncalibrated)

    def watch(pixels: np.ndarray, answers: list[Answer]) -> None:
        sheets.add(pixels, answers, [paths[answer.place] for answer in answers])

    with _written(options.out) as file:
        table = Table(file, predictor.bundle.classes, ["image"], calibrated=not options.uncalibrated)
        answers = predictor.of_files(paths, options.batch, watch if options.explain else None)
        for answer in track(answers, len(paths), "predicting"):
            table.add([paths[answer.place]], answer)
            tally.add(answer)
            if answer.problem:
                print(UserError(f"left out: {paths[answer.place]}: {answer.problem}"), file=sys.stderr)  # one line
        sheets.finish()
    drawn = f"; sheets: {', '.join(map(str, sheets.paths))}" if sheets.paths else ""
    print(tally.told + (f"; table: {options.out}" if options.out else "") + drawn, file=sys.stderr)
    return 1 if tally.problems else 0


def _check(options: argparse.Namespace) -> None:
    if options.unsure_below is not None and not 0 <= options.unsure_below <= 1:
        raise UserError(f"--unsure-below {options.unsure_below}: must be from 0 to 1")
    if options.batch < 1:
        raise UserError(f"--batch {options.batch}: must be 1 or more")
    if options.tile is not None and options.tile < 1:
        raise UserError(f"--tile {options.tile}: must be 1 or more pixels")
    if options.magnification is not None and not 0 < options.magnification <= 100:
        raise UserError(f"--magnification {options.magnification}: must be above 0 and at most 100")
    if options.explain and options.slides:
        raise UserError("--explain: not with --slides, which are drawn as heat maps of tiles; leave one of them out")
    for flag in ("magnification", "tile", "positive"):
        if getattr(options, flag) is not None and not options.slides:
            raise UserError(f"--{flag}: only with --slides; add it, or leave --{flag} out")


def _sheet(options: argparse.Namespace) -> Path:
    """The first sheet's file: beside the table, or in the working folder."""
    table: Path = options.out or Path("predicted.csv")
    return table.with_name(f"{table.stem}-{options.explain}.png")


@contextlib.contextmanager
def _written(out: Path | None) -> Iterator[IO[str]]:
    """A file that is there whole or not at all, or the standard output."""
    if out is None:
        yield sys.stdout
        return
    with replacing(out) as file:
        yield file


if __name__ == "__main__":
    raise SystemExit(main())
