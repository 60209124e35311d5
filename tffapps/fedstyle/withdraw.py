"""`tffapps fedstyle withdraw ENROLMENT`: an artist leaves a catalogue, with the key that `enrol` wrote down.

`tffapps fedstyle withdraw --catalogue FILE --name NAME` is for who holds the catalogue. Nothing of the artist stays.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from preprocessing.parser import Parser
from tffapps import UserError, cli
from tffapps.fedstyle.catalogue import Catalogue, folded
from tffapps.fedstyle.platform.remote import Remote

NAME = "fedstyle withdraw"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=cli.called_as(NAME), description="Leaves a catalogue of artists; nobody trains.")
    parser.add_argument("enrolment", nargs="?", type=Path, metavar="ENROLMENT", help="the file that enrol wrote")
    parser.add_argument("--catalogue", type=Path, metavar="FILE", help="for who holds it")
    parser.add_argument("--name", default="", help="the artist in it")
    options = parser.parse_args(arguments)
    return cli.guarded(NAME, lambda: _run(options), module="tffapps.fedstyle withdraw")


def _run(options: argparse.Namespace) -> None:
    if bool(options.enrolment) == bool(options.catalogue) or bool(options.catalogue) != bool(options.name):
        raise UserError("ENROLMENT: give that file, or --catalogue with --name, and not both")
    if options.catalogue:
        held = Catalogue(options.catalogue, leaving=True)
        found = held.rows("SELECT id FROM artists WHERE folded = ?", folded(options.name))
        if not found or not held.withdraw(found[0][0]):
            raise UserError(f"--name {options.name}: not in {options.catalogue}")
    else:
        try:
            known = json.loads(options.enrolment.read_text())
            key, server = str(known["key"]), str(known.get("server", ""))
            file = "" if server else str(known["catalogue"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{options.enrolment}: not a file that tffapps fedstyle enrol wrote") from None
        if server:
            Remote(server).withdraw(key)
            print("withdrawn: no row and no prototype is left")
            return
        held = Catalogue(Path(file), leaving=True)
        if not held.withdraw(held.who(key)):
            raise UserError(f"{options.enrolment}: nobody in {file} has this key; perhaps withdrawn already")
    print("withdrawn: no row and no prototype is left")
