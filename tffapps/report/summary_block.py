"""The summary as HTML."""

from tffapps.report.collect import Found, Place
from tffapps.report.markup import Markup, anchor, element, joined
from tffapps.report.summary import SMOKE, Comparison, Score, comparisons, signed, smoke

_HEAD = ("metric", "gain", "method", "baseline", "as good or better without it", "paper's gain")
_NUMBERS = {"gain": "number", "paper's gain": "number paper"}
_RULE = (
    "Gain: the method's score less the baseline's. Scores are called level when they differ by no more than the larger "
    "of their standard deviations over seeds, or by less than 0.005. “As good or better without it”: the baseline, "
    "controls and other methods that are level with the paper's method or ahead of it; where one stands there, these "
    "numbers do not show that the paper's idea helps."
)


def summary_block(found: Found) -> Markup:
    groups = [group for place in found.places for group in _group(place)]
    title = element("h2", "Summary", id="summary")
    if not groups:
        made = element("code", "bash run_all.sh")
        missing = element("p", "There are no tables to sum up. ", made, " makes them.", class_="missing")
        return element("article", title, missing)
    head = [element("th", name, scope="col", class_=_NUMBERS.get(name, "")) for name in _HEAD]
    table = element("table", element("thead", element("tr", *head)), *groups)
    box = element("div", table, class_="box summary", tabindex=0, role="region", aria_label="Summary")
    notes = [_RULE, *([f"Some tables here are of {SMOKE}."] if smoke(found) else [])]
    return element("article", title, box, *(element("p", note, class_="ran") for note in notes))


def _group(place: Place) -> list[Markup]:
    """A line that names the application, its data and its tables, then its comparisons."""
    found = comparisons(place.system.name, place.sheets)
    if not found:
        return []
    files = dict.fromkeys(name for one in found for name in one.files)
    links = [element("a", name, href=f"#{anchor(place.folder, name)}", class_="file") for name in files]
    named = element("a", place.system.name, href=f"#{anchor(place.folder, 'run')}")
    badge = element("span", place.data, class_="badge real" if place.is_real else "badge")
    line = element("span", named, " ", badge, " ", joined(*links, between=" "))
    return [
        element(
            "tbody",
            element("tr", element("th", line, colspan=len(_HEAD), scope="rowgroup"), class_="group"),
            *(_row(one) for one in found),
        )
    ]


def _row(one: Comparison) -> Markup:
    others = [element("div", _score(score, "the baseline" if score is one.baseline else "")) for score in one.as_good]
    verdict = element("span", one.verdict, class_=f"verdict {anchor(one.verdict)}")
    paper = "" if one.paper_gain is None else signed(one.paper_gain)
    return element(
        "tr",
        element("th", one.metric, scope="row"),
        element("td", element("b", signed(one.gain)), " ", verdict, class_="number"),
        element("td", _score(one.method)),
        element("td", _score(one.baseline)),
        element("td", *(others or [element("span", "nobody", class_="spread")])),
        element("td", paper, class_="number paper"),
    )


def _score(score: Score, instead: str = "") -> Markup:
    if instead:
        return element("span", instead, class_="who")
    spread = "" if score.spread is None else element("span", f" ± {score.spread:.3f}", class_="spread")
    return joined(element("span", score.name, class_="who"), f" {score.mean:.3f}", spread)
