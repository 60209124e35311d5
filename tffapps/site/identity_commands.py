"""The commands that make and take back identities: authority, request, sign, revoke, fingerprint."""

import argparse
from pathlib import Path

from tffapps.site import LEAF_DAYS

_AUTHORITY = "make an authority, and no keys but its own"
_REQUEST = "make this member's key, which stays here, and a request for a certificate"
_SIGN = "make the certificate that a request asks for"
_REVOKE = "put a certificate on the authority's list of those that count no more"
_FINGERPRINT = "print a certificate's fingerprint, as `serve --coordinator` takes it"


def add(commands: argparse._SubParsersAction) -> None:
    authority = commands.add_parser("authority", help=_AUTHORITY, description=_AUTHORITY, allow_abbrev=False)
    authority.add_argument("-o", "--output", required=True, type=Path, metavar="FOLDER", help="a new folder")
    authority.set_defaults(work=_authority)

    request = commands.add_parser("request", help=_REQUEST, description=_REQUEST, allow_abbrev=False)
    request.add_argument("--name", required=True, help="the site's name, or coordinator")
    request.add_argument("-o", "--output", required=True, type=Path, metavar="FOLDER", help="where NAME.key stays")
    request.set_defaults(work=_request)

    sign = commands.add_parser("sign", help=_SIGN, description=_SIGN, allow_abbrev=False)
    sign.add_argument("request", type=Path, metavar="NAME.csr", help="what the member sent")
    sign.add_argument("--name", required=True, help="the member's name: a request of another is refused")
    _add_authority(sign)
    sign.add_argument("--hosts", default="", metavar="HOST,HOST", help="where a site is reached; none: this machine")
    sign.add_argument("--days", type=int, default=LEAF_DAYS, help=f"how long it is valid (default {LEAF_DAYS})")
    sign.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="the certificate, to send back")
    sign.set_defaults(work=_sign)

    revoke = commands.add_parser("revoke", help=_REVOKE, description=_REVOKE, allow_abbrev=False)
    revoke.add_argument("certificate", type=Path, metavar="NAME.pem", help="whose key was lost or whose part has ended")
    _add_authority(revoke)
    revoke.set_defaults(work=_revoke)

    fingerprint = commands.add_parser("fingerprint", help=_FINGERPRINT, description=_FINGERPRINT, allow_abbrev=False)
    fingerprint.add_argument("certificate", type=Path, metavar="NAME.pem")
    fingerprint.set_defaults(work=_fingerprint)


def _add_authority(parser: argparse.ArgumentParser) -> None:
    meaning = "the authority's folder, with ca.pem and ca.key"
    parser.add_argument("--authority", required=True, type=Path, metavar="FOLDER", help=meaning)


def _authority(options: argparse.Namespace) -> None:
    from tffapps.site import authority

    authority.make(options.output)
    print(f"give every member {options.output}/ca.pem; keep {options.output}/ca.key to yourself")


def _request(options: argparse.Namespace) -> None:
    from tffapps.site import authority

    authority.request(options.output, options.name)
    place = options.output / options.name
    print(f"send {place}.csr to the authority; {place}.key stays here")


def _sign(options: argparse.Namespace) -> None:
    from tffapps.site import authority
    from tffapps.wire.admission import fingerprint

    hosts = [host.strip() for host in options.hosts.split(",") if host.strip()]
    made = authority.sign(
        options.request, options.name, options.authority, options.output, hosts, options.days
    )  # fmt: skip
    print(f"{options.output}: the certificate of {options.name}, fingerprint {fingerprint(made)}")


def _revoke(options: argparse.Namespace) -> None:
    from tffapps.site import authority

    print(f"give {authority.revoke(options.certificate, options.authority)} to every member, as --revoked")


def _fingerprint(options: argparse.Namespace) -> None:
    from tffapps.site import authority
    from tffapps.wire.admission import fingerprint

    print(fingerprint(authority.certificate(options.certificate)))
