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

from tffapps.privacy.release import CLIENT, POISSON, Release

_INTERVAL = 1e-4  # of PLD's grid: dp_accounting's own
_FINE_UNTIL = 30.0  # epsilon up to which that grid is affordable
_Way = tuple[str, float, float]  # mechanism, noise, sampling


class Spent(NamedTuple):
    """Epsilon at a delta, computed in two ways."""

    rdp: float
    pld: float


NOTHING, UNBOUNDED = Spent(0.0, 0.0), Spent(math.inf, math.inf)


def spent(releases: Iterable[Release], delta: float, unit: str = CLIENT) -> Spent:
    """By the client that has spent most, or by one of the records of that client, for `unit`."""
    seen = [release.of_unit(unit) for release in releases]
    clients = {name for release in seen for name in release.by}
    common = _counted(release for release in seen if not release.by)
    ways = {_key(common)}
    for client in clients:
        ways.add(_key(common + _counted(release for release in seen if client in release.by)))
    return max((_spent(way, delta) for way in ways), default=NOTHING)


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
def _spent(ways: tuple[tuple[_Way, int], ...], delta: float) -> Spent:
    if not ways:
        return NOTHING
    releases = [Release("", *way[:2], sampling=way[2], count=count) for way, count in ways]
    if any(release.noiseless for release in releases):
        return UNBOUNDED
    import dp_accounting

    events = [dp_event(release) for release in releases]
    by_rdp = dp_accounting.rdp.RdpAccountant()
    for event in events:
        by_rdp.compose(event)
    rdp = float(by_rdp.get_epsilon(delta))
    # A large epsilon on a fine grid takes gigabytes. A coarser one rounds up, so it is an upper bound still.
    interval = _INTERVAL * max(1.0, rdp / _FINE_UNTIL)
    by_pld = dp_accounting.pld.PLDAccountant(value_discretization_interval=interval)
    for event in events:
        by_pld.compose(event)
    return Spent(rdp, float(by_pld.get_epsilon(delta)))
