"""`tffapps fedstyle serve BUNDLE --catalogue artists.db`: the platform around a catalogue, for browsers and artists.

Buyers ask with a picture and commission works, artists join from their own machines, read their inbox and leave,
the operator gives out tokens. On the loopback device, if it is not told otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from preprocessing.parser import Parser
from tffapps import cli
from tffapps.fedstyle import catalogue

if TYPE_CHECKING:
    from tffapps.fedstyle.platform.server import Server

NAME = "fedstyle serve"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=cli.called_as(NAME), description="Serves a catalogue of artists to buyers and artists.")
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="of the federation, as the artists have it")
    parser.add_argument("--catalogue", type=Path, required=True, metavar="FILE", help="of artists; made if not there")
    parser.add_argument("--embedding", default="style", choices=catalogue.EMBEDDINGS, help="of a new catalogue")
    parser.add_argument("--listen", default="127.0.0.1:8000", metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="a name that browsers may use for it"
    )
    parser.add_argument(
        "--https", action="store_true", help="a proxy in front of it speaks HTTPS: cookies need it then"
    )
    parser.add_argument("--title", default="FedStyle", help="what pages call it (%(default)s)")
    parser.add_argument("--source", default="", help="what the study's table calls the data; default: the file's name")
    parser.add_argument("--operator", action="store_true", help="makes another operator's token, should one be lost")
    options = parser.parse_args(arguments)
    return cli.guarded(NAME, lambda: _run(options), module="tffapps.fedstyle serve")


def _run(options: argparse.Namespace) -> None:
    with serving(options) as server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)


def serving(options: argparse.Namespace) -> Server:
    """The server, its network loaded and warm; nobody is answered before `serve_forever`."""
    from tffapps.fedstyle.platform.server import LOOPBACK, Server, address_of, names_of

    host, port = address_of(options.listen)
    there = options.catalogue.exists()
    kind = catalogue.Catalogue(options.catalogue).about["kind"] if there else options.embedding
    name, source = catalogue.line(options.title, 60, "--title"), options.source or options.catalogue.stem
    source = catalogue.line(source, 60, "--source")
    cli.quiet()
    from tffapps.fedstyle.encoder import Encoder
    from tffapps.fedstyle.platform.desk import OPERATOR
    from tffapps.fedstyle.platform.finder import Finder
    from tffapps.fedstyle.platform.views import Platform
    from tffapps.use import bundle

    encoder = Encoder(bundle.load(options.bundle), kind)
    server = Server(host, port, None)
    held = catalogue.Catalogue.at(options.catalogue, encoder)
    encoder.warm()
    platform = Platform(
        held, Finder(held, encoder), name=name, source=source, hosts=names_of(host, server.port, options.host),
        https=options.https,
    )  # fmt: skip
    server.app = platform
    if options.operator or not any(role == OPERATOR for _, role, *_ in platform.desk.tokens()):
        print(f"operator's token, shown this once: {platform.desk.issue(OPERATOR, 'made by serve')}")
    if host not in LOOPBACK and not options.https:
        print(
            f"warning: {host} can be reached from other machines, and tokens cross the network in the clear; put"
            " a proxy with HTTPS in front, and give --https and --host",
            file=sys.stderr,
        )
    print(f"serving {options.catalogue} at http://{host}:{server.port}/ ; Ctrl+C ends it", flush=True)
    return server
