"""Epsilon of releases: dp_accounting's, by Rényi divergences (RDP) and by privacy loss distributions (PLD).

PLD is the tighter of the two; both are upper bounds. Releases compose one after the other, whatever their noise. What
was made of some clients' data alone costs the others nothing: the epsilon of a ledger is that of the client, or of a
record of the client, that has spent most.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from tffapps.privacy.release import CLIENT, GAUSSIAN, POISSON, Release

_INTERVAL = 1e-4  # of PLD's grid: dp_accounting's own
_FINE_UNTIL = 30.0  # epsilon up to which that grid is affordable
_Way = tuple[str, float, float]  # mechanism, noise, sampling


class Spent(NamedTuple):
    """Epsilon at a delta, computed in two ways."""

    rdp: float
    pld: float


NOTHING = Spent(0.0, 0.0)


def spent(releases: Iterable[Release], delta: float, unit: str = CLIENT) -> Spent:
    """By the client that has spent most, or by one of the records of that client, for `unit`."""
    return max((Spent(_rdp(way, delta), _pld(way, delta)) for way in _ways(releases, unit)), default=NOTHING)


def spent_by_rdp(releases: Iterable[Release], delta: float, unit: str = CLIENT) -> float:
    """The first of the two alone: PLD takes a second, too long for every round."""
    return max((_rdp(way, delta) for way in _ways(releases, unit)), default=0.0)


def for_unit(releases: Iterable[Release], unit: str) -> list[Release]:
    """Of one run's releases, those that count for a unit.

    What is hidden in two ways, an image by its client and the client by the server, has a line for each, and what the
    server makes of updates tells no more than they do: the unit's own lines count. Where there is none, the other's do.
    """
    releases = list(releases)
    own = {release.what for release in releases if release.unit == unit}
    return [release for release in releases if release.unit == unit or release.what not in own]


def _ways(releases: Iterable[Release], unit: str) -> set[tuple[tuple[_Way, int], ...]]:
    """Of every client, what was released of its data."""
    seen = [release.of_unit(unit) for release in releases]
    clients = {name for release in seen for name in release.by}
    common = _counted(release for release in seen if not release.by)
    ways = {_key(common)} if common else set()
    for client in clients:
        ways.add(_key(common + _counted(release for release in seen if client in release.by)))
    return ways


def dp_event(release: Release) -> Any:
    """As dp_accounting calls it."""
    import dp_accounting

    if release.noiseless:
        return dp_accounting.NonPrivateDpEvent()
    event: Any = dp_accounting.GaussianDpEvent(release.noise)
    if release.mechanism == POISSON:
        event = dp_accounting.PoissonSampledDpEvent(release.sampling, event)
    return dp_accounting.SelfComposedDpEvent(event, release.count)


def _counted(releases: Iterable[Release]) -> collections.Counter[_Way]:
    """How often each way of releasing was used: equal ones are composed at once."""
    counts: collections.Counter[_Way] = collections.Counter()
    for release in releases:
        counts[(release.mechanism, release.noise, release.sampling)] += release.count
    return counts


def _key(counts: collections.Counter[_Way]) -> tuple[tuple[_Way, int], ...]:
    return tuple(sorted(counts.items()))


@functools.lru_cache(maxsize=4096)
def _rdp(ways: tuple[tuple[_Way, int], ...], delta: float) -> float:
    events = _events(ways)
    if events is None:
        return math.inf
    import dp_accounting

    accountant = dp_accounting.rdp.RdpAccountant()
    for event in events:
        accountant.compose(event)
    return float(accountant.get_epsilon(delta))


@functools.lru_cache(maxsize=4096)
def _pld(ways: tuple[tuple[_Way, int], ...], delta: float) -> float:
    events = _events(ways)
    if events is None:
        return math.inf
    import dp_accounting

    # A large epsilon on a fine grid takes gigabytes. A coarser one rounds up, so it is an upper bound still.
    interval = _INTERVAL * max(1.0, _rdp(ways, delta) / _FINE_UNTIL)
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=interval)
    for event in events:
        accountant.compose(event)
    return float(accountant.get_epsilon(delta))


def _events(ways: tuple[tuple[_Way, int], ...]) -> list[Any] | None:
    """As dp_accounting calls them; None where one is without noise.

    Gaussian releases, each of all that is there, are together as one of the noise 1 / √Σ 1/z²: exactly, and in a tenth
    of the time.
    """
    releases = [Release("", *way[:2], sampling=way[2], count=count) for way, count in ways]
    if any(release.noiseless for release in releases):
        return None
    precision = sum(each.count / each.noise**2 for each in releases if each.mechanism == GAUSSIAN)
    together = [Release("", GAUSSIAN, 1 / math.sqrt(precision))] if precision else []
    return [dp_event(each) for each in (*together, *(each for each in releases if each.mechanism != GAUSSIAN))]
