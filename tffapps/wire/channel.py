"""The coordinator's way to a site: a gRPC channel, once a look at the other end found nothing wrong.

gRPC itself tries for ever, and calls everything "unavailable". So a plain TLS connection is made first: it says within
seconds whether a port is closed, a certificate expired, or an authority unknown to either side. No proxy is used.
"""

import socket
import ssl
from pathlib import Path

import grpc
from cryptography import x509

from tffapps.errors import UserError
from tffapps.wire import certificate_checks, grpc_options, revocation
from tffapps.wire.address import parse_address
from tffapps.wire.certificates import Certificates

_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and empty SETTINGS
# What the other side tells us about our certificate.
_ALERTS = {
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority of --cert {cert}; give files of its federation",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that --cert {cert} has expired; get a new one, or set the clocks",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate; give --cert, --key and --ca",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it does not take --cert {cert}, which is not a coordinator's",
}
_NO_TLS = "WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"
_EXPIRED, _NOT_YET_VALID = 10, 9  # X509_V_ERR_… of OpenSSL


class Unreachable(UserError):
    """A site that is not there now, but may be later: no port, no answer."""


def channel(address: str, certificates: Certificates, timeout: float = 5.0) -> grpc.Channel:
    """A channel to the site at HOST:PORT; Unreachable if nothing answers, UserError if trying again cannot help."""
    certificate_checks.check(certificates, "coordinator")
    look(address, certificates, timeout)
    return unseen(address, certificates)


def unseen(address: str, certificates: Certificates) -> grpc.Channel:
    """The channel alone, for who has had a look already."""
    credentials = grpc.ssl_channel_credentials(
        Path(certificates.ca).read_bytes(), Path(certificates.key).read_bytes(), Path(certificates.cert).read_bytes()
    )
    options = [*grpc_options.OPTIONS, ("grpc.enable_http_proxy", 0)]
    return grpc.secure_channel(address, credentials, options=options)


def look(address: str, certificates: Certificates, timeout: float = 5.0) -> None:
    """Connects, shows the certificate, waits for the worker's first bytes, and leaves."""
    greeted(address, certificates, timeout)[0].close()


def greeted(address: str, certificates: Certificates, timeout: float = 5.0) -> tuple[ssl.SSLSocket, bytes]:
    """A connection on which the worker has answered, and the first bytes of its answer."""
    host, port = parse_address("--engine", address)
    context = certificates.client_context()
    try:
        plain = socket.create_connection((host, port), timeout=timeout)
        try:
            secured = context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise
        try:
            check_site(address, secured, certificates)
            return secured, first_byte(address, secured)
        except BaseException:
            secured.close()
            raise
    except ssl.SSLCertVerificationError as error:
        raise UserError(f"{address}: {_verification(error, certificates)}") from None
    except ssl.SSLError as error:
        reason = error.reason or ""
        if reason in _ALERTS:
            raise UserError(f"{address}: {_ALERTS[reason].format(cert=certificates.cert)}") from None
        if reason in _NO_TLS or isinstance(error, ssl.SSLEOFError):
            raise UserError(f"{address}: does not speak TLS; check the port") from None
        raise UserError(f"{address}: TLS failed ({reason.replace('_', ' ').lower()}); see the site's log") from None
    except socket.gaierror:
        raise UserError(f"{address}: no host of this name is known; check the spelling") from None
    except TimeoutError:
        raise Unreachable(f"{address}: no answer within {timeout:g} s; is it running, or behind a firewall?") from None
    except OSError as error:
        raise Unreachable(f"{address}: {error.strerror or error}; is the site running?") from None


def check_site(address: str, secured: ssl.SSLSocket, certificates: Certificates) -> None:
    """What TLS does not look at: that the certificate says it is a site's, and was not revoked."""
    found = x509.load_der_x509_certificate(secured.getpeercert(True) or b"")
    if not certificate_checks.is_for(found, "site"):
        raise UserError(f"{address}: its certificate is not made for a site alone; the site needs another")
    if certificates.revoked:
        authorities = certificate_checks.read_certificates("--ca", certificates.ca)
        if revocation.is_revoked(found, revocation.read(certificates.revoked, authorities)):
            name = certificate_checks.common_name(found)
            raise UserError(f"{address}: the certificate of {name:.60} was revoked (--revoked {certificates.revoked})")


def first_byte(address: str, secured: ssl.SSLSocket) -> bytes:
    """Greets the worker and waits for the first byte of its answer."""
    if secured.selected_alpn_protocol() != "h2":
        raise UserError(f"{address}: answers, but not as a site; check the port")
    secured.sendall(_GREETING)
    # A refusal of our certificate comes only now: TLS 1.3 lets a client finish before it is judged.
    first = secured.recv(1)
    if not first:
        raise Unreachable(
            f"{address}: the connection was closed; see the site's log, it may not let this coordinator in"
        )
    return first


def _verification(error: ssl.SSLCertVerificationError, certificates: Certificates) -> str:
    if error.verify_code == _EXPIRED:
        return "its certificate has expired; the site needs a new one"
    if error.verify_code == _NOT_YET_VALID:
        return "its certificate is not valid yet; check the clocks of both machines"
    if "mismatch" in error.verify_message.lower():
        return f"its certificate is for another host ({error.verify_message}); make one with --hosts NAME=HOST"
    return f"its certificate is not from --ca {certificates.ca} ({error.verify_message}); give files of one federation"
