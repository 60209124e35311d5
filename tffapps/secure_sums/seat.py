"""A site's place in the secure sums of its coordinators: which step of which sum it is at, and what it has answered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tffapps.secure_sums.agreement import Agreement, Refused
from tffapps.secure_sums.identity import Identity, Verdict
from tffapps.secure_sums.member import Member

_MOST_SESSIONS = 1000  # of which numbers are remembered; a session lasts as long as a coordinator's process
_MOST_WORKS = 10_000


class Seat:
    """Answers the coordinator's steps; `mask` is called by the site itself, on what is about to leave.

    `allowed` may refuse an agreement, by raising Refused.
    """

    def __init__(
        self, identity: Identity, verdict: Verdict, allowed: Callable[[Agreement], None] = lambda agreement: None
    ) -> None:
        self._identity, self._verdict, self._allowed = identity, verdict, allowed
        self._answered: dict[str, int] = {}  # session -> the number of its last sum
        self._summed: dict[str, list[str]] = {}  # work -> whose numbers the sum of it has
        self._member: Member | None = None
        self._dealt: Any = None
        self._lock = threading.RLock()

    def answer(self, request: Any) -> dict[str, Any]:
        """What this site says to {"step": …, …}, in fields that JSON can hold."""
        steps = {"advertise": self._advertise, "deal": self._deal, "shares": self._take_shares,
                 "confirm": self._confirm, "unmask": self._unmask}  # fmt: skip
        step = request.get("step") if isinstance(request, dict) else None
        if not isinstance(step, str) or step not in steps:
            raise Refused("no step of a secure sum")
        with self._lock:
            return steps[step](request)

    def mask(self, session: str, number: int, values: np.ndarray) -> np.ndarray:
        """The numbers as they may leave, once, in the sum that was agreed on."""
        with self._lock:
            if self._dealt is None:
                raise Refused("numbers for a secure sum that nobody has agreed on")
            dealt, self._dealt = self._dealt, None
            return self._of(session, number).mask(dealt, values)

    def agreement(self) -> Agreement | None:
        """The one that numbers are waited for."""
        with self._lock:
            return None if self._member is None or self._dealt is None else self._member.agreement

    def _advertise(self, request: dict[str, Any]) -> dict[str, Any]:
        agreement = Agreement.from_fields(request.get("agreement"))
        self._allowed(agreement)
        if agreement.number <= self._answered.get(agreement.session, 0):
            raise Refused(f"secure sum {agreement.number} of this session was answered already")
        member = Member(self._identity, agreement, self._verdict)
        if len(self._answered) >= _MOST_SESSIONS and agreement.session not in self._answered:
            del self._answered[next(iter(self._answered))]
        self._answered[agreement.session] = agreement.number
        self._member, self._dealt = member, None
        return member.advertise()

    def _deal(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._current(request).deal(request.get("adverts") or {})

    def _take_shares(self, request: dict[str, Any]) -> dict[str, Any]:
        self._current(request)
        self._dealt = request.get("dealt") or {}
        return {}

    def _confirm(self, request: dict[str, Any]) -> dict[str, Any]:
        survivors = request.get("survivors")
        if not isinstance(survivors, list):
            raise Refused("no list of those who sent numbers")
        member = self._current(request)
        # Two sums of one work, one of them without some member, would tell that member's numbers.
        if self._summed.get(member.agreement.work, survivors) != survivors:
            raise Refused("the same numbers were summed already, with those of other members")
        return {"signature": member.confirm(survivors)}

    def _unmask(self, request: dict[str, Any]) -> dict[str, Any]:
        member = self._current(request)
        shares = member.unmask(request.get("signatures") or {})
        if member.agreement.work:
            if len(self._summed) >= _MOST_WORKS:
                del self._summed[next(iter(self._summed))]
            self._summed[member.agreement.work] = list(member.survivors)
        return dict(shares)

    def _current(self, request: dict[str, Any]) -> Member:
        return self._of(request.get("session"), request.get("number"))

    def _of(self, session: Any, number: Any) -> Member:
        member = self._member
        if member is None or (member.agreement.session, member.agreement.number) != (session, number):
            raise Refused(f"a step of secure sum {number}, which is not the one that was begun last")
        return member
