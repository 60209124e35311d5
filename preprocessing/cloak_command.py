"""`python -m preprocessing.cloak IMAGES -o OUT`: a folder of images, cloaked as `preprocessing.cloak` says.

OUT/<name>.png     each image, in the side of --size, at most --epsilon grey levels off
OUT/losses.csv     file, start, end: the style loss against the target, or against the image as it was
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path

from preprocessing import command, style_inputs, style_outputs
from preprocessing.cloak_settings import CloakSettings
from preprocessing.files import check_distinct
from preprocessing.parser import Parser

NAME = "cloak"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 no image could be read, 2 wrong use, 3 stopped halfway."""
    options = _parser().parse_args(arguments)
    return command.run(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    default = CloakSettings()
    parser = Parser(
        prog=f"python -m preprocessing.{NAME}",
        description="Changes every image in a folder by a few grey levels so that its style looks like another to a "
        "network. Stands in for Mist, which needs a latent-diffusion model.",
    )
    parser.add_argument("images", metavar="IMAGES", type=Path, help="folder of images")
    table = style_outputs.TABLE
    parser.add_argument("-o", dest="out", metavar="OUT", type=Path, required=True, help=f"folder for PNGs and {table}")
    parser.add_argument(
        "--epsilon", type=_levels, default=default.epsilon, help="most a pixel changes, in grey levels (default 8)"
    )
    parser.add_argument("--steps", type=command.positive, default=default.steps, help="(default %(default)s)")
    parser.add_argument(
        "--target", metavar="FOLDER", type=Path, help="images of the style to move to (default: away from its own)"
    )
    style_inputs.add_flags(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    files = style_inputs.list_images(options.images)
    check_distinct((file, options.out / file.stem) for file in files)
    taken = {"images": options.images}
    if options.target is not None:
        styles = style_inputs.list_images(options.target)
        taken["target"] = options.target
    style_outputs.open_folder(options.out, taken)
    model, used = style_inputs.open_vgg(options)
    files, images = style_inputs.read_images(files, options.size, NAME)
    if images is None:
        return command.say(NAME, f"{options.images}: no image could be read", 1)

    from preprocessing import cloak, gram
    from preprocessing.progress import track

    targets = None
    if options.target is not None:
        _, examples = style_inputs.read_images(styles, options.size, NAME)
        if examples is None:
            return command.say(NAME, f"{options.target}: no image could be read", 1)
        measured = gram.grams(gram.taps(model), examples)
        targets = [level.mean(axis=0, keepdims=True) for level in measured]

    settings = CloakSettings(epsilon=options.epsilon, steps=options.steps)
    parts = cloak.batches(model, images, targets, settings)
    found = (one for cloaked, losses in parts for one in zip(cloaked, zip(*losses)))
    rows = []
    for (image, numbers), file in zip(track(found, len(files), NAME), files):
        style_outputs.write_png(options.out / f"{file.stem}.png", image)
        rows.append((f"{file.stem}.png", numbers))
    style_outputs.write_table(options.out, cloak.Losses._fields, rows)
    budget = f"at most {options.epsilon} grey levels off"
    print(f"{len(files)} images, {budget}, VGG-19 of width {options.width}, weights {used.label}: {options.out}")
    return 0


def _levels(text: str) -> int:
    """A flag's value, for argparse."""
    with contextlib.suppress(ValueError):
        if 0 <= int(text) <= 255:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of grey levels from 0 to 255")
