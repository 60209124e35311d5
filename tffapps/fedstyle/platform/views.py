"""What is answered at which address, to whom. Every refusal is one line, with the status that says what kind it is."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import Any

from werkzeug.exceptions import Forbidden, HTTPException, NotFound, RequestEntityTooLarge, TooManyRequests
from werkzeug.routing import Map, Rule
from werkzeug.utils import redirect
from werkzeug.wrappers import Request, Response

from tffapps.errors import UserError
from tffapps.fedstyle.catalogue import Catalogue
from tffapps.fedstyle.platform import api
from tffapps.fedstyle.platform.cards import Card, cards
from tffapps.fedstyle.platform.desk import ARTIST, BUYER, INVITATION, OPERATOR, Desk, Question
from tffapps.fedstyle.platform.finder import Finder
from tffapps.fedstyle.platform.limits import Limits
from tffapps.fedstyle.platform.pages import MOST_BYTES, Pages
from tffapps.fedstyle.platform.script import SCRIPT
from tffapps.fedstyle.platform.style import CSS
from tffapps.fedstyle.platform.visitors import COOKIE, Visitor, check_form, check_origin, recognised, visitor_of

_ANYBODY, _INSIDE = ("", BUYER, ARTIST, OPERATOR, INVITATION), (BUYER, ARTIST, OPERATOR)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()", "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store",
}  # fmt: skip
_RULES = (  # address, method, what answers, for whom
    ("/", "GET", "home", _ANYBODY),
    ("/style.css", "GET", "style", _ANYBODY),
    ("/script.js", "GET", "script", _ANYBODY),
    ("/join", "GET", "join", _ANYBODY),
    ("/enter", "POST", "enter", _ANYBODY),
    ("/leave", "POST", "leave", _INSIDE),
    ("/ask", "POST", "ask", _INSIDE),
    ("/rate", "POST", "rate", _INSIDE),
    ("/artists", "GET", "artists", _INSIDE),
    ("/artist/<artist>", "GET", "artist", _INSIDE),
    ("/artist/<artist>/request", "POST", "request", _INSIDE),
    ("/picture/<artist>/<int:place>", "GET", "picture", _INSIDE),
    ("/study", "GET", "study", _INSIDE),
    ("/inbox", "GET", "inbox", (ARTIST,)),
    ("/inbox/<number>/remove", "POST", "remove_request", (ARTIST,)),
    ("/withdraw", "POST", "withdraw", (ARTIST,)),
    ("/desk", "GET", "desk", (OPERATOR,)),
    ("/desk/token", "POST", "issue", (OPERATOR,)),
    ("/desk/token/<start>/remove", "POST", "take_back", (OPERATOR,)),
    ("/desk/artist/<artist>/remove", "POST", "remove_artist", (OPERATOR,)),
    *((address, method, f"api_{name}", roles) for address, method, name, roles in api.RULES),
)


class Asked(Request):
    """Bounded before anything is read."""

    max_content_length = MOST_BYTES + 20_000
    max_form_memory_size = 50_000
    max_form_parts = 20


class Platform:
    """A WSGI application. `hosts` are the names it answers to, HOST:PORT."""

    def __init__(
        self,
        catalogue: Catalogue,
        finder: Finder,
        *,
        name: str,
        source: str,
        hosts: Collection[str],
        https: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self._catalogue, self._finder, self._source, self._https = catalogue, finder, source, https
        self.desk, self.pages, self._limits = Desk(catalogue), Pages(name, catalogue), limits or Limits()
        self._hosts = {host.lower() for host in hosts}
        self._map = Map([Rule(address, methods=[method], endpoint=name) for address, method, name, _ in _RULES])
        self._roles = {name: roles for *_, name, roles in _RULES}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Asked(environ)
        response = self._answer(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        visitor = Visitor(address=request.remote_addr or "")
        try:
            if request.host.lower() not in self._hosts:
                raise Forbidden("this server has another name")
            name, values = self._map.bind_to_environ(request.environ).match()
            visitor = visitor_of(request, self.desk)
            if request.method != "GET":
                check_origin(request, self._hosts)
            if visitor.role not in self._roles[name]:
                raise Forbidden(
                    "this is for somebody else: come in with another token" if visitor.role else "come in first"
                )
            return getattr(self, f"_{name}")(request, visitor, **values)
        except UserError as error:
            return self._refused(request, visitor, 400, str(error))
        except RequestEntityTooLarge:
            return self._refused(request, visitor, 413, f"this is too large: {MOST_BYTES // 10**6} MB are allowed")
        except HTTPException as error:
            if isinstance(error.response, Response):
                return error.response
            return self._refused(request, visitor, error.code or 500, _in_words(error))
        except Exception as error:  # the next visitor is still served
            print(f"{request.method} {request.path}: {type(error).__name__}: {error}", file=sys.stderr)
            return self._refused(request, visitor, 500, "something went wrong here; it has been noted")

    def _refused(self, request: Request, visitor: Visitor, status: int, text: str) -> Response:
        if request.path.startswith("/api/"):
            return api.answer({"problem": text}, status)
        if request.path == "/ask" and visitor.role:
            return _html(self.pages.ask(visitor, problem=text), status)
        return _html(self.pages.said(visitor, "That did not work", text), status)

    def _limit(self, what: str, visitor: Visitor) -> None:
        wait = self._limits.wait(what, visitor.name)
        if wait:
            raise TooManyRequests(f"too often: try again in {max(1, round(wait))} s")

    # Anybody's.

    def _home(self, request: Request, visitor: Visitor) -> Response:
        return _html(self.pages.ask(visitor) if visitor.role in _INSIDE else self.pages.welcome(visitor))

    def _style(self, request: Request, visitor: Visitor) -> Response:
        return Response(CSS, mimetype="text/css")

    def _script(self, request: Request, visitor: Visitor) -> Response:
        return Response(SCRIPT, mimetype="text/javascript")

    def _join(self, request: Request, visitor: Visitor) -> Response:
        return _html(self.pages.join(visitor, f"{'https' if self._https else 'http'}://{request.host}"))

    def _enter(self, request: Request, visitor: Visitor) -> Response:
        self._limit("enter", Visitor(address=visitor.address))
        token = request.form.get("token", "").strip()
        known = recognised(token, self.desk)
        if known.role == INVITATION:
            return _html(self.pages.welcome(visitor, "this is an invitation: join with it from your own machine"), 400)
        if not known.role:
            return _html(self.pages.welcome(visitor, "nobody has this token; it may have been taken back"), 403)
        response = redirect("/", 303)
        response.set_cookie(COOKIE, token, httponly=True, samesite="Strict", secure=self._https, max_age=30 * 86400)
        return response

    # Of everybody who has come in.

    def _leave(self, request: Request, visitor: Visitor) -> Response:
        check_form(request, visitor)
        return self._out("/")

    def _ask(self, request: Request, visitor: Visitor) -> Response:
        check_form(request, visitor)
        self._limit("ask", visitor)
        picture = request.files.get("picture")
        contents = picture.stream.read(MOST_BYTES + 1) if picture else b""
        if not contents:
            raise UserError("choose a picture first, a JPEG or PNG")
        if len(contents) > MOST_BYTES:
            raise RequestEntityTooLarge
        answer = self._finder.ask(contents)
        first = answer.first
        question = self.desk.log(
            Question(visitor.role, self._source, answer.artists, first.artist or None,
                     first.similarity if first.artist else None, answer.milliseconds)
        )  # fmt: skip
        return _html(self.pages.ask(visitor, self.pages.result(visitor, answer, question)))

    def _rate(self, request: Request, visitor: Visitor) -> Response:
        check_form(request, visitor)
        self._limit("change", visitor)
        value = request.form.get("rating", "")
        if not self.desk.rate(request.form.get("question", ""), int(value) if value in "12345" and value else 0):
            raise UserError("this answer has been rated already")
        return _html(self.pages.said(visitor, "Thank you", "Your rating counts in the study."))

    def _artists(self, request: Request, visitor: Visitor) -> Response:
        return _html(self.pages.artists(visitor))

    def _artist(self, request: Request, visitor: Visitor, artist: str) -> Response:
        return _html(self.pages.artist(visitor, self._card(artist)))

    def _request(self, request: Request, visitor: Visitor, artist: str) -> Response:
        check_form(request, visitor)
        self._limit("request", visitor)
        card = self._card(artist)
        try:
            self.desk.request(artist, request.form.get("words"), request.form.get("contact"))
        except UserError as error:
            return _html(self.pages.artist(visitor, card, str(error)), 400)
        return _html(self.pages.artist(visitor, card, sent=True))

    def _picture(self, request: Request, visitor: Visitor, artist: str, place: int) -> Response:
        sql = "SELECT jpeg FROM published WHERE artist = ? AND place = ?"
        found = self._catalogue.rows(sql, artist, place) if place < 100 else []
        if not found:
            raise NotFound("no such picture")
        return Response(found[0][0], mimetype="image/jpeg")

    def _study(self, request: Request, visitor: Visitor) -> Response:
        return _html(self.pages.study(visitor, self.desk.satisfaction()))

    # An artist's own.

    def _inbox(self, request: Request, visitor: Visitor, problem: str = "", status: int = 200) -> Response:
        requests = self.desk.inbox(visitor.artist)
        return _html(self.pages.inbox(visitor, self._card(visitor.artist), requests, problem), status)

    def _remove_request(self, request: Request, visitor: Visitor, number: str) -> Response:
        check_form(request, visitor)
        self.desk.remove_request(visitor.artist, number)
        return redirect("/inbox", 303)

    def _withdraw(self, request: Request, visitor: Visitor) -> Response:
        check_form(request, visitor)
        if request.form.get("sure") != "yes":
            return self._inbox(request, visitor, "tick the box first", 400)
        self._catalogue.withdraw(visitor.artist)
        response = _html(self.pages.said(Visitor(), "You have left", "No row and no prototype of yours is left."))
        response.delete_cookie(COOKIE)
        return response

    # The operator's.

    def _desk(self, request: Request, visitor: Visitor, **more: Any) -> Response:
        return _html(self.pages.desk(visitor, self.desk, **more))

    def _issue(self, request: Request, visitor: Visitor) -> Response:
        check_form(request, visitor)
        self._limit("change", visitor)
        role = request.form.get("role", "")
        return self._desk(request, visitor, new=(role, self.desk.issue(role, request.form.get("note", ""))))

    def _take_back(self, request: Request, visitor: Visitor, start: str) -> Response:
        check_form(request, visitor)
        if not self.desk.take_back(start):
            raise UserError("no such token, or the only operator's")
        return redirect("/desk", 303)

    def _remove_artist(self, request: Request, visitor: Visitor, artist: str) -> Response:
        check_form(request, visitor)
        self._catalogue.withdraw(self._card(artist).id)
        return redirect("/desk", 303)

    # What programs ask.

    def _api_catalogue(self, request: Request, visitor: Visitor) -> Response:
        return api.about(self._catalogue)

    def _api_enrol(self, request: Request, visitor: Visitor) -> Response:
        self._limit("enrol", visitor)
        return api.enrol(self._catalogue, self.desk, request, visitor)

    def _api_withdraw(self, request: Request, visitor: Visitor) -> Response:
        return api.answer({"withdrawn": self._catalogue.withdraw(visitor.artist)})

    def _card(self, artist: str) -> Card:
        known = cards(self._catalogue, [artist])
        if artist not in known:
            raise NotFound("this artist is not in the catalogue")
        return known[artist]

    def _out(self, to: str) -> Response:
        response = redirect(to, 303)
        response.delete_cookie(COOKIE)
        return response


def _html(content: bytes, status: int = 200) -> Response:
    return Response(content, status, mimetype="text/html")


_WORDS: dict[int, str] = {404: "there is no such page", 405: "not like this", 400: "this could not be read"}


def _in_words(error: HTTPException) -> str:
    """Our own line, or a short one for werkzeug's."""
    own = error.description if error.description != type(error).description else None
    return own or _WORDS.get(error.code or 0, error.name.lower())
