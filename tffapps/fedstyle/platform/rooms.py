"""The pages that are not everybody's: an artist's inbox, the study, the operator's desk."""

from __future__ import annotations

import pandas as pd

from tffapps.fedstyle.catalogue import Catalogue
from tffapps.fedstyle.platform import desk
from tffapps.fedstyle.platform.cards import Card, cards
from tffapps.fedstyle.platform.parts import form, page, problem_of, table
from tffapps.fedstyle.platform.visitors import Visitor
from tffapps.report.markup import Markup, element, single


class Rooms:
    def __init__(self, name: str, catalogue: Catalogue) -> None:
        self._name, self._catalogue = name, catalogue

    def _page(self, title: str, visitor: Visitor, at: str, *content: Markup) -> bytes:
        return page(title, self._name, visitor, at, *content)

    def inbox(self, visitor: Visitor, card: Card, requests: list[tuple], problem: str = "") -> bytes:
        items = [
            element(
                "div",
                element("p", words, class_="words"),
                element(
                    "div",
                    element("span", f"{contact} · {_when(at)}", class_="score"),
                    form(
                        f"/inbox/{number}/remove", visitor, element("button", "Remove", type="submit", class_="quiet")
                    ),
                    class_="row",
                ),
                class_="card",
            )
            for number, words, contact, at in requests
        ]
        leaving = form(
            "/withdraw",
            visitor,
            element("h2", "Leave the catalogue"),
            *problem_of(problem),
            element("p", "Your name, words, published pictures, prototype, spread and requests are removed at once."),
            element(
                "label",
                single("input", type="checkbox", name="sure", value="yes", required=True),
                " I wish to withdraw",
                class_="field",
            ),
            element("button", "Withdraw", type="submit", class_="quiet"),
            class_="card",
        )
        nothing = element("p", "No request yet.", class_="lead")
        return self._page(
            "Inbox",
            visitor,
            "/inbox",
            element("h1", f"Requests to {card.name}"),
            element("div", element("div", *(items or [nothing]), class_="stack"), leaving, class_="two"),
        )

    def study(self, visitor: Visitor, found: pd.DataFrame) -> bytes:
        shown = pd.DataFrame(
            {
                "Participation": found["participation"],
                "Data source": found["data source"],
                "Answers": found["answers"],
                **{
                    title: found[name].map(lambda value: "–" if value != value else f"{value:.2f}")
                    for title, name in (("Avg", "avg"), ("D-value", "d_value"), ("S.D.", "sd"))
                },
            }
        )
        rows = table(shown, list(shown.columns), ("Answers", "Avg", "D-value", "S.D."))
        nothing = element("p", "No answers yet.", class_="lead")
        return self._page(
            "Study",
            visitor,
            "/study",
            element("h1", "How reasonable are the answers?"),
            element(
                "p",
                "Whoever asks with a picture may rate the answer from 1, very unreasonable, to 5, very reasonable. Avg"
                " is the mean, D-value the range, S.D. the standard deviation.",
                class_="lead",
            ),
            element("div", rows if len(found) else nothing, class_="card"),
        )

    def desk(self, visitor: Visitor, held: desk.Desk, new: tuple[str, str] | None = None, problem: str = "") -> bytes:
        told = (
            [element("p", f"New {new[0]} token, shown this once: ", element("code", new[1]), class_="done")]
            if new
            else []
        )
        roles = [element("option", role, value=role) for role in desk.ISSUED]
        issue = form(
            "/desk/token",
            visitor,
            element("h2", "Give out a token"),
            *problem_of(problem),
            *told,
            element("label", "For", element("select", *roles, name="role"), class_="field"),
            element(
                "label",
                "Note",
                element("small", "Whom it is for."),
                single("input", type="text", name="note", maxlength=desk.NOTE),
                class_="field",
            ),
            element("button", "Make it", type="submit"),
            class_="card",
        )
        tokens = table(
            [
                (role, note, _when(at), _button(f"/desk/token/{start}/remove", visitor, "Take back"))
                for start, role, note, at in held.tokens()
            ],
            ["Role", "Note", "Since", ""],
        )
        artists = table(
            [
                (card.name, _button(f"/desk/artist/{card.id}/remove", visitor, "Remove"))
                for card in cards(self._catalogue).values()
            ],
            ["Artist", ""],
        )
        log = [
            (
                _when(at),
                role,
                count,
                "none of these" if none else first or "(withdrawn)",
                "–" if score is None else f"{score:.2f}",
                spent,
                stars or "–",
            )
            for at, role, count, first, none, score, spent, stars in held.logged()
        ]
        columns = ["When", "Role", "Artists", "First", "Similarity", "ms", "Rating"]
        return self._page(
            "Desk",
            visitor,
            "/desk",
            element("h1", "Desk"),
            element("div", issue, element("div", element("h2", "Tokens"), tokens, class_="card"), class_="two"),
            element("div", element("h2", "Artists"), artists, class_="card"),
            element(
                "div",
                element("h2", "Questions"),
                element("p", "Without pictures, the newest first.", class_="fine"),
                table(log, columns, ("Artists", "Similarity", "ms", "Rating")),
                class_="card",
            ),
        )


def _button(address: str, visitor: Visitor, called: str) -> Markup:
    return form(address, visitor, element("button", called, type="submit", class_="quiet"))


def _when(at: str) -> str:
    return at[:16].replace("T", " ")
