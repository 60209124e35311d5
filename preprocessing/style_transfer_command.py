"""`python -m preprocessing.style_transfer`: a folder of images in all the styles of a file of `preprocessing.gram`.

OUT/<content>_<class><number>.png   each image in each style; the number is the style's row in the file
OUT/losses.csv                      file, content_start, content_end, style_start, style_end (Eqs 2 and 6)
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from preprocessing import command, style_inputs, style_outputs
from preprocessing.errors import Rejected, UserError
from preprocessing.files import check_distinct
from preprocessing.parser import Parser
from preprocessing.style_settings import INITS, OPTIMIZERS, PRECISIONS, StyleSettings, settings_for

NAME = "style_transfer"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 no image could be read, 2 wrong use, 3 stopped halfway."""
    options = _parser().parse_args(arguments)
    return command.run(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    default = StyleSettings()
    parser = Parser(
        prog=f"python -m preprocessing.{NAME}",
        description="Gives every image in a folder every style of a file of Gram matrices.",
    )
    parser.add_argument("--content", metavar="FOLDER", type=Path, required=True, help="folder of images")
    parser.add_argument("--grams", metavar="FILE", type=Path, required=True, help="styles, of preprocessing.gram")
    table = style_outputs.TABLE
    parser.add_argument("-o", dest="out", metavar="OUT", type=Path, required=True, help=f"folder for PNGs and {table}")
    parser.add_argument("--init", choices=INITS, default=default.init, help="where to start (default %(default)s)")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default=default.optimizer, help="(default %(default)s)")
    parser.add_argument(
        "--precision", choices=PRECISIONS, default=default.precision, help="of VGG-19 (default %(default)s)"
    )
    parser.add_argument("--steps", type=command.positive, default=default.steps, help="(default %(default)s)")
    style_inputs.add_flags(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    files = style_inputs.list_images(options.content)
    check_distinct((file, options.out / file.stem) for file in files)
    style_outputs.open_folder(options.out, {"content": options.content})
    model, used = style_inputs.open_vgg(options)

    from preprocessing import gram, gram_files, style_transfer
    from preprocessing.progress import track

    try:
        grams = gram_files.load(options.grams, options.width, gram.fingerprint(model))
    except Rejected as rejected:
        raise UserError(str(rejected)) from None
    files, contents = style_inputs.read_images(files, options.size, NAME)
    if contents is None:
        return command.say(NAME, f"{options.content}: no image could be read", 1)

    settings = settings_for(
        used.kind, init=options.init, optimizer=options.optimizer, steps=options.steps, precision=options.precision
    )
    pairs = style_transfer.all_pairs(len(files), len(grams))
    parts = style_transfer.batches(model, contents, grams.matrices, pairs, settings, grams.positions)
    found = (one for images, losses in parts for one in zip(images, zip(*losses)))
    rows = []
    for (image, numbers), (row, style) in zip(track(found, len(pairs), NAME), pairs):
        name = f"{files[row].stem}_{grams.label}{style}.png"
        style_outputs.write_png(options.out / name, image)
        rows.append((name, numbers))
    style_outputs.write_table(options.out, style_transfer.Losses._fields, rows)
    print(f"{len(pairs)} images, VGG-19 of width {options.width}, weights {used.label}: {options.out}")
    return 0
