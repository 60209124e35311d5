"""`python -m preprocessing.pix2pix`: trains a generator of a folder of images from a folder of their labels.

OUT/generator.npz   the generator, ready to be sent (`preprocessing.generator_files`)
OUT/…               checkpoint, losses and samples (`preprocessing.pix2pix_folder`); the same command goes on from there
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path

from models.names import GENERATORS
from preprocessing import command
from preprocessing.errors import Rejected, UserError
from preprocessing.files import make_writable
from preprocessing.parser import Parser
from preprocessing.pix2pix_settings import HD, PRECISIONS, Pix2PixSettings, settings_for

NAME = "pix2pix"
FILE = "generator.npz"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 no pair could be read, 2 wrong use, 3 stopped halfway."""
    options = _parser().parse_args(arguments)
    return command.run(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    default = Pix2PixSettings()
    parser = Parser(
        prog=f"python -m preprocessing.{NAME}", description="Learns to paint images from labels of their boundaries."
    )
    parser.add_argument("--images", metavar="FOLDER", type=Path, required=True, help="folder of images")
    parser.add_argument("--labels", metavar="FOLDER", type=Path, required=True, help="their labels, of the same names")
    parser.add_argument("-o", dest="out", metavar="OUT", type=Path, required=True, help=f"folder for {FILE} and more")
    parser.add_argument("--generator", choices=GENERATORS, default=default.generator, help="(default %(default)s)")
    for name in ("epochs", "batch", "width"):
        value = getattr(default, name)
        parser.add_argument(f"--{name}", type=command.positive, default=value, help="(default %(default)s)")
    parser.add_argument("--size", type=command.positive, help="images' side, in pixels (default: as they are)")
    parser.add_argument("--channels", type=int, choices=(1, 3), default=3, help="grey or colour (default 3)")
    l1_help = f"weight of the L1 loss (default {default.l1:g}, with hd {HD['l1']:g})"
    parser.add_argument("--l1", type=_weight, metavar="WEIGHT", help=l1_help)
    parser.add_argument("--every", type=command.positive, default=default.every, help="epochs between checkpoints")
    parser.add_argument("--precision", choices=PRECISIONS, default=PRECISIONS[0], help=f"of {FILE} (default float32)")
    parser.add_argument("--seed", type=_seed, default=default.seed, help="(default %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="do not go on from a checkpoint in OUT")
    return parser


def _weight(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")


def _seed(text: str) -> int:
    with contextlib.suppress(ValueError):
        if int(text) >= 0:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")


def _run(options: argparse.Namespace) -> int:
    from preprocessing import pix2pix_inputs

    pairs = pix2pix_inputs.list_pairs(options.images, options.labels)
    if options.out.exists() and not options.out.is_dir():
        raise UserError(f"{options.out}: is there and is not a folder; choose another OUT")
    if options.out.resolve() in (options.images.resolve(), options.labels.resolve()):
        raise UserError(f"{options.out}: holds the images or the labels; choose another OUT")
    make_writable(options.out)
    found = pix2pix_inputs.read_pairs(pairs, options.size, options.channels, NAME)
    if found is None:
        return command.say(NAME, f"{options.images}: no pair could be read", 1)
    images, labels, boundary = found

    from preprocessing import generator_files
    from preprocessing.pix2pix_folder import train_in

    changes = {name: getattr(options, name) for name in ("epochs", "batch", "width", "every", "seed")}
    if options.l1 is not None:
        changes["l1"] = options.l1
    settings = settings_for(options.generator, **changes)
    training = train_in(options.out, images, labels, settings, fresh=options.fresh)
    try:
        generator_files.save(options.out / FILE, training.generator, options.precision)
    except Rejected as rejected:
        raise UserError(str(rejected)) from None
    size = (options.out / FILE).stat().st_size
    print(
        f"{len(images)} pairs with {boundary} boundaries, {settings.generator} of width {settings.width}, "
        f"{training.epoch} epochs, L1 {training.record[-1].l1:.4f}: {options.out / FILE}, {options.precision}, "
        f"{size / 1e6:.2f} MB"
    )
    return 0
