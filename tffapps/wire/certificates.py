"""The PEM files that one end of a TLS connection has."""

import dataclasses
import ssl


@dataclasses.dataclass(frozen=True)
class Certificates:
    """The PEM files of one end of a TLS connection."""

    cert: str  # its certificate
    key: str  # the key of it
    ca: str  # whose certificates it accepts
    revoked: str = ""  # a list of those that it does not accept any more

    def paths(self) -> tuple[str, str, str]:
        return self.cert, self.key, self.ca

    def server_context(self) -> ssl.SSLContext:
        """Callers must show a certificate, on every connection anew."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.cert, self.key)
        context.load_verify_locations(self.ca)
        context.set_alpn_protocols(["h2"])
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        # A session that is taken up again would not show its certificate.
        context.num_tickets = 0  # type: ignore[attr-defined]
        return context

    def client_context(self) -> ssl.SSLContext:
        """Of who calls, and asks for a certificate of the same authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(self.ca)
        context.load_cert_chain(self.cert, self.key)
        context.set_alpn_protocols(["h2"])
        return context
