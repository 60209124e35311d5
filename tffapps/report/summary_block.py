"""The summary as HTML: the forest plot, and how to read it."""

from tffapps.report.collect import Found, Place
from tffapps.report.forest import Group, forest
from tffapps.report.markup import Markup, anchor, element, joined
from tffapps.report.summary import SMOKE, comparisons, smoke, tally

_RULE = (
    "Each line is a claim that its system declared before it ran: the method's score less the other's on the same "
    "images, with a 95 % interval by subject. “Ahead” and “behind” are decided by a paired test, corrected for all "
    "claims of its table; “level” means that these images do not tell them apart. A control does the same work without "
    "the paper's idea: where the method is not ahead of it, the idea is not shown to help."
)
_REAL, _DRAWN = "On real images", "On drawn images, which show that the machinery works"


def summary_block(found: Found) -> Markup:
    title = element("h2", "Which claims hold", id="summary")
    groups = {_REAL: _groups(found, real=True), _DRAWN: _groups(found, real=False)}
    if not any(groups.values()):
        made = element("code", "bash run_all.sh")
        missing = element("p", "There are no claims to sum up. ", made, " makes them.", class_="missing")
        return element("article", title, missing)
    parts = [title]
    for heading, shown in groups.items():
        if shown:
            every = [claim for group in shown for claim in group.claims]
            parts.append(element("h3", heading, element("span", f" {tally(every)}", class_="count")))
            parts.append(
                element("div", forest(shown), class_="box forest", tabindex=0, role="region", aria_label=heading)
            )
    notes = [_RULE, *([f"Some tables here are of {SMOKE}."] if smoke(found) else [])]
    links = [
        element("a", place.folder, href=f"#{anchor(place.folder, 'run')}")
        for place in found.places
        if comparisons(place.sheets)
    ]
    parts += [element("p", note, class_="ran") for note in notes]
    parts.append(element("p", "Scores, tests and counts: ", joined(*links, between=", "), class_="ran"))
    return element("article", *parts)


def _groups(found: Found, real: bool) -> list[Group]:
    return [_group(place) for place in found.places if place.is_real == real and comparisons(place.sheets)]


def _group(place: Place) -> Group:
    return Group(f"{place.system.name}, {place.data}", place.is_real, comparisons(place.sheets))
