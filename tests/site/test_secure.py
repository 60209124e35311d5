"""`--aggregator secure` across sites: the coordinator learns the sum, exactly, and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from tests.conftest import largest_difference
from tests.site.quartet import NAMES, at_home, dense_task, heard, plain_rows, whole_numbers
from tffapps.engine import open_engine, remote, site_sum
from tffapps.engine.tff_internals import executor_pb2
from tffapps.errors import RunStopped, UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fixmatch import FixMatch
from tffapps.federated.fpl import FPL
from tffapps.federated.round import State, build_round
from tffapps.federated.scaffold import Scaffold
from tffapps.federated.statistics import build_reestimation, reestimate
from tffapps.secure_sums.form import WEIGHT
from tffapps.site import log as logs
from tffapps.site import numbers
from tffapps.site.relay import Refused

SECURE = Aggregation("secure")


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    with at_home(tmp_path_factory) as found:
        yield found


@pytest.fixture(scope="module")
def wide():
    """More than 10^5 weights."""
    return dense_task(540)


@pytest.fixture(scope="module")
def round_(wide):
    return build_round(wide, FedAvg(learning_rate=0.002), SECURE, 4, across_sites=True)


def others(task, seed):
    """Weights that no other test begins with: sites refuse to sum the same work twice, each time with other members."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 0.05, array.shape).astype(np.float32) for array in task.model.get_weights()]


def totals(patch):
    """What the coordinator has once the masks are off, and in which form."""
    found = []

    def reading(form, total, members):
        found.append((form, total.copy(), members))
        return read(form, total, members)

    read = site_sum.Form.read
    patch.setattr(site_sum.Form, "read", reading)
    return found


def uniform(numbers):
    """The p-value of numbers modulo 2^64 being uniform."""
    return stats.kstest(numbers.view(np.uint64) / 2.0**64, "uniform").pvalue


def test_the_sum_is_exact_and_nothing_else_is_heard(sites, round_, wide, monkeypatch):
    weights, sums = others(wide, 0), totals(monkeypatch)
    with sites.engine() as engine, heard(monkeypatch) as messages, plain_rows(monkeypatch) as rows:
        state, everyone = round_.start(weights), sites.clients(engine)
        for number in (1, 2):
            outcome = play(round_, state, everyone, number, 4)
            state = outcome.state
    plain = build_round(wide, FedAvg(learning_rate=0.002), SECURE, 4)
    with open_engine("in-process") as engine:
        here, everyone = plain.start(weights), sites.clients(engine)
        for number in (1, 2):
            expected = play(plain, here, everyone, number, 4)
            here = expected.state
    assert largest_difference(state.weights, here.weights) < 1e-5 < largest_difference(state.weights, weights)
    assert (outcome.took_part, outcome.examples, outcome.left_out) == (4, 84, {}) == (4, expected.examples, {})
    assert outcome.loss == pytest.approx(expected.loss, abs=1e-5)
    assert outcome.reports.keys() == set(NAMES) and np.isnan(outcome.reports["a"]["loss"])

    sent = whole_numbers(messages)
    assert len(sent) == len(rows) == 8 and {len(each) for each in sent} == {sums[0][0].size} and len(sent[0]) > 100_000
    for number, (form, total, members) in enumerate(sums):
        of_round = [form.numbers(row) for row in rows[4 * number : 4 * number + 4]]
        np.testing.assert_array_equal(total, sum(of_round))
        assert members == 4 and not any((a == b).any() for a in sent for b in of_round)
    differences = [first - second for first, second in zip(sent[:4], sent[4:])]
    several = [sent[0] + sent[1], sent[0] - sent[1], sent[0] + sent[1] + sent[2]]
    assert min(uniform(each) for each in (*sent, *differences, *several)) > 1e-6
    assert uniform(sums[0][1]) < 1e-9  # the test can tell

    everything = b"".join(messages)
    for row in rows:
        pieces = [row[place : place + 3].astype(dtype).tobytes() for place in (0, 5000) for dtype in ("<f4", "<f8")]
        assert row[:3].any() and not any(piece in everything for piece in pieces)


class Dying:
    """A site that is killed in the round: when its worker has been asked, and before it says anything."""

    def __init__(self, member, patch) -> None:
        self._member, self._answer, self.killed = member, member.sums.answer, False
        patch.setattr(member.sums, "answer", self)

    def __call__(self, call, content):
        if call.caller in self._member.sums._expected and not self.killed:
            self.killed = True
            self._member.kill()
            raise Refused("nobody hears this")
        return self._answer(call, content)


def test_a_site_shortens_its_own_update(sites, round_, wide, monkeypatch):
    """Before it is masked: the sum is that of the others' updates and of its shortened one."""
    weights, sums, last, longest = others(wide, 11), totals(monkeypatch), sites.members[3], 0.001
    monkeypatch.setattr(last.sums, "_longest", longest)
    with sites.engine() as engine, plain_rows(monkeypatch) as rows:
        play(round_, round_.start(weights), sites.clients(engine), 1, 4)
    ((form, total, _),) = sums
    plain = [form.numbers(row) for row in rows]
    whole = sum(plain)
    ours = max(range(4), key=lambda place: rows[place][form._where(WEIGHT)][0])  # who has most images
    expected = whole - plain[ours] + form.numbers(rows[ours], longest)
    assert np.array_equal(total, expected) and not np.array_equal(total, whole)
    what = [line["what"] for member in sites.members for line in logs.read(member.log) if "shortened" in line["what"]]
    assert len(what) == 1 and what[0].endswith(", shortened, masked")


def test_a_site_that_is_killed_in_the_round(sites, round_, wide, monkeypatch):
    """The others' sum is exact; with three of four left the masks come off without it."""
    sums, dying = totals(monkeypatch), Dying(sites.members[1], monkeypatch)
    with sites.engine() as engine, plain_rows(monkeypatch) as rows:
        outcome = play(round_, round_.start(others(wide, 1)), sites.clients(engine), 1, 1)
    ((form, total, members),) = sums
    assert dying.killed and members == len(rows) == 3
    np.testing.assert_array_equal(total, sum(form.numbers(row) for row in rows))
    assert outcome.took_part == 3 and outcome.examples == 2 * 3 * (2 + 4 + 5) and list(outcome.left_out) == ["b"]
    assert "lost" in outcome.left_out["b"] and outcome.reports.keys() == {"a", "c", "d"}
    monkeypatch.undo()
    sites.members[1].start()


def test_who_has_no_numbers_is_left_out_and_named(sites, round_, wide, monkeypatch):
    """Its own process sees it before it masks; the sum of the others is exact."""
    sums, read, turn, honest = totals(monkeypatch), numbers.row, itertools.count(), []

    def row(content):
        values = read(content)
        if next(turn):
            honest.append(values)
        else:
            values[0] = np.nan
        return values

    monkeypatch.setattr(numbers, "row", row)
    with sites.engine() as engine:
        outcome = play(round_, round_.start(others(wide, 12)), sites.clients(engine), 1, 1)
    ((form, total, members),), ((name, why),) = sums, outcome.left_out.items()
    assert members == outcome.took_part == len(honest) == 3 and name not in outcome.reports
    np.testing.assert_array_equal(total, sum(map(form.numbers, honest)))
    assert "refused by the site: numbers that are not finite" in why


def test_numbers_beyond_the_range_stop_the_run(sites, round_, wide, monkeypatch):
    """Whose they are the masks hide."""
    site = sites.members[1]
    seat_of = site.sums._seat

    def with_too_much(caller):
        seat = seat_of(caller)
        mask = type(seat).mask.__get__(seat)
        seat.mask = lambda session, number, whole: mask(session, number, whole) + 2**61
        return seat

    monkeypatch.setattr(site.sums, "_seat", with_too_much)
    said = "a sum that so few numbers cannot have.*by masks nobody can tell whose"
    with sites.engine() as engine, pytest.raises(RunStopped, match=said):
        play(round_, round_.start(others(wide, 13)), sites.clients(engine), 1, 1)
    for seat in site.sums._seats.values():
        del seat.mask


def lying(patch, site, step, change):
    """A site that changes what it says in one step of a sum."""
    seat_of = site.sums._seat

    def changed(caller):
        seat = seat_of(caller)
        if not hasattr(seat, "honest"):
            seat.honest = seat.answer
        seat.answer = lambda request: (
            change(seat.honest(request)) if request.get("step") == step else seat.honest(request)
        )
        return seat

    patch.setattr(site.sums, "_seat", changed)
    return lambda: [setattr(seat, "answer", seat.honest) for seat in site.sums._seats.values()]


def test_a_wrong_share_is_found_and_the_others_are_enough(sites, round_, wide, monkeypatch):
    def wrong(said):
        return {**said, "own mask": {**said["own mask"], "a": said["own mask"]["d"]}}

    sums, undo = totals(monkeypatch), lying(monkeypatch, sites.members[2], "unmask", wrong)
    with sites.engine() as engine, plain_rows(monkeypatch) as rows:
        outcome = play(round_, round_.start(others(wide, 2)), sites.clients(engine), 1, 4)
    undo()
    ((form, total, _),) = sums
    np.testing.assert_array_equal(total, sum(form.numbers(row) for row in rows))
    assert outcome.took_part == 4
    (why,) = (outcome.left_out[name] for name in outcome.left_out if name == "c")
    assert why == "failed: a wrong share of a's own mask; its numbers are in the sum"


def cheating(patch, step, change):
    """A coordinator that changes what it asks in one step of a sum; what sites say to it."""
    refusals = {}
    ask = site_sum.SiteSum._ask

    def asking(self, name, fields, names, own=None):
        if name == step:
            fields, own = change(self, fields, own)
        said, failed = ask(self, name, fields, names, own)
        for site, why in failed.items():
            refusals.setdefault(site, why)
        return said, failed

    patch.setattr(site_sum.SiteSum, "_ask", asking)
    patch.setattr(site_sum.Collector, "confirmed", lambda self, said: said)  # it looks at nothing itself
    return refusals


def live_called_dropped(self, fields, own):
    """b sent its numbers; the others are told that it is gone, and so is b."""
    return {"survivors": ["a", "c", "d"]}, own


def both_kinds(self, fields, own):
    """Some are told that b is gone, to have its mask key, others that it is there, to have its own mask."""
    gone = {name: {"survivors": ["a", "c", "d"]} for name in "cd"}
    return {"survivors": list(NAMES)}, gone


CHEATS = {
    live_called_dropped: {"b": "b is called dropped out, and is here"},
    both_kinds: {"a": "c: a signature that is not its own", "c": "a table with other names than was agreed on"},
}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_coordinator_that_cheats_is_refused(cheat, sites, round_, wide, monkeypatch):
    refusals, sums = cheating(monkeypatch, "confirm", cheat), totals(monkeypatch)
    with sites.engine() as engine, pytest.raises(RunStopped):
        play(round_, round_.start(others(wide, 3 + list(CHEATS).index(cheat))), sites.clients(engine), 1, 1)
    assert not sums  # no mask came off
    for site, why in CHEATS[cheat].items():
        assert why in refusals[site]


def test_other_work_than_was_agreed_on_is_not_summed(sites, round_, wide, monkeypatch):
    """A coordinator that gives one site another model than the others, to tell its numbers from theirs."""
    struct, given = remote.struct, []

    def another_model_for_the_first(elements, order=None):
        given.append(elements)
        if len(given) > 1:
            return struct(elements)
        model = executor_pb2.Value.FromString(max(elements, key=lambda each: each.ByteSize()).SerializeToString())
        model.struct.element[0].value.array.content = bytes(len(model.struct.element[0].value.array.content))
        return struct([model if each.ByteSize() == model.ByteSize() else each for each in elements])

    monkeypatch.setattr(remote, "struct", another_model_for_the_first)
    with sites.engine() as engine:
        outcome = play(round_, round_.start(others(wide, 5)), sites.clients(engine), 1, 1)
    (why,) = outcome.left_out.values()
    assert outcome.took_part == 3 and "of other work than the members have agreed on" in why


def test_the_same_work_is_not_summed_with_others(sites, round_, wide):
    """Two sums of the same numbers, with and without a site, would tell that site's."""
    weights = others(wide, 6)
    with sites.engine() as engine:
        everyone = sites.clients(engine)
        for _ in range(2):  # with the same members it is the same sum
            play(round_, round_.start(weights), everyone, 1, 4)
        with pytest.raises(RunStopped, match="summed already, with those of other members"):
            play(round_, round_.start(weights), everyone, 1, 3, asked=[0, 1, 2])


def test_statistics_are_summed_too(sites, tiny_task, tiny_weights, monkeypatch):
    found = {}
    for name, opened in {"here": open_engine("in-process"), "there": sites.engine()}.items():
        reestimation = build_reestimation(tiny_task, SECURE, across_sites=name == "there")
        with opened as engine, heard(monkeypatch) as messages:
            start = State(list(tiny_weights), (), (), [])
            done = reestimate(reestimation, start, sites.clients(engine), 1, set(NAMES))
        assert (done.clients, done.left_out) == (4, {})
        found[name] = done.state.weights
    assert largest_difference(found["here"], found["there"]) < 1e-5 < largest_difference(found["there"], tiny_weights)
    assert len(whole_numbers(messages, least=10)) == 4


def test_what_no_sum_covers_is_refused_by_name(tiny_task):
    for method, clients, why in (
        (FedAvg(), 2, "--aggregator secure: across sites it takes at least 3 of them in a round, since of two each"),
        (Scaffold(), 3, "it does not cover what the clients of scaffold keep from round to round"),
        (FPL(), 3, "it does not cover what the clients of fpl send for the server to see one by one"),
        (FixMatch(), 3, "it does not cover what the clients of fssfl report beside examples and loss"),
    ):
        with pytest.raises(UserError, match=why):
            build_round(tiny_task, method, SECURE, clients, across_sites=True)
