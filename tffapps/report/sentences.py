"""What the numbers say, in sentences: worked out, not written by hand."""

from tffapps.report.collect import Place
from tffapps.report.markup import Markup, element, joined
from tffapps.report.summary import Comparison, Score, comparisons, signed

_STANDING = {
    "ahead": "ahead by more than the spread of seeds",
    "behind": "behind by more than the spread of seeds",
    "level": "level within the spread of seeds",
    "one seed": "on one seed, which decides nothing",
}


def sentences(place: Place) -> list[Markup]:
    return [sentence(one) for one in comparisons(place.system.name, place.sheets)]


def sentence(one: Comparison) -> Markup:
    paper = "" if one.paper_gain is None else f" (the paper: {signed(one.paper_gain)})"
    standing = f"{signed(one.gain)}, {_STANDING[one.verdict]}{paper}"
    against = f" {one.method} against {one.baseline.name} {one.baseline}: {standing}."
    rivals = tuple(score for score in one.as_good if score is not one.baseline)
    rest = f" As good or better without its idea: {_named(rivals)}." if rivals else ""
    if one.rivals and not rivals:
        rest = f" Not as good: {_named(one.rivals)}."
    return joined(f"{_capital(one.metric)}: ", element("strong", one.method.name), against, rest)


def _named(scores: tuple[Score, ...]) -> str:
    return ", ".join(f"{score.name} {score}" for score in scores)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
