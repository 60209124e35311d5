"""A forest plot of all claims as SVG: one line each, with its gain, its 95 % interval and its verdict.

It is drawn twice, and the page shows one: for a narrow screen names stand above their lines instead of beside them.

Colours are the page's own variables with plain ones to fall back on, so that the same drawing stands by itself.
"""

import dataclasses
from collections.abc import Callable, Sequence

from tffapps.report.markup import Markup, element, joined
from tffapps.report.summary import AHEAD, BEHIND, Comparison, signed

_TITLE, _HEAD, _FOOT = 24, 34, 46
_INK = {AHEAD: "var(--good, #1d6b3c)", BEHIND: "var(--bad, #a03028)"}
_SOFT, _FAINT, _LINE, _TEXT = (
    "var(--soft, #5f636b)",
    "var(--faint, #6f747d)",
    "var(--line, #dfe1e5)",
    "var(--ink, #1c1d20)",
)
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"


@dataclasses.dataclass(frozen=True)
class Layout:
    name: str
    left: int  # of names, where they stand beside the lines
    plot: int  # of the lines
    right: int  # of the numbers
    row: int
    above: int  # of names, where they stand above the lines
    letters: int  # of a name, at most
    ends: tuple[str, str]  # what stands below the axis
    counts: bool  # of images, at the end of a line

    @property
    def width(self) -> int:
        return self.left + self.plot + self.right

    def middle(self, top: int) -> float:
        """Of a claim's line."""
        return top + (self.row + self.above) / 2


WIDE = Layout(
    "wide", left=330, plot=320, right=170, row=24, above=0, letters=50,
    ends=("← the other is better", "the method is better →"), counts=True,
)  # fmt: skip
NARROW = Layout(
    "narrow", left=24, plot=212, right=124, row=40, above=16, letters=58,
    ends=("← other better", "method better →"), counts=False,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Group:
    """The claims of one system on one data set."""

    title: str
    real: bool
    claims: Sequence[Comparison]


def forest(groups: Sequence[Group]) -> Markup:
    """Both drawings; they scale with the page."""
    return joined(drawing(groups, WIDE), drawing(groups, NARROW))


def drawing(groups: Sequence[Group], layout: Layout) -> Markup:
    """Of the claims that have a gain."""
    shown = [
        dataclasses.replace(group, claims=[claim for claim in group.claims if claim.gain is not None])
        for group in groups
    ]
    shown = [group for group in shown if group.claims]
    height = _HEAD + sum(_TITLE + layout.row * len(group.claims) + 8 for group in shown) + _FOOT
    most = _most(shown)

    def across(gain: float) -> float:
        return layout.left + layout.plot / 2 * (1 + max(-1.0, min(1.0, gain / most)))

    parts = [element("title", _spoken(shown)), *_axis(most, across, height, layout)]
    top = _HEAD
    for group in shown:
        weight = 650 if group.real else 600
        alike = len({claim.metric for claim in group.claims}) == 1  # then it is said once
        title = f"{group.title}: {group.claims[0].metric}" if alike else group.title
        parts.append(_text(title, 4, top + 16, _TEXT, size=13, weight=weight))
        top += _TITLE
        for claim in group.claims:
            parts += _claim(claim, across, top, layout, metric=not alike)
            top += layout.row
        top += 8
    return element(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {layout.width} {height}", width="100%",
        role="img", class_=layout.name, style=f"max-width:{layout.width}px;font-family:{_FONT}",
    )  # fmt: skip


def _most(groups: Sequence[Group]) -> float:
    """Where the axis ends: at the largest gain's interval, rounded up, and not beyond half."""
    claims = [claim for group in groups for claim in group.claims]
    wanted = max((abs(end) for claim in claims for end in (claim.low, claim.high, claim.gain) if end), default=0.1)
    return next((step for step in (0.05, 0.1, 0.2, 0.3, 0.5) if wanted <= step), 0.5)


def _axis(most: float, across: Callable[[float], float], height: int, layout: Layout) -> list[Markup]:
    bottom = height - _FOOT
    parts = []
    for gain in (-most, -most / 2, 0.0, most / 2, most):
        place = across(gain)
        dashed = {} if gain == 0 else {"stroke_dasharray": "2 4"}
        stroke = _FAINT if gain == 0 else _LINE
        parts.append(_line(place, _HEAD - 8, place, bottom, stroke, **dashed))
        parts.append(_text(signed(gain) if gain else "0", place, bottom + 16, _SOFT, anchor="middle", size=11))
    left, right = layout.left, layout.left + layout.plot
    parts.append(_text(layout.ends[0], left + 4, bottom + 36, _SOFT, size=11))
    parts.append(_text(layout.ends[1], right - 4, bottom + 36, _SOFT, anchor="end", size=11))
    parts.append(_text("gain, 95 % interval", (left + right) / 2, 16, _SOFT, anchor="middle", size=11))
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str, **more: str) -> Markup:
    return element("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", stroke=stroke, **more)


def _claim(
    claim: Comparison, across: Callable[[float], float], top: int, layout: Layout, *, metric: bool
) -> list[Markup]:
    assert claim.gain is not None
    middle, ink = layout.middle(top), _INK.get(claim.verdict, _SOFT)
    name = f"{claim.method.name} against {claim.baseline.name}" + (" (control)" if claim.control else "")
    at = (8, top + 14) if layout.above else (16, middle + 4)
    parts = [_text(_short(f"{name}, {claim.metric}" if metric else name, layout.letters), *at, _TEXT, size=12)]
    if claim.low is not None and claim.high is not None:
        parts.append(_line(across(claim.low), middle, across(claim.high), middle, ink, stroke_width="2.5"))
    place = across(claim.gain)
    # Filled: decided. A reader who sees no colour sees this, and the word at the end of the line.
    decided = claim.verdict in (AHEAD, BEHIND)
    parts.append(
        element(
            "rect", x=f"{place - 4.5:.1f}", y=f"{middle - 4.5:.1f}", width=9, height=9, stroke=ink, stroke_width=2,
            fill=ink if decided else "var(--ground, #fff)",
        )
    )  # fmt: skip
    words = f"{signed(claim.gain)} {claim.verdict}"
    parts.append(_text(words, layout.left + layout.plot + 14, middle + 4, ink, size=12, weight=600 if decided else 400))
    if layout.counts:
        parts.append(_text(f"n {claim.images}", layout.width - 4, middle + 4, _FAINT, anchor="end", size=11))
    return parts


def _text(
    text: str, x: float, y: float, fill: str, *, anchor: str = "start", size: int = 12, weight: int = 400
) -> Markup:
    return element(
        "text", text, x=f"{x:.1f}", y=f"{y:.1f}", fill=fill, font_size=size, font_weight=weight, text_anchor=anchor
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _spoken(groups: Sequence[Group]) -> str:
    lines = [
        f"{group.title}: {claim.method.name} against {claim.baseline.name}, {claim.metric}, {signed(claim.gain or 0)}, "
        f"{claim.verdict}"
        for group in groups
        for claim in group.claims
    ]
    return "Gains of all claims with 95 % intervals. " + "; ".join(lines)
