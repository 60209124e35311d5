"""What the numbers say, in sentences: worked out, not written by hand."""

from tffapps.report.collect import Place
from tffapps.report.markup import Markup, element, joined
from tffapps.report.summary import Comparison, comparisons, interval, signed


def sentences(place: Place) -> list[Markup]:
    """The first claim, then those beside a control, which say whether an idea helps, then the others."""
    first, rest = comparisons(place.sheets)[:1], comparisons(place.sheets)[1:]
    return [sentence(one) for one in [*first, *sorted(rest, key=lambda one: not one.control)]]


def sentence(one: Comparison) -> Markup:
    against = f"{one.baseline.name} {one.baseline}"
    if one.control:
        against = f"the control {against}"
    metric = f"{_capital(one.metric)}: "
    if one.gain is None:
        return joined(metric, element("strong", one.method.name), f" {one.method} and {against}: {one.test}.")
    p = "" if one.p is None else f", p {'< 0.001' if one.p < 0.001 else f'= {one.p:.3f}'}"
    of = f"{one.images} images of {one.subjects} subjects"
    said = f" {one.method} against {against}: {signed(one.gain)} {interval(one.low, one.high)}{p}, "
    verdict = element("b", one.verdict, class_=f"verdict {one.verdict}")
    return joined(metric, element("strong", one.method.name), said, verdict, f" ({of}).")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
