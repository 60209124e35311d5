"""What pages are made of: the frame around them, and the pieces that several of them have."""

from __future__ import annotations

import pandas as pd

from tffapps.fedstyle.platform.desk import ARTIST, LIKERT, OPERATOR
from tffapps.fedstyle.platform.visitors import Visitor
from tffapps.report.markup import Content, Markup, element, joined, single

_LINKS = (  # address, what it is called, for whom
    ("/", "Ask", ("buyer", ARTIST, OPERATOR)),
    ("/artists", "Artists", ("buyer", ARTIST, OPERATOR)),
    ("/inbox", "Inbox", (ARTIST,)),
    ("/study", "Study", ("buyer", ARTIST, OPERATOR)),
    ("/desk", "Desk", (OPERATOR,)),
    ("/join", "Join as an artist", ("",)),
)


def page(title: str, name: str, visitor: Visitor, at: str, *content: Content) -> bytes:
    """A whole page; `name` is the catalogue's, `at` the address of the link that is the current one."""
    links = [single_link(address, called, address == at) for address, called, roles in _LINKS if visitor.role in roles]
    leave = [form("/leave", visitor, element("button", "Sign out", type="submit"))] if visitor.role else []
    body = joined(
        element("header", element("div", element("a", name, class_="brand", href="/"), element("nav", *links, *leave))),
        element("main", *content),
        element(
            "footer",
            "The pictures you ask with are looked at and forgotten. Artists' works stay at home: the catalogue holds a"
            " mean and a spread of embeddings, a name, words, and the pictures an artist chose to publish.",
        ),
    )
    head = joined(
        single("meta", charset="utf-8"),
        single("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · {name}"),
        single("link", rel="icon", href="data:,"),
        single("link", rel="stylesheet", href="/style.css"),
        element("script", src="/script.js", defer=True),
    )
    whole = element("html", element("head", head), element("body", body), lang="en")
    return f"<!doctype html>\n{whole}\n".encode()


def single_link(address: str, called: str, current: bool) -> Markup:
    return element("a", called, href=address, aria_current="page" if current else "")


def form(address: str, visitor: Visitor, *content: Content, **attributes: str | bool) -> Markup:
    """That posts; it carries the visitor's code."""
    code = single("input", type="hidden", name="code", value=visitor.code)
    return element("form", code, *content, method="post", action=address, **attributes)


def field(called: str, name: str, note: str = "", *, lines: bool = False, kind: str = "text", most: int = 0) -> Markup:
    note_part = [element("small", note)] if note else []
    limits = {"maxlength": str(most)} if most else {}
    entry = (
        element("textarea", name=name, required=True, **limits)
        if lines
        else single("input", type=kind, name=name, required=True, autocomplete="off", **limits)
    )
    return element("label", called, *note_part, entry, class_="field")


def pictures(artist: str, places: list[int], name: str) -> Markup:
    if not places:
        return Markup("")
    return element(
        "div",
        *(single("img", src=f"/picture/{artist}/{place}", alt=f"by {name}", loading="lazy") for place in places),
        class_="pictures",
    )


def rating(visitor: Visitor, question: str) -> Markup:
    """The questionnaire of the paper's study: is the answer reasonable?"""
    choices = [
        element("label", single("input", type="radio", name="rating", value=value, required=True), text)
        for value, text in enumerate(LIKERT, start=1)
    ]
    asked = element(
        "fieldset", element("legend", "How reasonable is this answer?"), element("div", *choices, class_="likert")
    )
    hidden = single("input", type="hidden", name="question", value=question)
    return form(
        "/rate", visitor, hidden, asked, element("button", "Send", type="submit", class_="quiet"), class_="card"
    )


def table(frame: pd.DataFrame | list[tuple], columns: list[str], numbers: tuple[str, ...] = ()) -> Markup:
    rows = frame.itertuples(index=False) if isinstance(frame, pd.DataFrame) else frame

    def cells(kind: str, row: object) -> list[Markup]:
        return [
            element(
                kind, value if isinstance(value, Markup) else str(value), class_="number" if name in numbers else ""
            )
            for name, value in zip(columns, row)  # type: ignore[call-overload]
        ]

    head = element("thead", element("tr", *cells("th", columns)))
    body = element("tbody", *(element("tr", *cells("td", row)) for row in rows))
    return element("div", element("table", head, body), class_="scroll")


def problem_of(problem: str) -> list[Markup]:
    return [element("p", problem, class_="problem", role="alert", id="problem")] if problem else []
