"""`python -m preprocessing.gram IMAGES -o grams.npz`: the styles of a folder of images, as one file to send."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from preprocessing import command, style_inputs
from preprocessing.errors import Rejected, UserError
from preprocessing.files import make_writable
from preprocessing.parser import Parser

NAME = "gram"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 no image could be read, 2 wrong use, 3 stopped halfway."""
    options = _parser().parse_args(arguments)
    return command.run(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=f"python -m preprocessing.{NAME}",
        description="Measures the Gram matrices of every image in a folder: their styles, without the images.",
    )
    parser.add_argument("images", metavar="IMAGES", type=Path, help="folder of images of one class")
    parser.add_argument("-o", dest="out", metavar="FILE", type=Path, required=True, help="the .npz to write")
    parser.add_argument("--label", metavar="NAME", help="the class (default: the folder's name)")
    style_inputs.add_flags(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    files = style_inputs.list_images(options.images)
    if options.out.is_dir():
        raise UserError(f"{options.out}: is a folder; give -o the name of a file")
    make_writable(options.out.parent)
    model, used = style_inputs.open_vgg(options)
    files, images = style_inputs.read_images(files, options.size, NAME)
    if images is None:
        return command.say(NAME, f"{options.images}: no image could be read", 1)

    from preprocessing import gram, gram_files

    label = options.label or options.images.resolve().name
    try:
        gram_files.save(options.out, gram.measure(model, images, label, used.label))
    except Rejected as rejected:
        raise UserError(str(rejected)) from None
    print(f"{len(files)} images of {label}, VGG-19 of width {options.width}, weights {used.label}: {options.out}")
    return 0
