"""A site's place in secure sums: one at a time, each number once."""

import secrets

import numpy as np
import pytest

from tests.secure_sums.conftest import BITS, NAMES, drawn
from tffapps.secure_sums.agreement import Agreement, Refused
from tffapps.secure_sums.collector import Collector
from tffapps.secure_sums.seat import Seat

SESSION = secrets.token_hex(16)


@pytest.fixture
def seats(federation):
    return {name: Seat(federation.identities[name], federation.verdict) for name in NAMES}


def played(federation, seats, number, values):
    """One sum over the seats' answers alone; what went by."""
    agreement = Agreement(SESSION, number, NAMES, 5, BITS)
    collector, of = Collector(agreement, federation.verdict), {"session": SESSION, "number": number}

    def ask(step, **more):
        return {name: seat.answer({"step": step, **of, **more}) for name, seat in seats.items()}

    adverts = collector.adverts(ask("advertise", agreement=agreement.to_fields()))
    dealt = collector.dealt(ask("deal", adverts=adverts))
    for name, seat in seats.items():
        seat.answer({"step": "shares", **of, "dealt": dealt[name]})
    masked = {name: seat.mask(SESSION, number, values[name]) for name, seat in seats.items()}
    said = ask("confirm", survivors=collector.survivors(NAMES))
    signatures = collector.confirmed({name: answer["signature"] for name, answer in said.items()})
    return sum(masked.values()) + collector.correction(ask("unmask", signatures=signatures))


def test_sums_one_after_the_other(federation, seats):
    for number in (1, 2, 5):
        values = drawn(number, 5)
        np.testing.assert_array_equal(played(federation, seats, number, values), sum(values.values()))
    for number in (1, 5):
        with pytest.raises(Refused, match=f"secure sum {number} of this session was answered already"):
            played(federation, seats, number, drawn(0, 5))


def test_steps_that_do_not_belong(federation, seats):
    seat, agreement = seats["a"], Agreement(SESSION, 1, NAMES, 5, BITS)
    with pytest.raises(Refused, match="that nobody has agreed on"):
        seat.mask(SESSION, 1, np.zeros(5, np.int64))
    seat.answer({"step": "advertise", "agreement": agreement.to_fields()})
    for request in ({"step": "deal", "session": SESSION, "number": 2}, {"step": "confirm", "survivors": ["a"]}):
        with pytest.raises(Refused, match="which is not the one that was begun last"):
            seat.answer(request)
    for nonsense in ({}, [], {"step": ["deal"]}, {"step": "steal"}):
        with pytest.raises(Refused, match="no step of a secure sum"):
            seat.answer(nonsense)


def test_a_site_may_refuse_an_agreement(federation):
    def friends_only(agreement):
        raise Refused("d is nobody that this site sums with")

    seat = Seat(federation.identities["a"], federation.verdict, friends_only)
    with pytest.raises(Refused, match="nobody that this site sums with"):
        seat.answer({"step": "advertise", "agreement": Agreement(SESSION, 1, NAMES, 5, BITS).to_fields()})
