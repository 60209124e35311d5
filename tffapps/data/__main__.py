"""`python -m tffapps.data FOLDER_OR_MANIFEST --for plfl`: is it fit for a run?"""

import pathlib
import sys
from collections.abc import Sequence

from preprocessing.parser import Parser
from tffapps import cli, systems


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(
        prog=cli.called_as("data"),
        description="Reads a folder or a manifest as an application would, and says what is in it. Nothing is trained.",
        epilog="Flags of the application may follow and count as in a run: --profile, --methods, --tile, --artists, …",
        allow_abbrev=False,
    )
    parser.add_argument(
        "data", type=pathlib.Path, metavar="FOLDER_OR_MANIFEST", help="what the run will be given as --data"
    )
    known = list(systems.packages())
    parser.add_argument("--for", dest="app", required=True, choices=known, help="the system: tffapps.…")
    options, flags = parser.parse_known_args(arguments)
    return cli.guarded("data", lambda: _work(options.app, options.data, flags))


def _work(name: str, data: pathlib.Path, arguments: Sequence[str]) -> None:
    app = systems.find(name)
    flags = cli.parse(app, [*arguments, "--data", str(data)])
    cli.quiet()

    from tffapps.data import check  # imports pandas, and TensorFlow when it looks

    print(check.report(app.part("data").look(flags)))
    print(f"fit for tffapps.{name}")


if __name__ == "__main__":
    sys.exit(main())
