"""What an artist's own machine asks: which encoder and which consent, to join, to leave. JSON, a token in a header."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import numpy as np
from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Request, Response

from tffapps import UserError
from tffapps.fedstyle.cards import card_picture
from tffapps.fedstyle.catalogue import CONSENT, PUBLISHED, Catalogue, Entry
from tffapps.fedstyle.platform.desk import ARTIST, INVITATION, OPERATOR, Desk
from tffapps.fedstyle.platform.visitors import Visitor

RULES = (
    ("/api/catalogue", "GET", "catalogue", ("", "buyer", ARTIST, OPERATOR, INVITATION)),
    ("/api/artists", "POST", "enrol", (INVITATION, OPERATOR)),
    ("/api/artists/me", "DELETE", "withdraw", (ARTIST,)),
)
MOST_BYTES = 4_000_000  # of an enrolment


def answer(content: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(content), status, mimetype="application/json")


def about(catalogue: Catalogue) -> Response:
    """What a machine has to know before it makes a prototype."""
    known = {name: catalogue.about[name] for name in ("encoder", "kind", "width")}
    return answer({**known, "consent": CONSENT})


def enrol(catalogue: Catalogue, desk: Desk, request: Request, visitor: Visitor) -> Response:
    """An invitation serves once, and only for an enrolment that succeeds."""
    given = _read(request)
    if given.get("encoder") != catalogue.about["encoder"]:
        raise UserError("encoder: this prototype was made with another bundle or --embedding; ask for the catalogue's")
    entry = _entry(given, int(catalogue.about["width"]))
    artist, key = catalogue.enrol(entry)
    if visitor.role == INVITATION and not desk.use_up(visitor.token):  # somebody was faster with the same one
        catalogue.withdraw(artist)
        raise Forbidden("this invitation has been used")
    return answer({"artist": artist, "key": key}, 201)


def _read(request: Request) -> dict[str, Any]:
    contents = request.stream.read(MOST_BYTES + 1)
    if len(contents) > MOST_BYTES:
        raise UserError(f"this enrolment has more than {MOST_BYTES // 10**6} MB: publish smaller pictures")
    try:
        given = json.loads(contents)
    except (ValueError, RecursionError):
        raise UserError("expected JSON as tffapps fedstyle enrol sends it") from None
    if not isinstance(given, dict):
        raise UserError("expected JSON as tffapps fedstyle enrol sends it")
    return given


def _entry(given: dict[str, Any], width: int) -> Entry:
    try:
        prototype, spread = (
            np.frombuffer(base64.b64decode(str(given[name]), validate=True), "<f4") for name in ("prototype", "spread")
        )
        spread = spread.reshape(-1, width)
        coded, pictures = given.get("published", []), given["pictures"]
        if not isinstance(coded, list) or len(coded) > PUBLISHED or isinstance(pictures, bool):
            raise ValueError
        published = [base64.b64decode(str(each), validate=True) for each in coded]
        pictures = int(pictures)
    except (KeyError, TypeError, ValueError, OverflowError, binascii.Error):
        raise UserError("expected JSON as tffapps fedstyle enrol sends it") from None
    # Encoded anew here: what is shown is ours, whatever a stranger's file holds.
    shown = [card_picture(each, f"published picture {place}") for place, each in enumerate(published, start=1)]
    consent = str(given.get("consent"))
    return Entry(given.get("name", ""), given.get("words", ""), pictures, prototype, consent, shown, spread)
