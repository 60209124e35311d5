"""`tffapps fedstyle enrol BUNDLE PICTURES… --name NAME --catalogue FILE --consent`, or --server URL --invitation TOKEN

An artist joins a catalogue from their own machine: the federation's encoder makes a prototype of their pictures there,
and a spread. Both go into it, with the name and the words; of the pictures only those that --publish names.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from preprocessing.parser import Parser
from tffapps import UserError, cli
from tffapps.fedstyle import catalogue
from tffapps.fedstyle.platform.remote import Remote

NAME = "fedstyle enrol"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=cli.called_as(NAME), description="Joins a catalogue of artists; nobody trains.")
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="of the federation, as the others have it")
    parser.add_argument("pictures", metavar="PICTURES", nargs="+", type=Path, help="your pictures, or folders of them")
    parser.add_argument("--name", required=True, help="how the catalogue calls you")
    parser.add_argument("--words", default="", help="what your card says")
    parser.add_argument("--publish", nargs="*", default=[], type=Path, metavar="FILE", help="pictures for your card")
    parser.add_argument("--consent", action="store_true", help=f"you say: {catalogue.CONSENT}")
    parser.add_argument("--catalogue", type=Path, metavar="FILE", help="a file here; made if not there")
    parser.add_argument("--server", default="", metavar="URL", help="or a platform (tffapps fedstyle serve)")
    parser.add_argument("--invitation", default="", metavar="TOKEN", help="to that platform; - reads it from the input")
    parser.add_argument("--embedding", default="style", choices=catalogue.EMBEDDINGS, help="of a new catalogue")
    parser.add_argument(
        "-o", dest="out", type=Path, default=Path("enrolment.json"), help="keeps your key (%(default)s)"
    )
    options = parser.parse_args(arguments)
    return cli.guarded(NAME, lambda: _run(options), module="tffapps.fedstyle enrol")


def _run(options: argparse.Namespace) -> None:
    if not options.consent:
        raise UserError(f"--consent: nobody is enrolled without it; giving it, you say: {catalogue.CONSENT}")
    if bool(options.server) == bool(options.catalogue) or bool(options.server) != bool(options.invitation):
        raise UserError("--catalogue: give it, or --server with --invitation, and not both")
    if options.out.exists():
        raise UserError(f"-o {options.out}: is there already, perhaps with another key; choose another")
    remote = Remote(options.server) if options.server else None
    kind = remote.about()["kind"] if remote else _kind(options)
    if kind not in catalogue.EMBEDDINGS:
        raise UserError(f"--server {options.server}: has an embedding that this tffapps does not know; update it")
    cli.quiet()
    from tffapps.fedstyle.encoder import Encoder
    from tffapps.use import bundle, images

    paths = images.listed(options.pictures)
    encoder = Encoder(bundle.load(options.bundle), kind)
    entry = _entry(options, encoder, paths)
    if remote:
        invitation = sys.stdin.readline().strip() if options.invitation == "-" else options.invitation
        artist, key = remote.enrol(entry, encoder.fingerprint, invitation)
        where = {"server": remote.address}
    else:
        artist, key = catalogue.Catalogue.at(options.catalogue, encoder).enrol(entry)
        where = {"catalogue": str(options.catalogue)}
    with open(os.open(options.out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(
            {**where, "artist": artist, "key": key, "consent": entry.consent},
            file,
            indent=1,
        )
    print(f"enrolled {entry.name}: a prototype of {entry.pictures} pictures; key to withdraw with: {options.out}")


def _kind(options: argparse.Namespace) -> str:
    there = options.catalogue.exists()
    return catalogue.Catalogue(options.catalogue).about["kind"] if there else options.embedding


def _entry(options: argparse.Namespace, encoder: Any, paths: Sequence[str]) -> catalogue.Entry:
    from tffapps.fedstyle.cards import card_picture
    from tffapps.fedstyle.metric import spread_of

    vectors, problems = encoder.of_files(paths)
    for path, why in problems.items():
        raise UserError(f"{path}: {why}; mend it or leave it out")
    published = [card_picture(path.read_bytes(), str(path)) for path in options.publish]
    return catalogue.Entry(
        options.name,
        options.words,
        len(vectors),
        vectors.mean(axis=0),
        catalogue.CONSENT,
        published,
        spread_of(vectors),
    )
