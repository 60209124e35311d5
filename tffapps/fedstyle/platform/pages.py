"""The pages: what each says, as HTML. Whatever comes from people is text here, never markup."""

from __future__ import annotations

from tffapps.fedstyle.catalogue import CONSENT
from tffapps.fedstyle.platform import desk
from tffapps.fedstyle.platform.cards import Card, cards
from tffapps.fedstyle.platform.finder import Answer, Found
from tffapps.fedstyle.platform.parts import field, form, pictures, problem_of, rating
from tffapps.fedstyle.platform.rooms import Rooms
from tffapps.fedstyle.platform.visitors import Visitor
from tffapps.report.markup import Markup, element, single

MOST_BYTES = 12_000_000  # of a picture that is asked about
_PALETTE = Markup(
    '<svg viewBox="0 0 24 24" aria-hidden="true"><rect x="3" y="4" width="18" height="16" rx="2"/>'
    '<circle cx="8.5" cy="9.5" r="1.6"/><path d="M4 18l5.5-5 3.5 3 3-2.5 4 4"/></svg>'
)


class Pages(Rooms):
    """All pages of a catalogue."""

    def welcome(self, visitor: Visitor, problem: str = "") -> bytes:
        count = self._catalogue.rows("SELECT count(*) FROM artists")[0][0]
        said = f"{count} artist{'s' * (count != 1)} in the catalogue."
        entry = form(
            "/enter",
            visitor,
            element("h2", "Come in"),
            *problem_of(problem),
            field(
                "Your token",
                "token",
                "An artist's key, or a token that this catalogue's operator gave you.",
                kind="password",
                most=100,
            ),
            element("button", "Enter", type="submit"),
            class_="card",
        )
        return self._page(
            "Welcome",
            visitor,
            "",
            element(
                "div",
                element(
                    "div",
                    element("h1", "Find the artist by the hand"),
                    element(
                        "p",
                        "Show a picture whose style you like. The catalogue names the artists whose hand is nearest,"
                        " and says so when nobody's is. Then ask one of them for a work of your own.",
                        class_="lead",
                    ),
                    element("p", said, class_="fine"),
                ),
                entry,
                class_="two",
            ),
        )

    def ask(self, visitor: Visitor, result: Markup | None = None, problem: str = "") -> bytes:
        drop = element(
            "label",
            element(
                "span",
                _PALETTE,
                element("h3", "Drop a picture here"),
                element("span", f"or choose one: JPEG or PNG, up to {MOST_BYTES // 10**6} MB", class_="fine"),
                class_="hint",
            ),
            single("img", alt="the picture you ask about", hidden=True),
            single("input", type="file", name="picture", accept="image/jpeg,image/png", required=True),
            class_="drop",
        )
        asking = form(
            "/ask",
            visitor,
            drop,
            element("button", "Find artists", type="submit", class_="wide"),
            id="ask",
            enctype="multipart/form-data",
            data_most=str(MOST_BYTES),
        )
        told = element("p", problem, id="told", class_="problem", role="alert", hidden=not problem)
        empty = element(
            "div",
            element(
                "p",
                "The artists whose hand is nearest will be here, and “none of these” where nobody's is near enough.",
                class_="lead",
            ),
            id="answer",
        )
        return self._page(
            "Ask",
            visitor,
            "/",
            element("h1", "Whose hand is it?"),
            element(
                "div",
                element("div", asking, told, element("p", "The picture is looked at and forgotten.", class_="fine")),
                result or empty,
                class_="two",
            ),
        )

    def result(self, visitor: Visitor, answer: Answer, question: str) -> Markup:
        known, items, place = cards(self._catalogue, [each.artist for each in answer.found]), [], 0
        for each in answer.found:
            if each.artist and each.artist not in known:
                continue  # withdrawn a moment ago
            place += bool(each.artist)
            items.append(_found(known[each.artist], each, place) if each.artist else _none(each, place == 0))
        scale = (
            f"Shares are fitted on {answer.fitted} pictures of these artists."
            if answer.fitted
            else "Similarities: this catalogue's scores are not fitted yet, “none of these” is a rough guess."
        )
        said = f"{answer.artists} artist{'s' * (answer.artists != 1)} compared in {answer.milliseconds} ms. {scale}"
        return element(
            "div",
            element("ol", *items, class_="artists"),
            element("p", said, class_="fine"),
            rating(visitor, question),
            id="answer",
            class_="stack",
        )

    def artists(self, visitor: Visitor) -> bytes:
        known = cards(self._catalogue)
        items = [
            element(
                "li",
                element("span", "", class_="place"),
                element(
                    "div",
                    element("h3", element("a", card.name, href=f"/artist/{card.id}")),
                    element("p", card.words, class_="words"),
                    pictures(card.id, card.published, card.name),
                ),
            )
            for card in known.values()
        ]
        nobody = element("p", "Nobody has joined yet.", class_="lead")
        return self._page(
            "Artists",
            visitor,
            "/artists",
            element("h1", "Artists"),
            element("ol", *items, class_="artists") if items else nobody,
        )

    def artist(self, visitor: Visitor, card: Card, problem: str = "", sent: bool = False) -> bytes:
        if sent:
            asking = element("p", f"Sent. {card.name} finds it in their inbox.", class_="done", role="status")
        else:
            asking = form(
                f"/artist/{card.id}/request",
                visitor,
                element("h2", f"Ask {card.name} for a work"),
                *problem_of(problem),
                field("What you wish for", "words", "Subject, size, by when.", lines=True, most=desk.MESSAGE),
                field("How to reach you", "contact", f"Only {card.name} sees it.", most=desk.CONTACT),
                element("button", "Send to the artist", type="submit"),
                class_="card",
            )
        return self._page(
            card.name,
            visitor,
            "",
            element("h1", card.name),
            element(
                "div",
                element(
                    "div",
                    element("p", card.words, class_="words"),
                    pictures(card.id, card.published, card.name),
                    class_="large",
                ),
                asking,
                class_="two",
            ),
        )

    def join(self, visitor: Visitor, address: str) -> bytes:
        command = (
            f'tffapps fedstyle enrol BUNDLE my_pictures --name "Your name" --words "What you make" \\\n'
            f"    --publish best.jpg --server {address} --invitation TOKEN --consent"
        )
        return self._page(
            "Join",
            visitor,
            "/join",
            element("h1", "Join as an artist"),
            element(
                "p",
                "Your pictures stay on your machine. The federation's encoder looks at them there; what is sent is the"
                " mean of what it sees, your name, your words, and at most three pictures that you name.",
                class_="lead",
            ),
            element(
                "div",
                element("h2", "From your own machine"),
                element("pre", command),
                element(
                    "p",
                    "The operator gives you the bundle and an invitation. You get a key: it opens your inbox,"
                    " and withdraws you, here or by ",
                    element("code", "tffapps fedstyle withdraw enrolment.json"),
                    ".",
                ),
                class_="card",
            ),
            element("div", element("h2", "What you agree to"), element("p", CONSENT), class_="card"),
        )

    def said(self, visitor: Visitor, title: str, text: str) -> bytes:
        """A page with one sentence: what went wrong, or what is done."""
        return self._page(
            title,
            visitor,
            "",
            element("h1", title),
            element("p", text, id="problem", class_="lead"),
            element("p", element("a", "Back to the catalogue", href="/")),
        )


def _found(card: Card, each: Found, place: int) -> Markup:
    share = each.share if each.share is not None else max(0.0, each.similarity)
    score = f"{each.share:.0%}" if each.share is not None else f"similarity {each.similarity:.2f}"
    return element(
        "li",
        element("span", str(place), class_="place"),
        element(
            "div",
            element(
                "div",
                element("h3", element("a", card.name, href=f"/artist/{card.id}")),
                element("span", score, class_="score"),
                class_="row",
            ),
            single("progress", max="1", value=f"{share:.3f}", aria_label=f"{card.name}: {score}"),
            Markup("</progress>"),
            element("p", card.words, class_="words") if card.words else Markup(""),
            pictures(card.id, card.published, card.name),
            element("a", "Ask for a work", href=f"/artist/{card.id}", class_="button quiet"),
        ),
    )


def _none(each: Found, first: bool) -> Markup:
    score = f"{each.share:.0%}" if each.share is not None else f"similarity below {each.similarity:.2f}"
    said = (
        "Nobody's hand is near enough; those below are the nearest there are." if first else "Those below are far off."
    )
    row = element("div", element("h3", "None of these"), element("span", score, class_="score"), class_="row")
    return element(
        "li",
        element("span", "–", class_="place"),
        element("div", row, element("span", said, class_="fine")),
        class_="none",
    )
