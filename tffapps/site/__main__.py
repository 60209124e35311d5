"""The commands of a site; what each needs is imported once its flags are read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tffapps import cli
from tffapps.site import LEAF_DAYS

_CERTS = "make the certificates of a trial federation"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return cli.guarded("site", lambda: options.work(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tffapps.site", description="One site of a federation.", allow_abbrev=False
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    certs = commands.add_parser("certs", help=_CERTS, description=_CERTS, allow_abbrev=False)
    certs.add_argument("--names", required=True, metavar="A,B", help="the sites, comma-separated")
    certs.add_argument("-o", "--output", required=True, type=Path, metavar="FOLDER", help="a new folder for the files")
    certs.add_argument("--hosts", default="", metavar="A=HOST,B=HOST", help="where the sites are reached")
    days = f"how long the certificates are valid (default {LEAF_DAYS})"
    certs.add_argument("--days", type=int, default=LEAF_DAYS, help=days)
    certs.set_defaults(work=_certs)
    return parser


def _certs(options: argparse.Namespace) -> None:
    from tffapps.site import certs

    names = [name.strip() for name in options.names.split(",") if name.strip()]
    certs.write(options.output, names, days=options.days, hosts=certs.parse_hosts(options.hosts))
    folder = options.output
    for name in (*names, certs.COORDINATOR):
        print(f"{name}: give it {folder / name}.pem, {folder / name}.key and {folder / certs.AUTHORITY}.pem")
    print(f"keep {folder / certs.AUTHORITY}.key to yourself, or delete it: whoever has it can join the federation")


if __name__ == "__main__":
    sys.exit(main())
