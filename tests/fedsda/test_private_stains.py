"""Stains under differential privacy: what one patch changes, what the noise promises, and what is left to draw from."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fedsda.known import local
from tffapps.data import tissue
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.fedsda import stain_release
from tffapps.fedsda.private_stains import NoisedStains
from tffapps.fedsda.stain_source import FederationStains
from tffapps.privacy.accounting import spent
from tffapps.privacy.release import GAUSSIAN, Release


@pytest.fixture(scope="module")
def stains():
    return [tissue.centre_stains(centre, 300, 0) for centre in (0, 1)]


@pytest.fixture(scope="module")
def federation(stains):
    with open_engine("in-process"):
        return FederationStains.of(local([("a", stains[0]), ("b", stains[1])]))


def silent(matrices):
    return stain_release.released(matrices, 0.0, np.random.default_rng(0))


def test_places_become_directions_again(stains):
    again = stain_release.directions(stain_release.places(stains[0]))
    assert again == pytest.approx(stains[0], abs=1e-5)


def test_one_patch_changes_what_is_sent_by_one_at_most(stains):
    wild = np.abs(np.random.default_rng(0).normal(size=(500, 3, 2)))  # far from any stain: all of these are cut
    wild /= np.linalg.norm(wild, axis=1, keepdims=True)
    changes = [np.linalg.norm(silent(np.concatenate([stains[0], one[None]])) - silent(stains[0])) for one in wild]
    assert max(changes) <= 1 + 1e-6 and max(changes) > 0.99


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (4.0, 1e-6)])
def test_the_noise_is_what_epsilon_takes(epsilon, delta):
    noise = stain_release.multiplier(epsilon, delta)
    assert spent([Release("stains", GAUSSIAN, noise)], delta).pld == pytest.approx(epsilon, rel=2e-3)
    assert spent([Release("stains", GAUSSIAN, 0.98 * noise)], delta).pld > epsilon


def test_without_noise_it_is_the_gaussian_of_the_places(stains):
    mixture = stain_release.gaussian_of(silent(stains[0]), len(stains[0]))
    found = stain_release.places(stains[0])
    assert mixture.means[0] == pytest.approx(found.mean(axis=0), abs=1e-6)
    assert mixture.covariances[0] == pytest.approx(np.cov(found.T, bias=True), abs=2e-5)


def test_noise_costs_nearness_and_never_a_stain(federation):
    numbers = np.repeat([0, 1], 400)
    distances = {}
    for epsilon in (0.1, 1e4):
        model = NoisedStains.released_by(federation, epsilon, 1e-5)
        assert model.parameters == 2 * 14 and np.array_equal(model.draw(numbers, 1), model.draw(numbers, 1))
        drawn = model.draw(numbers, 0)
        assert (drawn >= 0).all() and np.linalg.norm(drawn, axis=1) == pytest.approx(1, abs=1e-5)
        vectors = model.sample_standardised(numbers, 0)
        distances[epsilon] = federation.sources[0].distances(vectors[numbers == 0], federation.moments)["fd"]
    assert distances[1e4] < 0.1 < distances[0.1]
    again = NoisedStains.released_by(federation, 1.0, 1e-5)  # another fold or seed: the same numbers
    assert np.array_equal(again.mixtures[1].means, NoisedStains.released_by(federation, 1.0, 1e-5).mixtures[1].means)


def test_sites_are_refused_by_name(federation):
    class AtSite:
        client = "a"

    with pytest.raises(UserError, match="--stain-model gaussian-dp: cannot be had across sites"):
        NoisedStains.released_by(FederationStains([AtSite()], federation.moments), 1.0, 1e-5)
