"""A live page of all runs below a folder: `tffapps watch RESULTS [--port N]`

It is served on 127.0.0.1 alone, reads and never writes, and takes nothing from the network. Ctrl-C ends it; runs do not
notice. Across machines: `ssh -L 8000:127.0.0.1:8000 HOST`, then open the same port here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from preprocessing.parser import Parser
from tffapps import cli
from tffapps.errors import UserError

_MODULE = "tffapps.watch"
_MOST = 65535


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves the page until it is stopped; returns the exit status."""
    parser = Parser(
        prog=cli.called_as("watch", _MODULE), description="A live page of runs, on this machine alone",
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument(
        "results", type=Path, nargs="?", default=Path("results"), metavar="RESULTS",
        help="folder of results: all runs below it are shown (default results)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=0, metavar="N", help="to serve at (default 0: any that is free)")
    options = parser.parse_args(arguments)
    return cli.guarded("watch", lambda: _serve(options.results, options.port), "ended", _MODULE)


def _serve(results: Path, port: int) -> None:
    from tffapps.watch.runs import Runs
    from tffapps.watch.server import Server

    if not results.is_dir():
        what = "not a folder" if results.exists() else "no such folder"
        raise UserError(f"{results}: {what}; give the folder that --results named")
    if not 0 <= port <= _MOST:
        raise UserError(f"--port {port}: must be from 0, any that is free, to {_MOST}")
    try:
        server = Server(Runs(results.resolve()), port)
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}; choose another, or 0 for any that is free") from None
    with server:
        print(f"runs in {results}: {server.url}   (Ctrl-C ends this page, not the runs)", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
