"""The commands of a site; what each needs is imported once its flags are read."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from preprocessing.parser import Parser
from tffapps import cli
from tffapps.site import LEAF_DAYS, identity_commands, policy_commands

_CERTS = "make the certificates of a trial federation"
_SERVE = "take part in a federation with this machine's data"
_JOIN = "the same, by calling the coordinator: no port is opened here"
_DESCRIBE = "print, as JSON, what a site publishes of its data: counts and sizes, no file names"
_LISTEN = "127.0.0.1:9000"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return cli.guarded("site", lambda: options.work(options))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog=cli.called_as("site"), description="One site of a federation.", allow_abbrev=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    certs = commands.add_parser("certs", help=_CERTS, description=_CERTS, allow_abbrev=False)
    certs.add_argument("--names", required=True, metavar="A,B", help="the sites, comma-separated")
    certs.add_argument("-o", "--output", required=True, type=Path, metavar="FOLDER", help="a new folder for the files")
    certs.add_argument("--hosts", default="", metavar="A=HOST,B=HOST", help="where the sites are reached")
    days = f"how long the certificates are valid (default {LEAF_DAYS})"
    certs.add_argument("--days", type=int, default=LEAF_DAYS, help=days)
    certs.set_defaults(work=_certs)

    identity_commands.add(commands)
    policy_commands.add(commands)

    serve = commands.add_parser("serve", help=_SERVE, description=_SERVE, allow_abbrev=False)
    meaning = f"where to wait for the coordinator (default {_LISTEN}: this machine only)"
    serve.add_argument("--listen", default=_LISTEN, metavar="HOST:PORT", help=meaning)
    serve.set_defaults(dial="")
    join = commands.add_parser("join", help=_JOIN, description=_JOIN, allow_abbrev=False)
    join.add_argument("dial", metavar="HOST:PORT", help="where the coordinator waits for this site")
    join.set_defaults(listen="")
    for command in (serve, join):
        _add_membership(command)

    describe = commands.add_parser("describe", help=_DESCRIBE, description=_DESCRIBE, allow_abbrev=False)
    _add_data(describe)
    describe.set_defaults(work=_describe)
    return parser


def _add_membership(parser: argparse.ArgumentParser) -> None:
    """What a site needs to take part, whoever calls whom."""
    _add_data(parser)
    parser.add_argument("--cert", required=True, metavar="FILE", help="this site's certificate")
    parser.add_argument("--key", required=True, metavar="FILE", help="its key")
    parser.add_argument("--ca", required=True, metavar="FILE", help="the authority of the coordinator's certificate")
    meaning = "SHA-256 of the coordinator's certificate (`site fingerprint`): no other comes in; several with commas"
    parser.add_argument("--coordinator", default="", metavar="FINGERPRINT", help=meaning)
    parser.add_argument("--revoked", default="", metavar="FILE", help="the authority's list of revoked certificates")
    meaning = "go on where the kernel cannot keep TFF's worker off the network: who reaches it can read and write files"
    parser.add_argument("--allow-open-worker", action="store_true", help=meaning)
    meaning = "go on without a sandbox: the coordinator can then read, write and run what your user can"
    parser.add_argument("--without-sandbox", action="store_true", help=meaning)
    meaning = "only take part in rounds: prepare nothing from the images when the coordinator asks for it"
    parser.add_argument("--no-jobs", action="store_true", help=meaning)
    meaning = "what is allowed here (`site policy` prints the default); without, the default"
    parser.add_argument("--policy", type=Path, metavar="FILE", help=meaning)
    parser.add_argument("--no-chores", action="store_true", dest="no_jobs", help=argparse.SUPPRESS)  # its name in 0.1.0
    parser.set_defaults(work=_serve)


def _add_data(parser: argparse.ArgumentParser) -> None:
    meaning = "the site's images, or a CSV of them"
    parser.add_argument("--data", required=True, type=Path, metavar="FOLDER_OR_MANIFEST", help=meaning)
    parser.add_argument("--name", required=True, help="the site's name; its client's, if there are several in the data")


def _certs(options: argparse.Namespace) -> None:
    from tffapps.site import certs
    from tffapps.wire.certificate_checks import COORDINATOR

    names = [name.strip() for name in options.names.split(",") if name.strip()]
    certs.write(options.output, names, days=options.days, hosts=certs.parse_hosts(options.hosts))
    folder = options.output
    for name in (*names, COORDINATOR):
        print(f"{name}: give it {folder / name}.pem, {folder / name}.key and {folder / certs.AUTHORITY}.pem")
    print(f"keep {folder / certs.AUTHORITY}.key to yourself, or delete it: whoever has it can join the federation")


def _serve(options: argparse.Namespace) -> None:
    from tffapps.site.serve import serve
    from tffapps.wire.admission import parse_fingerprints
    from tffapps.wire.certificates import Certificates

    certificates = Certificates(options.cert, options.key, options.ca, options.revoked)
    serve(
        options.data, options.name, options.listen, certificates, coordinator=parse_fingerprints(options.coordinator),
        allow_open=options.allow_open_worker, prepares=not options.no_jobs,
        confined=not options.without_sandbox, dial=options.dial, policy=options.policy,
    )  # fmt: skip


def _describe(options: argparse.Namespace) -> None:
    from tffapps.site import data

    notes: list[str] = []
    _, description = data.readable(data.load(options.data, options.name, notes), options.name, options.data)
    for note in notes:
        print(note, file=sys.stderr)
    print(json.dumps(description, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main())
