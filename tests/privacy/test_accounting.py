"""Epsilon of a ledger is dp_accounting's own for the same events, and composes as theory says."""

import math

import dp_accounting
import pytest
from scipy import special

from tffapps.privacy.accounting import NOTHING, spent
from tffapps.privacy.release import EXACT, GAUSSIAN, POISSON, RECORD, Release

DELTA = 1e-5


def gaussian(noise=1.0, count=1, **more):
    return Release("update", GAUSSIAN, noise, count=count, **more)


def gaussian_epsilon(noise, delta):
    """Of one Gaussian release, by the closed form (Balle and Wang 2018), searched by halving."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        first, second = special.log_ndtr([0.5 / noise - middle * noise, -0.5 / noise - middle * noise])
        exact = math.exp(first) - math.exp(middle + second)
        low, high = (middle, high) if exact > delta else (low, middle)
    return high


def test_epsilon_is_that_of_dp_accounting_for_the_same_events():
    releases = [gaussian(2.0, 3), Release("step", POISSON, 1.1, 0.05, 20), gaussian(4.0)]
    events = [
        dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(2.0), 3),
        dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.1)), 20
        ),
        dp_accounting.GaussianDpEvent(4.0),
    ]
    whole = dp_accounting.ComposedDpEvent(events)
    rdp, pld = dp_accounting.rdp.RdpAccountant().compose(whole), dp_accounting.pld.PLDAccountant().compose(whole)
    found = spent(releases, DELTA)
    assert found.rdp == pytest.approx(rdp.get_epsilon(DELTA), rel=1e-9)
    assert found.pld == pytest.approx(pld.get_epsilon(DELTA), rel=1e-6)
    assert found.pld < found.rdp


def test_three_rounds_cost_what_is_known_of_them():
    """Noise 1 three times is noise 1/√3 once, whose epsilon has a closed form: 8.39; RDP is looser: 9.01."""
    found = spent([gaussian()] * 3, DELTA)
    assert (
        found.pld == pytest.approx(gaussian_epsilon(1 / math.sqrt(3), DELTA), abs=2e-3) == pytest.approx(8.39, abs=0.01)
    )
    assert found.rdp == pytest.approx(9.01, abs=0.01)
    assert spent([gaussian(count=3)], DELTA) == found


def test_one_exact_release_is_without_bound_and_none_is_free():
    assert spent([], DELTA) == NOTHING
    assert spent([gaussian(), Release("stain model", EXACT)], DELTA).pld == math.inf
    assert spent([gaussian(noise=0.0)], DELTA).rdp == math.inf


def test_a_client_pays_for_what_was_made_of_its_data():
    releases = [gaussian(by=("a", "b")), gaussian(by=("b",)), gaussian(by=("c",)), gaussian()]
    assert spent(releases, DELTA) == spent([gaussian(count=3)], DELTA)  # b was in three


def test_a_record_and_a_client_are_different_promises():
    assert spent([gaussian(2.0)], DELTA, RECORD) == spent([gaussian(1.0)], DELTA)
    step = Release("step", POISSON, 1.0, 0.1, unit=RECORD, by=("a",))
    assert math.isfinite(spent([step], DELTA, RECORD).rdp)
    assert spent([step], DELTA).rdp == math.inf


def test_a_large_epsilon_is_found_on_a_coarser_grid_and_is_an_upper_bound():
    found = spent([gaussian(0.1, 10)], DELTA)  # noise 1/√1000
    exact = gaussian_epsilon(1 / math.sqrt(1000), DELTA)
    assert exact < found.pld < exact * 1.01 < found.rdp
