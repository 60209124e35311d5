"""Grains of micrographs by a trained U-Net: `tffapps segment BUNDLE MICROGRAPHS… [-o FOLDER] [--micron-per-pixel X]`

Of every micrograph a boundary mask, a label image and an overlay are written, and a row of `grains.csv`: counts,
diameters, intercept lengths, and with --micron-per-pixel the ASTM grain size number G. A file that cannot be read gets
one line on stderr and no row. Exit status 1 if there is such a file, 2 if nothing could be segmented.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from preprocessing import files
from preprocessing.parser import Parser
from tffapps import cli
from tffapps.errors import Rejected, UserError
from tffapps.files import short
from tffapps.progress import track

if TYPE_CHECKING:
    import numpy as np

    from tffapps.evaluation.grain_size import GrainSizes
    from tffapps.use.bundle import Bundle, Preprocess

_MODULE = "tffapps.use.segment"
METHODS = ("watershed", "cut")
AUTO = "auto"
TABLE = "grains.csv"
BOUNDARY = "boundary"  # the class of pixels between grains, as fedtransfer calls it
_MOST_PIXELS = 2**28  # of what the network is given: gigabytes, and hours


@dataclasses.dataclass(frozen=True)
class Options:
    """How grains are found in a map of boundaries, and in what unit they are measured."""

    micron_per_pixel: float | None = None
    least: int = 30  # pixels of a grain
    threshold: float | None = None  # None: each map's own
    method: str = METHODS[0]
    scale: float | None = None  # of what the network sees to the micrograph; None: as in training


def main(arguments: Sequence[str] | None = None) -> int:
    """Segments micrographs; returns the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)

    def work() -> int:
        options = Options(given.micron_per_pixel, given.min_grain, given.threshold, given.method, given.scale)
        micrographs = listed(given.micrographs, given.o)
        from tffapps.use import bundle

        loaded = bundle.load(given.bundle)
        if not loaded.segments:
            raise UserError(f"{given.bundle}: its model gives classes to images, not to pixels; use `tffapps predict`")
        if BOUNDARY not in loaded.classes:
            raise UserError(
                f"{given.bundle}: no class {BOUNDARY} among {', '.join(loaded.classes)}; take another bundle"
            )
        files.make_writable(given.o)
        cli.quiet()
        return _segment(loaded, micrographs, given.o, options)

    return cli.guarded("segment", work, module=_MODULE)


def _parser() -> Parser:
    parser = Parser(
        prog=cli.called_as("segment", _MODULE), description="Grains of micrographs by a trained U-Net, and their sizes",
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument(
        "bundle", type=Path, metavar="BUNDLE", help="folder of a trained model, of `tffapps fedtransfer`"
    )
    parser.add_argument(
        "micrographs", type=Path, nargs="+", metavar="MICROGRAPHS", help="image files, and folders of such"
    )
    parser.add_argument(
        "-o", type=Path, default=Path("segmented"), metavar="FOLDER", help="to write to (default segmented)"
    )
    parser.add_argument("--micron-per-pixel", type=_above_zero, metavar="X", help="for lengths in µm, and G")
    parser.add_argument(
        "--min-grain", type=_pixels, default=Options.least, metavar="N",
        help=f"pixels of a grain at least; smaller ones go to a neighbour (default {Options.least})",
    )  # fmt: skip
    parser.add_argument(
        "--threshold", type=_threshold, metavar=f"{AUTO}|X",
        help="how likely a boundary must be, 0 to 1; auto: Otsu's of each micrograph (default)",
    )  # fmt: skip
    parser.add_argument(
        "--method", choices=METHODS, default=Options.method,
        help="watershed closes gaps in boundaries (default); cut takes the parts that boundaries enclose without a gap",
    )  # fmt: skip
    parser.add_argument(
        "--scale", type=_above_zero, metavar="X",
        help="bring micrographs to this part of their size for the network (default: as tiles were in training)",
    )  # fmt: skip
    return parser


def listed(given: Sequence[Path], target: Path) -> dict[str, Path]:
    """The micrographs among files and folders, by the name of what is written of each."""
    found: list[tuple[Path, Path]] = []  # file, name
    for path in given:
        if path.is_dir():
            inside = [name for name in files.list_files(path, target) if name.suffix.lower() in files.SUFFIXES]
            found += [(path / name, name.with_suffix("")) for name in inside]
        elif path.exists():
            found.append((path, Path(path.stem)))
        else:
            raise UserError(f"{path}: no such file or folder; give micrographs")
    files.check_distinct(found)
    return {name.as_posix(): path for path, name in found}


def _segment(bundle: Bundle, micrographs: Mapping[str, Path], target: Path, options: Options) -> int:
    from tffapps.use import micrograph

    predict = micrograph.network(bundle.model(), bundle.preprocess.channels, bundle.classes.index(BOUNDARY))
    rows: list[dict[str, Any]] = []
    try:
        for name, path in track(micrographs.items(), len(micrographs), "micrographs"):
            try:
                image = micrograph.read(path)
                scale = options.scale or _scale(bundle.preprocess, image)
                _check_size(image, scale)
            except Rejected as rejected:
                print(UserError(f"{short(str(path))}: left out: {rejected}"), file=sys.stderr)
                continue
            boundary = micrograph.boundary_map(image, predict, bundle.preprocess.size, scale)
            labels, threshold = divided(boundary, options)
            micrograph.write(target / name, image, labels)
            rows.append({"micrograph": name, **_sizes(labels, threshold, options)})
    finally:  # also of what was done before Ctrl-C
        if rows:
            _write(target / TABLE, rows)
    if not rows:
        raise UserError("none of the micrographs could be read; nothing was written")
    for line in summary(rows, options):
        print(line)
    print(f"masks, labels, overlays and {TABLE}: {target}")
    return 1 if len(rows) < len(micrographs) else 0


def _scale(preprocess: Preprocess, image: np.ndarray) -> float:
    """How much smaller the network saw micrographs in training: tiles were cut, then brought to its size."""
    if preprocess.tile is None:
        return 1.0
    return preprocess.size[0] / (preprocess.tile or min(image.shape[:2]))


def _check_size(image: np.ndarray, scale: float) -> None:
    high, wide = (round(side * scale) for side in image.shape[:2])
    if high * wide > _MOST_PIXELS:
        raise Rejected(f"too large: {wide} × {high} pixels at --scale {scale:g}, at most {_MOST_PIXELS} in all")


def divided(boundary: np.ndarray, options: Options) -> tuple[np.ndarray, float]:
    """The grains of a map of boundaries, numbered, and the threshold that was used."""
    from tffapps.use import watershed

    threshold = watershed.automatic_threshold(boundary) if options.threshold is None else options.threshold
    way = watershed.grains_by_watershed if options.method == "watershed" else watershed.grains_by_cut
    return way(boundary, threshold, options.least), threshold


def _sizes(labels: np.ndarray, threshold: float, options: Options) -> dict[str, Any]:
    from tffapps.evaluation import grain_size

    sizes = grain_size.measure(labels)
    about = {"width": labels.shape[1], "height": labels.shape[0], "method": options.method, "threshold": threshold}
    return {**about, **row_of(sizes, options.micron_per_pixel)}


def row_of(sizes: GrainSizes, micron_per_pixel: float | None) -> dict[str, float]:
    """The numbers of one micrograph as columns: in µm where the size of a pixel is known, with G; else in pixels."""
    from tffapps.evaluation.grain_size import DIRECTIONS, HORIZONTAL, PERCENTILES, VERTICAL

    unit, length = ("um", micron_per_pixel) if micron_per_pixel else ("px", 1.0)
    row: dict[str, float] = {"whole_grains": sizes.whole, "cut_grains": sizes.cut, "grains": sizes.count}
    row[f"mean_area_{unit}2"] = sizes.mean_area * length**2
    row |= {f"area_p{part}_{unit}2": area * length**2 for part, area in zip(PERCENTILES, sizes.areas)}
    row |= {f"diameter_p{part}_{unit}": each * length for part, each in zip(PERCENTILES, sizes.diameters)}
    row[f"intercept_{unit}"] = sizes.mean_intercept * length
    for name, step in (("horizontal", HORIZONTAL), ("vertical", VERTICAL)):
        row[f"intercept_{name}_{unit}"] = sizes.intercepts[DIRECTIONS.index(step)] * length
    if micron_per_pixel:
        row["G_intercepts"] = sizes.number_from_intercepts(micron_per_pixel)
        row["G_areas"] = sizes.number_from_areas(micron_per_pixel)
    return row


def summary(rows: Sequence[Mapping[str, Any]], options: Options) -> list[str]:
    """What all micrographs say together: a mean over fields and its 95 % interval, as E112 asks for."""
    import numpy as np

    from tffapps.evaluation import grain_size

    unit, shown = ("um", "µm") if options.micron_per_pixel else ("px", "pixels")
    grains = f"{len(rows)} micrographs, {sum(row['whole_grains'] for row in rows)} whole grains"
    intercepts = np.array([row[f"intercept_{unit}"] for row in rows])
    intercepts = intercepts[np.isfinite(intercepts)]
    if not len(intercepts):
        return [f"{grains}; no boundary was found in any of them: is the model for such micrographs?"]
    mean = float(intercepts.mean())
    line = f"{grains}: mean intercept {mean:.4g} {shown}"
    if len(intercepts) > 1:
        half = _half_interval(intercepts)
        line += f" ± {half:.2g} (95 % of the mean, {100 * half / mean:.0f} %)"
    if options.micron_per_pixel:
        areas = np.array([row["mean_area_um2"] for row in rows])
        by_area = grain_size.number_of_area(float(1 / np.mean(1 / areas[np.isfinite(areas)])))
        line += f", ASTM G {grain_size.number_of_intercept(mean):.1f} by intercepts, {by_area:.1f} by areas"
    return [line]


def _half_interval(values: np.ndarray) -> float:
    from scipy import stats

    return float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    import pandas as pd

    from tffapps.results import write_table

    write_table(path, pd.DataFrame(rows))


def _above_zero(text: str) -> float:
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _threshold(text: str) -> float | None:
    if text == AUTO:
        return None
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a number between 0 and 1")
    return value


def _pixels(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


if __name__ == "__main__":
    sys.exit(main())
