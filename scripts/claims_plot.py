"""What the README shows first, for `readme_tables.py`: every system beside its controls, by its first metric."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from scripts.method_tables import Cells
from tffapps.report.collect import Place, collect
from tffapps.report.forest import WIDE, Group, drawing
from tffapps.report.summary import Comparison, comparisons, interval, signed


def rows(results: pathlib.Path) -> Cells:
    columns = ["system", "data", "metric", "method", "control", "gain, 95 % interval", "verdict", "images (subjects)"]
    return columns, [_row(place, one) for place, shown in _controls(results) for one in shown]


def drawn(results: pathlib.Path) -> str:
    """The same as an SVG file on a ground of its own: whoever shows it may have a dark page."""
    groups = [Group(f"{place.system.name}, {place.data}", place.is_real, shown) for place, shown in _controls(results)]
    picture = drawing(groups, WIDE)
    end = picture.index(">") + 1
    return f'{picture[:end]}<rect width="100%" height="100%" fill="#fff"/>{picture[end:]}\n'


def _controls(results: pathlib.Path) -> Iterator[tuple[Place, list[Comparison]]]:
    """Real images first; drawn ones only where a system has no others."""
    places = sorted(collect(results).places, key=lambda place: not place.is_real)
    judged = {place.system.name for place in places if place.is_real}
    for place in places:
        if not place.is_real and place.system.name in judged:
            continue
        found = comparisons(place.sheets)
        shown = [one for one in found if one.control and one.metric == found[0].metric]
        if shown and place.system.name != "classify":
            yield place, shown


def _row(place: Place, one: Comparison) -> list[str]:
    gain = one.test if one.gain is None else f"{signed(one.gain)} {interval(one.low, one.high)}"
    verdict = f"**{one.verdict}**" if one.verdict in ("ahead", "behind") else one.verdict
    what = [place.system.name, place.data, one.metric, f"{one.method.name} {one.method.mean:.3f}"]
    return [*what, f"{one.baseline.name} {one.baseline.mean:.3f}", gain, verdict, f"{one.images} ({one.subjects})"]
