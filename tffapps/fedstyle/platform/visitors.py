"""Who asks: a role by the token in a cookie (browsers) or a header (programs), and forms that only our pages send.

The cookie is for this site alone (SameSite=Strict) and out of scripts' reach. A form carries a code made of the
visitor's token besides, and a request that a browser says comes from elsewhere is refused before that.
"""

from __future__ import annotations

import dataclasses
import hmac
from collections.abc import Collection

from werkzeug.exceptions import BadRequest, Forbidden
from werkzeug.wrappers import Request

from tffapps.fedstyle.catalogue import hashed
from tffapps.fedstyle.platform.desk import ARTIST, Desk

COOKIE = "fedstyle"
_LONGEST = 100  # characters of a token


@dataclasses.dataclass(frozen=True)
class Visitor:
    role: str = ""  # "", or one of desk's
    artist: str = ""  # the id of an artist who asks
    token: str = dataclasses.field(default="", repr=False)
    address: str = ""

    @property
    def name(self) -> str:
        """For limits: of a token, or of an address where there is none."""
        return hashed(self.token)[:16] if self.role else self.address

    @property
    def code(self) -> str:
        """What a form of this visitor carries."""
        return hmac.new(self.token.encode(), b"form", "sha256").hexdigest() if self.role else ""


def visitor_of(request: Request, desk: Desk) -> Visitor:
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    token = bearer.strip() if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
    return recognised(token, desk, request.remote_addr or "")


def recognised(token: str, desk: Desk, address: str = "") -> Visitor:
    if not token or len(token) > _LONGEST:
        return Visitor(address=address)
    artist = desk.catalogue.who(token)
    role = ARTIST if artist else desk.role_of(token)
    return Visitor(role, artist, token if role else "", address)


def check_origin(request: Request, hosts: Collection[str]) -> None:
    """Refuses what another page makes a browser send."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("this came from another page")
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] not in hosts:
        raise Forbidden("this came from another page")


def check_form(request: Request, visitor: Visitor) -> None:
    if not visitor.role or not hmac.compare_digest(request.form.get("code", "").encode(), visitor.code.encode()):
        raise BadRequest("this form is out of date: load the page anew and send it again")
