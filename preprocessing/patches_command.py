"""`python -m preprocessing.patches SLIDE_OR_FOLDER OUT`: the patches of one slide or of every slide in a folder.

    OUT/<slide>/<slide>_<x>_<y>.png    the patches with tissue; x and y are pixels of the finest level
    OUT/<slide>.csv                    file, x, y, level, tissue, kept: every patch looked at, the dropped ones too
    OUT/settings.json                  how they were cut; patches cut otherwise are not mixed with them
    OUT/manifest.csv                   with --annotations: path, label, client, subject, for `--data` of a system

Every file appears whole or not at all, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import importlib.util
import io
import json
import logging
import math
import os
from collections.abc import Sequence
from pathlib import Path

from preprocessing import command
from preprocessing.errors import UserError
from preprocessing.files import make_writable, write
from preprocessing.label_settings import LabelRule
from preprocessing.parser import Parser
from preprocessing.progress import track

NAME = "patches"
SETTINGS, MANIFEST = "settings.json", "manifest.csv"
TIFF_SUFFIXES = (".svs", ".tif", ".tiff")
OPENSLIDE_SUFFIXES = (".bif", ".mrxs", ".ndpi", ".scn", ".svslide", ".vms", ".vmu")  # only OpenSlide reads these


@dataclasses.dataclass(frozen=True)
class PatchSettings:
    """How a slide is cut; where nothing is said, the values are our choice."""

    size: int = 256  # pixels, of a patch's side; FedSDA: 256 (AGGC22, MITOS-ATYPIA-14), 96 (CAMELYON17)
    magnification: float | None = 20.0  # FedSDA: 20 (AGGC22), 40 (MITOS-ATYPIA-14), 10 (CAMELYON17)
    level: int | None = None  # a level of the file's pyramid, 0 the finest, in place of a magnification
    tissue: float = 0.5  # share of a patch's pixels that must show tissue
    limit: int | None = None  # patches to keep of a slide, taken at random; None keeps all

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is {self.size}; it must be above 0")
        if (self.magnification is None) == (self.level is None):
            raise ValueError("give either a magnification or a level")
        if self.magnification is not None and not 0 < self.magnification < math.inf:
            raise ValueError(f"magnification is {self.magnification}; it must be above 0")
        if self.level is not None and self.level < 0:
            raise ValueError(f"level is {self.level}; the finest is 0")
        if not 0 <= self.tissue <= 1:
            raise ValueError(f"tissue is {self.tissue}; it is a share, between 0 and 1")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit is {self.limit}; it must be above 0")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 done but some slide could not be read or gave nothing, 2 wrong use, 3 stopped."""
    options = _parser().parse_args(arguments)
    return command.run(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    default = PatchSettings()
    parser = Parser(
        prog=f"python -m preprocessing.{NAME}",
        description="Cuts whole slides into square patches and keeps those that show tissue.",
    )
    parser.add_argument("source", metavar="SLIDE_OR_FOLDER", type=Path, help="a slide, or a folder of slides")
    parser.add_argument("target", metavar="OUT", type=Path, help="folder for the patches, one folder for each slide")
    parser.add_argument("--size", type=int, default=default.size, help="pixels of a side (default %(default)s)")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--magnification", type=float, metavar="X", help=f"(default {default.magnification:g})")
    scale.add_argument("--level", type=int, metavar="N", help="level of the pyramid instead; 0 is the finest")
    parser.add_argument(
        "--tissue",
        type=float,
        default=default.tissue,
        metavar="SHARE",
        help="keep patches of which at least this share is tissue (default %(default)s)",
    )
    rule = parser.add_argument_group("classes, from what is marked on slides (ASAP's XML, or masks)")
    rule.add_argument("--annotations", type=Path, metavar="FOLDER", help="a file or a folder for each slide")
    rule.add_argument("--tumour", default="", metavar="A,B", help="groups or classes that are tumour")
    rule.add_argument("--without", default="", metavar="A,B", help="what is cut out of these again")
    rule.add_argument("--share", type=float, default=0.5, help="of a patch that must be tumour (default %(default)s)")
    rule.add_argument("--marked-only", action="store_true", help="normal is what is marked as something else alone")
    rule.add_argument(
        "--specimen",
        default="",
        metavar="REGEX",
        help="what in a slide's name is the same on all scanners, in brackets",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="patches to keep of each slide, taken at random")
    return parser


def _run(options: argparse.Namespace) -> int:
    magnification = options.magnification
    if magnification is None and options.level is None:
        magnification = PatchSettings.magnification
    try:
        settings = PatchSettings(options.size, magnification, options.level, options.tissue, options.limit)
    except ValueError as error:
        raise UserError(f"--{error}") from None
    rule = _rule(options)
    slides = list_slides(options.source, options.target)
    make_writable(options.target)
    _settle(options.target, settings)
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)  # what it has to say comes as an exception too
    kept = dropped = failed = 0
    manifest: list[tuple[str, ...]] = []
    classes: set[str] = set()
    for name, path in slides.items():
        try:
            mine, others, labels, marked = _cut(name, path, options.target, settings, options.annotations, rule)
        except UserError as error:
            if len(slides) == 1:
                raise
            failed += 1
            command.say(NAME, f"left out: {error}", 1)
            continue
        print(f"{name}: {mine} patches kept, {others} dropped", flush=True)
        kept, dropped = kept + mine, dropped + others
        if rule:
            classes |= set(marked)
            client = _client(path, options.source)
            manifest += [(file, label, client, rule.specimen_of(name)) for file, label in labels]
    if rule:
        _check_classes(rule, classes)
        _write_manifest(options.target / MANIFEST, manifest, kept)
    print(f"{len(slides)} slides: {kept} patches kept, {dropped} dropped, {failed} slides left out")
    if not kept:
        return command.say(NAME, f"no patch was kept; is --tissue {settings.tissue:g} too high?", 1)
    return 1 if failed else 0


def list_slides(source: Path, target: Path) -> dict[str, Path]:
    """The slides by name: one file, or all in a folder and its sub-folders."""
    if os.path.lexists(target) and not target.is_dir():
        raise UserError(f"{target}: is there and is not a folder; choose another OUT")
    if source.is_file():
        return {source.stem: source}
    if not source.is_dir():
        raise UserError(f"{source}: does not exist; give a slide or a folder of slides")
    first, second = source.resolve(), target.resolve()
    if first == second or second in first.parents:
        raise UserError(f"{target}: must not hold the slides; choose another OUT")
    suffixes = TIFF_SUFFIXES + (OPENSLIDE_SUFFIXES if importlib.util.find_spec("openslide") else ())
    slides: dict[str, Path] = {}
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name[0] != "." and (Path(folder) / name).resolve() != second)
        for path in (Path(folder) / name for name in sorted(names)):
            if path.suffix.lower() not in suffixes or path.name.startswith("."):
                continue
            if path.stem in slides:
                raise UserError(f"{slides[path.stem]} and {path} have one name; rename one")
            slides[path.stem] = path
    if not slides:
        raise UserError(f"{source}: no slides in it or its sub-folders; looked for {' '.join(suffixes)}")
    return slides


def _settle(target: Path, settings: PatchSettings) -> None:
    """Notes how the patches are cut, or finds that others are there that were cut in another way."""
    mine = {name: value for name, value in dataclasses.asdict(settings).items() if name != "limit"}
    file = target / SETTINGS
    if not file.exists():
        write(file, (json.dumps(mine, indent=1) + "\n").encode())
        return
    try:
        there = json.loads(file.read_text())
        differs = [name for name in mine if there[name] != mine[name]]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{file}: not the settings of patches; choose another OUT") from None
    if differs:
        were = ", ".join(f"{name} {there[name]}" for name in differs)
        raise UserError(f"{target}: holds patches cut with {were}; give the same or choose another OUT")


def _cut(
    name: str, path: Path, target: Path, settings: PatchSettings, annotations: Path | None, rule: LabelRule | None
) -> tuple[int, int, list[tuple[str, str]], tuple[str, ...]]:
    """How many of a slide's patches were kept and dropped; its table is written once all of its patches are.

    And with a rule the classes of those kept, and what is marked on the slide.
    """
    from preprocessing import patches, slide_labels, slides  # here, because they need OpenCV

    table = target / f"{name}.csv"
    with contextlib.closing(slides.open_slide(path)) as slide:
        cut = patches.Cut(slide, name, target, settings)
        marked = None
        if rule and annotations:
            marked = slide_labels.of_slide(annotations, name, slide.levels[0][0], cut.reach)
            if marked is None:
                raise UserError(f"{annotations}: has nothing for the slide {name}; add {name}.xml or a mask")
        rows = patches.read_table(table, target)
        if not cut.is_complete(rows):
            rows = sorted(track(cut.run(), cut.total, name, unit="patch"), key=lambda row: (row.y, row.x))
            patches.write_table(table, rows)
    kept = [(row.file, row.x, row.y) for row in rows if row.kept]
    labels = slide_labels.labelled(kept, marked, cut.reach, rule) if marked and rule else []
    return len(kept), len(rows) - len(kept), labels, marked.classes if marked else ()


def _rule(options: argparse.Namespace) -> LabelRule | None:
    if options.annotations is None:
        if options.tumour:
            raise UserError(f"--tumour {options.tumour}: classes are read from marks; add --annotations FOLDER")
        return None
    if not options.annotations.is_dir():
        raise UserError(f"--annotations {options.annotations}: no such folder")
    tumour, without = (
        tuple(name for name in text.split(",") if name) for text in (options.tumour, options.without)
    )  # fmt: skip
    try:
        return LabelRule(tumour, without, options.share, options.marked_only, options.specimen)
    except ValueError as error:
        raise UserError(str(error)) from None


def _check_classes(rule: LabelRule, marked: set[str]) -> None:
    """Names of which none is on any slide would make every patch normal."""
    for flag, names in (("tumour", rule.tumour), ("without", rule.without)):
        if names and marked and not marked & set(names):
            raise UserError(f"--{flag} {','.join(names)}: marked on no slide; there are {', '.join(sorted(marked))}")


def _client(path: Path, source: Path) -> str:
    """The folder below the source that a slide is in: a scanner or a centre; else the source itself."""
    inside = path.relative_to(source).parts if source.is_dir() else ()
    return inside[0] if len(inside) > 1 else (source if source.is_dir() else source.parent).resolve().name


def _write_manifest(file: Path, rows: Sequence[tuple[str, ...]], kept: int) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("path", "label", "client", "subject"), *rows])
    write(file, text.getvalue().encode())
    labels = [label for _, label, *_ in rows]
    counts = ", ".join(f"{labels.count(label)} {label}" for label in ("normal", "tumour"))
    print(f"{file}: {counts}, {kept - len(rows)} neither for certain")
