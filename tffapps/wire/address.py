"""Where a site listens, as flags say it."""

from tffapps.errors import UserError


def parse_address(flag: str, text: str) -> tuple[str, int]:
    """HOST:PORT or [HOST]:PORT as a host and a number."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UserError(f"{flag} {text}: put an IPv6 address in brackets, as in [::1]:9000")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise UserError(f"{flag} {text}: expected HOST:PORT, such as 127.0.0.1:9000")
    return host, int(port)


def parse_site(flag: str, text: str) -> tuple[str, str]:
    """HOST:PORT of a site, or NAME@HOST:PORT of one that is waited for there: its name ("" if none), and HOST:PORT."""
    name, at, place = text.rpartition("@")
    if at and not name.strip():
        raise UserError(f"{flag} {text}: whom to wait for there? give NAME@HOST:PORT")
    parse_address(flag, place)
    return name.strip(), place
