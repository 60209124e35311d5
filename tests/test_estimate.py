"""What a command is said to take: the arithmetic, with rates that are made up, and what each system counts."""

import subprocess
import types

import pytest

from tests.applications import working_in
from tffapps import classify, cli, estimate, systems
from tffapps.estimate import Cost, Rate, Steps, Work, described, measured, total

BIG, SMALL = Work("big", lambda: None), Work("small", lambda: None)
RATES = {BIG: Rate(2.0, 0.5, 1_000_000, start=4.0), SMALL: Rate(0.1, 0.01, 10, start=1.0)}


def rate(work, training, inference):
    return RATES[work]


def test_passes_times_seconds_and_files_times_bytes():
    found = total(
        [
            Cost("classifiers", BIG, training=100, inference=10, checkpoints=3),
            Cost("style transfer", SMALL, training=1000, bytes=500),
            Cost("classifiers", BIG, training=1),
            Cost("nothing", SMALL),
        ],
        rate,
    )
    # 100 · 2 + 10 · 0.5 + 1 · 2, and 4 once for building; 1000 · 0.1 and 1
    assert found.seconds == {"classifiers": 211.0, "style transfer": 101.0, "nothing": 0.0}
    assert found.bytes == 3_000_500


def test_only_what_is_needed_is_measured_and_once():
    asked = []

    def noting(work, training, inference):
        asked.append((work, training, inference))
        return RATES[work]

    total([Cost("a", BIG, training=1), Cost("b", SMALL, inference=2), Cost("c", BIG, training=2)], noting)
    assert asked == [(BIG, True, False), (SMALL, False, True)]


@pytest.mark.parametrize(
    ("seconds", "size", "line"),
    [
        ({"style transfer": 108000.0, "classifiers": 39600.0}, 3.21e9,
         "about 41 h on this machine (style transfer 30 h, classifiers 11 h), 3.2 GB;"),
        ({"classifiers": 30.0, "none": 0.0}, 10, "about 45 s on this machine, less than 1 MB;"),
        ({"a": 9 * 86400.0}, 2.5e7, "about 9.0 days on this machine, 25 MB;"),
    ],
)  # fmt: skip
def test_the_line(seconds, size, line):
    assert described(estimate.Total(seconds, size)) == f"estimate: {line} goes on where it was stopped"


def test_a_measurement_is_of_one_image(monkeypatch):
    clock = [0.0]

    def taking(first, usual):
        left = [first]

        def call():
            clock[0] += left.pop() if left else usual

        return call

    monkeypatch.setattr(estimate.time, "perf_counter", lambda: clock[0])
    work = Work("w", lambda: Steps(4, taking(3.0, 2.0), taking(0.5, 0.4), 7))
    found = measured(work)
    # A first call is not measured but counts as building: 1 s and 0.1 s more than usual.
    assert found == pytest.approx(Rate(0.5, 0.1, 7, 1.1))
    assert measured(work, training=False) == pytest.approx(Rate(0.0, 0.1, 7, 0.1))
    slow = Work("slow", lambda: Steps(2, taking(40.0, 1.0), None, 7))
    assert measured(slow, inference=False).training == 20.0  # long enough to be called once only


# Image passes of the smoke profile's stand-in, counted by hand: seeds · rounds · epochs · images.
def test_what_classify_counts(tmp_path):
    with working_in(tmp_path):
        flags = cli.parse(classify.APP, ["--profile", "smoke", "--methods", "fedavg,separate,fedsam"])
        pool = classify.APP.part("data").look(flags)
        (cost,) = classify.APP.part("cost").costs(flags, pool)
    train, test, clients = len(pool.part("train")), len(pool.part("test")), len(pool.clients)
    assert cost.training == 2 * train * (1 + 1 + 2)  # two rounds; FedSAM takes two gradients a step
    assert cost.inference == 2 * test * (1 + clients + 1) and cost.checkpoints == 1 + clients + 1


@pytest.mark.parametrize("name", [app.name for app in systems.every()])
def test_every_system_says_what_it_costs(name, tmp_path):
    """With more seeds everything that is trained for each costs as many times as much."""
    app = systems.find(name)
    found = []
    with working_in(tmp_path):
        for seeds in ("0", "0,1"):
            flags = cli.parse(app, ["--profile", "smoke", "--seeds", seeds])
            costs = app.part("cost").costs(flags, app.part("data").look(flags))
            found.append(total(costs, lambda work, training, inference: Rate(1.0, 1.0, 1)))
    once, twice = found
    assert set(once.seconds) == set(twice.seconds) and once.bytes > 0
    main = "U-Nets" if name == "fedtransfer" else "classifiers"
    assert once.seconds[main] > 0 and twice.seconds[main] == pytest.approx(2 * once.seconds[main])


@pytest.fixture
def played(monkeypatch, tmp_path):
    """classify without its work: what it was told, and the line of a process that would have measured."""
    told = []
    app = classify.APP
    monkeypatch.setattr(type(app), "part", lambda self, name: types.SimpleNamespace(run=told.append))
    monkeypatch.setattr(estimate, "line", lambda app, flags: f"estimate of {flags.profile}")
    monkeypatch.setattr(estimate, "from_another_process", lambda app, arguments: f"estimate {arguments[-1]}")
    with working_in(tmp_path):
        yield told


def test_on_demand_it_is_all_that_is_done(played, capsys):
    assert cli.main(classify.APP, ["--profile", "smoke", "--estimate"]) == 0
    assert capsys.readouterr().out == "estimate of smoke\n" and not played


def test_a_run_of_a_papers_size_begins_with_it(played, capsys):
    for profile, line in (("paper", "estimate paper\n"), ("smoke", "")):
        assert cli.main(classify.APP, ["--profile", profile]) == 0
        assert capsys.readouterr().err == line and played.pop().profile == profile


def test_a_run_goes_on_where_none_can_be_made(monkeypatch):
    done = types.SimpleNamespace(returncode=-9, stdout="")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: done)
    assert "could not be made" in estimate.from_another_process(classify.APP, [])


def test_sites_are_not_estimated_here():
    flags = cli.parse(classify.APP, ["--profile", "smoke"]).replaced(engine="a:1,b:2")
    with pytest.raises(estimate.UserError, match="the images are at the sites"):
        estimate.line(classify.APP, flags)
