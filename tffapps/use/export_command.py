"""A bundle's network for other programs: `tffapps export BUNDLE --to keras|savedmodel|tflite|onnx -o FILE`

The file is played back and compared with the bundle on made images, and on those that --check names, before it is
there. Beside it FILE.json says what it takes, what its classes are and what it was compared on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from preprocessing.parser import Parser
from tffapps import cli

_MODULE = "tffapps.use.export_command"
_FORMATS = ("keras", "savedmodel", "tflite", "onnx")


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the file; returns the exit status."""
    options = _parser().parse_args(arguments)
    return cli.guarded("export", lambda: _run(options), module=_MODULE)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=cli.called_as("export", _MODULE), allow_abbrev=False,
        description="Writes the network of a bundle for other programs, and checks what was written.",
    )  # fmt: skip
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="the folder `bundle` of a finished run, or a copy")
    parser.add_argument("--to", required=True, choices=_FORMATS, help="the format; onnx needs requirements-export.txt")
    parser.add_argument("-o", dest="out", required=True, type=Path, metavar="FILE", help="savedmodel: a new folder")
    parser.add_argument("--model", choices=("last", "chosen"), default="", help="default: the one validation chose")
    parser.add_argument(
        "--check", nargs="+", type=Path, default=[], metavar="IMAGES", help="compare on these too: as for predict"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    cli.quiet()
    from tffapps.use import bundle, images
    from tffapps.use.export import export

    paths = images.listed(options.check)
    done = export(bundle.load(options.bundle), options.to, options.out, which=options.model, images=paths)
    print(f"{done.path}: largest difference to the bundle {done.difference:.2g} on {done.images} images; {done.beside}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
