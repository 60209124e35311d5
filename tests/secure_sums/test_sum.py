"""A secure sum from end to end: exact with and without dropouts, and nothing but the sum to be seen."""

import numpy as np
import pytest
from scipy import stats

from tests.secure_sums.conftest import BITS, NAMES, Sum, drawn
from tffapps.secure_sums.agreement import Agreement, Refused

MANY = 100_000


@pytest.mark.parametrize("dropped", [(), ("b",), ("a",)])
def test_the_sum_of_those_who_sent_is_exact(federation, dropped):
    sum_, values = Sum(federation, 1000), drawn(0, 1000)
    masked = sum_.masked(values, dropped)
    total = sum_.total(masked, sum_.shares(sum_.confirmed(masked)))
    np.testing.assert_array_equal(total, sum(values[name] for name in NAMES if name not in dropped))


def test_a_member_that_goes_away_after_it_sent_is_in_the_sum(federation):
    """Three of four unmask, which is the threshold."""
    sum_, values = Sum(federation), drawn(1, 5)
    masked = sum_.masked(values)
    signatures = sum_.confirmed(masked)
    shares = {name: sum_.members[name].unmask(signatures) for name in ("a", "c", "d")}
    np.testing.assert_array_equal(sum_.total(masked, shares), sum(values.values()))


def uniform(numbers):
    """The p-value of numbers modulo 2^64 being uniform."""
    return stats.kstest(numbers.view(np.uint64) / 2.0**64, "uniform").pvalue


def test_what_is_sent_is_uniform_and_no_mask_is_used_twice(federation):
    """The same small numbers in two sums: neither message, nor their difference, nor a sum of fewer tells anything."""
    values = {name: np.full(MANY, 7) for name in NAMES}
    first, second = (Sum(federation, MANY, number).masked(values) for number in (1, 2))
    seen = [*first.values(), *second.values()]
    seen += [first[name] - second[name] for name in NAMES]
    seen += [first["a"] + first["b"], sum(first.values()), first["a"] - first["b"]]
    assert min(uniform(numbers) for numbers in seen) > 1e-6
    assert uniform(values["a"]) < 1e-9 and uniform(first["a"] % (1 << 62)) < 1e-9  # the test can tell


def test_numbers_that_do_not_fit_are_refused(federation):
    for bad in (np.array([0, 1 << BITS]), np.array([-1, 0]), np.zeros(3, np.int64), np.zeros(2, np.int32)):
        sum_ = Sum(federation, 2)
        with pytest.raises(Refused, match="numbers"):
            sum_.members["a"].mask(sum_.told["a"], bad)


def test_too_few_members(federation):
    with pytest.raises(Refused, match="of 2 members: it takes at least 3, since each of two knows the other's"):
        Agreement("0" * 32, 1, ("a", "b"), 5, BITS)
    sum_ = Sum(federation, names=("a", "b", "c"))
    masked = sum_.masked(drawn(0, 5), dropped=("b", "d"))
    with pytest.raises(Refused, match="without b: 2 members are left, and it takes 3"):
        sum_.collector.survivors(list(masked))
    with pytest.raises(Refused, match="only 2 members sent numbers"):
        sum_.members["a"].confirm(["a", "c"])


@pytest.mark.parametrize(
    "change",
    [
        {"session": "x"},
        {"number": 0},
        {"members": ("b", "a", "c")},
        {"size": 0},
        {"bits": 63},
        {"members": ("a",) * 3},
        {"work": "x"},
    ],
)
def test_agreements_that_cannot_be(change):
    good = {"session": "0" * 32, "number": 1, "members": NAMES, "size": 5, "bits": BITS, "work": "a" * 64}
    assert Agreement.from_fields(Agreement(**good).to_fields()) == Agreement(**good)
    with pytest.raises(Refused):
        Agreement(**{**good, **change})
    with pytest.raises(Refused):
        Agreement.from_fields({**good, "members": "abc"})
