"""The model card of a bundle: `tffapps card BUNDLE [-o FOLDER]` writes card.md and card.html."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from preprocessing.parser import Parser
from tffapps import cli
from tffapps.files import replacing

_MODULE = "tffapps.use.card_command"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes a model card; returns the exit status."""
    parser = Parser(
        prog=cli.called_as("card", _MODULE), allow_abbrev=False,
        description="Writes the model card of a bundle, as Markdown and as one HTML file that needs no other.",
    )  # fmt: skip
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="the folder `bundle` of a finished run, or a copy")
    parser.add_argument("-o", dest="out", type=Path, metavar="FOLDER", help="for the card (default: the bundle's)")
    options = parser.parse_args(arguments)
    return cli.guarded("card", lambda: _work(options.bundle, options.out or options.bundle), module=_MODULE)


def _work(folder: Path, out: Path) -> None:
    cli.quiet()
    from tffapps.use import bundle
    from tffapps.use.card import card

    document = card(bundle.load(folder))
    texts = {"card.md": document.markdown(), "card.html": document.html()}
    for name, text in texts.items():
        with replacing(out / name, "wb") as file:
            file.write(text.encode())
    print(f"card: {', '.join(str(out / name) for name in texts)}")


if __name__ == "__main__":
    raise SystemExit(main())
