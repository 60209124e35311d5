"""`python -m tffapps.data FOLDER_OR_MANIFEST --for plfl [--expect oai]`: is it fit for a run, is it the paper's set?"""

import pathlib
import sys
from collections.abc import Sequence

from preprocessing.parser import Parser
from tffapps import cli, systems
from tffapps.data import expected
from tffapps.errors import UserError


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
    parser.add_argument(
        "--expect", choices=list(expected.SETS), help="a paper's own set: its counts are compared with what is found"
    )
    options, flags = parser.parse_known_args(arguments)
    return cli.guarded("data", lambda: _work(options.app, options.data, flags, options.expect))


def _work(name: str, data: pathlib.Path, arguments: Sequence[str], expect: str | None) -> None:
    published = expected.SETS[expect] if expect else None
    if published and published.system != name:
        raise UserError(f"--expect {expect}: a set of tffapps.{published.system}; give --for {published.system}")
    app = systems.find(name)
    flags = cli.parse(app, [*arguments, "--data", str(data)])
    cli.quiet()

    from tffapps.data import check, compare  # import pandas, and TensorFlow when they look

    pool = app.part("data").look(flags)
    print(check.report(pool, alike=app.divides))
    print(f"fit for tffapps.{name}")
    if expect and published:
        print(f"\n{compare.table(pool, published)}", flush=True)
        compare.check(pool, expect, published)
        print(f"all counts of {expect} are the same")


if __name__ == "__main__":
    sys.exit(main())
