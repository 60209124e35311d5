"""`--aggregator dp` across sites: clipped and noised by each site's own process, and counted by it."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest

from tests.site.quartet import at_home, dense_task, heard, plain_rows, whole_numbers
from tffapps.engine import site_sum
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.privacy.ledger import Ledger
from tffapps.secure_sums.form import UNIT
from tffapps.site.budget import FILE, Budget

CLIP, NOISE, DELTA = 0.5, 2.0, 1e-5


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    with at_home(tmp_path_factory) as found:
        yield found


@pytest.fixture(scope="module")
def task():
    return dense_task(30)


def round_of(task, *aggregation, **more):
    return build_round(task, FedAvg(learning_rate=0.1), Aggregation(*aggregation, **more), 4, across_sites=True)


@pytest.fixture(scope="module")
def noised(task):
    return round_of(task, "dp", dp_clip=CLIP, dp_noise=NOISE)


@pytest.fixture(scope="module")
def plain(task):
    return round_of(task)


@pytest.fixture(scope="module")
def weights(task):
    return task.model.get_weights()


def spent(site) -> float:
    return Budget(site.budget._ledger.path.parent, site.name, delta=DELTA).epsilon


def by_accountant(rounds: int) -> float:
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(NOISE), rounds)
    return accountant.get_epsilon(DELTA)


def clipped(row: np.ndarray, size: int) -> np.ndarray:
    values = row[:size]
    return values * min(1.0, CLIP / np.linalg.norm(values))


def test_what_leaves_is_noised_and_counted_over_all_runs(sites, noised, weights, monkeypatch):
    with sites.engine() as engine, heard(monkeypatch) as messages, plain_rows(monkeypatch) as rows:
        everyone, state = sites.clients(engine), noised.start(weights)
        for number, asked in ((1, [0, 1, 2, 3]), (2, [0, 1])):
            outcome = play(noised, state, everyone, number, 2, asked=asked)
            state = outcome.state
    sent = [UNIT * (each - 2.0**49) for each in whole_numbers(messages)]
    assert len(sent) == len(rows) == 6
    size = len(sent[0])  # the update alone: no weight, no loss, no number of examples
    assert size == sum(array.size for array in weights) == len(rows[0]) - 5
    for numbers in sent:
        nearest = min((numbers - clipped(row, size) for row in rows), key=lambda noise: float(np.linalg.norm(noise)))
        assert nearest.std() == pytest.approx(CLIP * NOISE, rel=0.05) and abs(nearest.mean()) < 0.1
    mean = np.concatenate([np.ravel(after - before) for after, before in zip(outcome.state.weights, weights)])
    assert np.isfinite(mean).all() and outcome.took_part == 2 and np.isnan(outcome.loss)
    # a and b took part in two rounds, the others in one; a site that is started anew goes on counting.
    for site, rounds in zip(sites.members, (2, 2, 1, 1)):
        assert spent(site) == pytest.approx(by_accountant(rounds), rel=1e-6)
        assert len(Ledger(site.budget._ledger.path).releases()) == rounds
        assert site.budget._ledger.path.name == FILE


def test_each_adds_its_share_of_the_noise_to_a_masked_sum(sites, task, weights, monkeypatch):
    round_ = round_of(task, "dp", dp_clip=CLIP, dp_noise=NOISE, dp_secure=True)
    sums, read = [], site_sum.Form.read
    monkeypatch.setattr(
        site_sum.Form, "read", lambda form, total, members: sums.append((form, total)) or read(form, total, members)
    )
    before = [len(site.budget._ledger.releases()) for site in sites.members]
    with sites.engine() as engine, heard(monkeypatch) as messages, plain_rows(monkeypatch) as rows:
        play(round_, round_.start(weights), sites.clients(engine), 1, 4)
    for site, count in zip(sites.members, before):  # what all shares come to is what each site counts
        assert spent(site) == pytest.approx(by_accountant(count + 1), rel=1e-6)
    ((form, total),), size = sums, len(sums[0][1])
    noise = UNIT * (total - 4 * 2.0**49) - sum(clipped(row, size) for row in rows)
    # Three must be left at the end, and three shares are all of it; four have come.
    assert form.noise.shared_by == 3 and noise.std() == pytest.approx(CLIP * NOISE * (4 / 3) ** 0.5, rel=0.05)
    assert all((abs(each) < 2**51).mean() < 0.01 for each in whole_numbers(messages))  # of 50 bits: they are masked


def limited(site, patch, epsilon=None, only_masked=False):
    """The site with an end to its budget, or other rules."""
    patch.setattr(site.sums, "_budget", Budget(site.budget._ledger.path.parent, site.name, epsilon, DELTA))
    patch.setattr(site.sums, "_only_masked", only_masked)


def test_a_budget_that_is_spent(sites, noised, plain, weights, monkeypatch):
    site = sites.members[0]
    before = len(site.budget._ledger.releases())
    most = by_accountant(before + 1) + 1e-3
    with monkeypatch.context() as patch:
        limited(site, patch, epsilon=most)
        with sites.engine() as engine:
            everyone, start = sites.clients(engine), noised.start(weights)
            assert play(noised, start, everyone, 1, 4).took_part == 4
            left_out = play(noised, start, everyone, 2, 3).left_out
            assert f"and its budget is {most:g}" in left_out["a"] and set(left_out) == {"a"}
            assert len(site.budget._ledger.releases()) == before + 1
            # Nothing goes around it.
            left_out = play(plain, plain.start(weights), everyone, 1, 3).left_out
            assert "training images leaves noised, or not at all" in left_out["a"]


def test_a_site_that_gives_its_numbers_to_secure_sums_alone(sites, noised, plain, task, weights, monkeypatch):
    secure = round_of(task, "secure")
    site = sites.members[3]
    with monkeypatch.context() as patch:
        limited(site, patch, only_masked=True)
        with sites.engine() as engine:
            everyone = sites.clients(engine)
            for round_, why in ((plain, "leaves masked, or not at all"), (noised, "to secure sums alone")):
                assert why in play(round_, round_.start(weights), everyone, 1, 3).left_out["d"]
            assert play(secure, secure.start(weights), everyone, 1, 4).took_part == 4
