"""What a trial is made of: who trains on what, what is in its key, which rounds are shared. Nothing is trained."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pandas as pd
import pytest

from tests.applications import working_in
from tffapps import Common, cli
from tffapps.data.artists import SERVER
from tffapps.data.pool import Pool
from tffapps.errors import UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.fedstyle import APP, RIVALS, cases, data, rivals, stopping
from tffapps.fedstyle.placement import Here
from tffapps.fedstyle.roles import CENTRALISED, ROLES
from tffapps.fedstyle.trials import Trials, with_weights
from tffapps.settings import settings_of
from tffapps.study import Study

ENGINE = types.SimpleNamespace(name="in-process", sites={})


@pytest.fixture(scope="module")
def trials_of(place):
    """Flags → the trials of a smoke run by name, none of them played."""

    def trials_of(*arguments):
        flags = cli.parse(APP, ["--profile", "smoke", *arguments])
        with working_in(place):
            placement = Here(data.load(flags), flags)
            trials = Trials(Study(APP, flags, ENGINE), placement)
            every = [*cases.comparison(placement), *cases.studies(placement)]
            return {trial.name: trial for trial in map(trials.of, every)}

    return trials_of


@pytest.fixture(scope="module")
def trials(trials_of):
    return trials_of()


def keys(trials):
    return {name: trial.key() for name, trial in trials.items()}


CLOAKS = {"cloak_artists": 3, "cloak_pictures": 4, "cloak_epsilon": 4, "cloak_steps": 1, "vgg_width": 5}


@pytest.mark.parametrize("name", CLOAKS)
def test_a_cloaks_setting_is_in_the_key_of_cloaked_runs_alone(name, trials, trials_of):
    before = keys(trials)
    after = keys(trials_of(f"--{name.replace('_', '-')}", str(CLOAKS[name])))
    unchanged = {run for run in before if before[run] == after.get(run)}
    assert unchanged == {run for run in before if not run.startswith("cloaking")} != set()
    for run, key in after.items():
        cloaked = key["settings"].get("FedStyleCloakSettings")
        assert (cloaked is not None) == run.startswith("cloaking") and (not cloaked or cloaked[name] == CLOAKS[name])


def test_every_setting_of_a_key_is_in_that_of_some_run(trials):
    in_keys: dict[str, set[str]] = {}
    for key in keys(trials).values():
        for kind, values in key["settings"].items():
            in_keys.setdefault(kind, set()).update(values)
    for kind in APP.settings:
        wanted = {each.name for each in settings_of(kind) if each.in_key and not each.in_key_when_changed}
        assert wanted <= in_keys.get(kind.__name__, set()), kind.__name__


def test_a_setting_of_one_method_moves_no_run_of_another(trials, trials_of):
    def moved(*arguments):
        before, after = keys(trials), keys(trials_of(*arguments))
        return {key["labels"]["method"] for run, key in before.items() if after[run] != key}

    assert moved("--style-mse", "3") == {"fedstyle"}
    assert moved("--public-epochs", "2") == {"local", "fedstyle"}
    assert moved("--epochs", "2") == {*ROLES} - {"local", *RIVALS}
    assert moved("--last-rounds", "1") == moved("--results", "elsewhere") == set()
    assert moved("--batch", "4") == {*ROLES} - {*RIVALS}


def test_fedavg_with_public_pictures_is_fedstyle_without_styles(trials_of):
    found = trials_of("--methods", "fedstyle,fedavg_public", "--studies", "none")
    whole, control = (trial.method for trial in found.values())
    assert {name for name, value in dataclasses.asdict(control).items() if value != getattr(whole, name)} == {
        "style_contrast", "style_mse", "style_server_contrast",
    }  # fmt: skip
    assert control.style_server_ce == whole.style_server_ce > 0 and not control.learns_embeddings


def test_a_run_ends_when_validation_has_not_fallen_for_so_long():
    rounds = pd.DataFrame({"val_loss": [3.0, 1.0, np.nan, 2.0], "loss": [4.0, 3.0, 2.0, 1.0]})
    assert stopping.when(2)(rounds) and not stopping.when(3)(rounds) and stopping.when(0) is None
    assert not stopping.when(2)(rounds.drop(columns="val_loss"))  # settings are tuned on what is in the place of tests
    with pytest.raises(UserError, match=r"--patience: .* --select validation"):
        with_weights(cli.parse(APP, ["--profile", "smoke", "--patience", "2"]))
    with pytest.raises(UserError, match="--start-from elsewhere: choose"):
        with_weights(cli.parse(APP, ["--profile", "smoke", "--start-from", "elsewhere"]))


def test_votes_of_the_nearest_pictures():
    similar = np.array([[0.9, 0.8, 0.7, 0.1], [0.1, 0.2, 0.3, 0.9]])
    labels = np.array([0, 1, 1, 0])
    assert rivals.votes(similar, labels, 2, 1).argmax(axis=1).tolist() == [0, 0]
    assert rivals.votes(similar, labels, 2, 3).argmax(axis=1).tolist() == [1, 1]
    assert rivals.votes(similar, labels, 2, 2).argmax(axis=1).tolist() == [0, 0]  # one each: the nearest decides
    np.testing.assert_allclose(rivals.votes(similar, labels, 2, 3).sum(axis=1), 1)
    crossed = rivals.cosines(np.array([[1.0, 0.0]]), np.array([[3.0, 0.0], [-1.0, 0.0]]), np.zeros(2))
    np.testing.assert_allclose(crossed, [[1.0, -1.0]])


def test_nearly_equal_alphas_are_other_runs(trials_of):
    """Their names, in tables, are the same."""
    names = ["--methods", "fedavg", "--studies", "heterogeneity", "--alphas"]
    first, second = (keys(trials_of(*names, alpha)) for alpha in ("0.12345671", "0.12345672"))
    run = "heterogeneity-dirichlet-0.123457-fedavg-2artists-seed0"
    assert first[run] != second[run]


def test_who_trains_on_what():
    rows = [
        ("1", "p1", "a", "train"), ("2", "p1", "b", "train"), ("3", "p2", "b", "train"),
        ("4", "p1", SERVER, "public"), ("5", "p2", "b", "test"),
    ]  # fmt: skip
    pool = Pool("x", pd.DataFrame(rows, columns=["path", "label", "client", "split"]), ["p1", "p2"], "key")

    def paths(method):
        return {name: "".join(part.path) for name, part in ROLES[method].training_rows(pool).items()}

    assert paths("local") == {SERVER: "4"} and paths(CENTRALISED) == {SERVER: "1234"}
    for method in ("fedavg", "fedprox", "fedproto", "fpl", "fedstyle"):
        assert paths(method) == {"a": "1", "b": "23"}
    private = dataclasses.replace(pool, table=pool.table[pool.table.split != "public"])
    for method in ("local", "fedstyle"):
        with pytest.raises(UserError, match="no public pictures: artists have too few; leave local and fedstyle out"):
            ROLES[method].training_rows(private)
    assert list(ROLES["fedavg"].training_rows(private)) == ["a", "b"]


def test_epochs_data_and_aggregation_of_each_method(trials_of):
    trials = trials_of("--studies", "cloaking", "--epochs", "3", "--public-epochs", "2", "--aggregator", "robust")
    by_method = {trial.labels["method"]: trial for trial in trials.values()}

    def examples(dataset):
        return sum(len(labels) for _, labels in dataset.as_numpy_iterator())

    counts = {}
    for method, trial in by_method.items():
        given = trial.clients()[0].batches(1)
        counts[method] = [examples(part) for part in (given if isinstance(given, tuple) else [given])]
        assert (trial.aggregation == Aggregation()) == (method in ("local", CENTRALISED)), method
        assert (trial.server_data is not None) == (method == "fedstyle"), method
        assert trial.size == len(trial.clients()) == (1 if method in ("local", CENTRALISED) else 2)
    # Of 12 pictures of each of two artists 2 are for testing and 1 is public; a cloak's study has 6 of each artist.
    assert counts == {
        "local": [4], "fedavg": [27], "fedprox": [27], "fedproto": [27, 9], "fpl": [27, 9], "fedstyle": [27, 9],
        CENTRALISED: [36],
    }  # fmt: skip
    public = by_method["fedstyle"].server_data(1)
    assert [examples(part) for part in public] == [4, 2]


def test_clients_see_their_pictures_in_an_order_of_their_own(trials):
    trial = trials["comparison-fedavg-2artists-seed0"]

    def brightness(client, number):
        batches = trial.clients()[client].batches(number).as_numpy_iterator()
        return np.concatenate([pictures.mean((1, 2, 3)) for pictures, _ in batches])

    first, again, later = brightness(0, 1), brightness(0, 1), brightness(0, 2)
    assert np.array_equal(first, again) and not np.array_equal(first, later)
    assert np.allclose(sorted(first), sorted(later)) and not np.allclose(sorted(first), sorted(brightness(1, 1)))


def test_rounds_are_shared_but_for_methods_that_count_clients(trials, monkeypatch):
    """FPL remembers clusters of so many clients: a round for two has no room for three."""
    built = []
    monkeypatch.setattr("tffapps.study.build_round", lambda *arguments: built.append(arguments) or object())
    flags = cli.parse(APP, ["--profile", "smoke"])
    study = Study(APP, flags, ENGINE)
    for method, shared in (("fedavg", True), ("fedstyle", True), ("fpl", False)):
        trial = trials[f"comparison-{method}-2artists-seed0"]
        more = dataclasses.replace(trial, size=trial.size + 1)
        assert trial.method.counts_clients != shared
        assert (study.round_of(trial) is study.round_of(more)) == shared, method
    assert [arguments[3] for arguments in built] == [2, 2, 2, 3]
    alone, everybody = (trials[f"comparison-{method}-2artists-seed0"] for method in ("local", "fedavg"))
    assert study.round_of(alone) is study.round_of(everybody)


def test_what_is_not_tested_is_shared_out_between_artist_and_public():
    rows = [(f"{artist}{number}.png", artist, artist, "train") for artist in "ab" for number in range(30)]
    table = pd.DataFrame(rows, columns=["path", "label", "client", "split"])
    pool = Pool("m", table, ["a", "b"], "key")
    found = data.divided(pool, Common(splits=3, group="image"))
    assert sorted(path for each in found for path in each.pool.part("test").path) == sorted(table.path)
    for each in found:
        counts = pd.crosstab(each.pool.table.label, each.pool.table.split)
        assert counts.to_dict("list") == {"public": [2, 2], "test": [10, 10], "train": [18, 18]}
    given = table.assign(client=["server" if path[1:] in ("0.png", "1.png") else label for path, label, *_ in rows])
    given["subject"] = ["same" if path in ("a0.png", "a5.png") else path for path in table.path]
    (each, *_) = [
        split
        for split in data.divided(dataclasses.replace(pool, table=given, given=True), Common(splits=3, group="subject"))
        if "a5.png" in set(split.pool.part("test").path)
    ]
    assert set(each.pool.part("public").path) == {"a1.png", "b0.png", "b1.png"}  # a0 is a copy of one that is tested
    assert "a0.png" not in set(each.pool.table.path)
