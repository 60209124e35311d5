"""What enters the key of which run, where runs begin and when they stop."""

import types

import numpy as np
import pandas as pd
import pytest

from preprocessing import augment
from tffapps import Common, CutSettings, Split, cli
from tffapps.data import knees, oai
from tffapps.data.pool import Pool
from tffapps.plfl import (
    AFTER_GOLD,
    ALTERNATE,
    APP,
    CEILINGS,
    CONTINUED,
    FIXMATCHES,
    METHODS,
    ON_REQUEST,
    SPLITS,
    PlflImages,
    PlflNetwork,
    PoisonSettings,
    inputs,
    trials,
)
from tffapps.runs import key_of
from tffapps.settings import settings_of

FLAGS = ["--profile=smoke", "--size=32"]
GOLD = [np.ones(2)]


class Study:
    """Plays nothing: every run ends with the weights GOLD."""

    engine = types.SimpleNamespace(name="in-process", sites={})

    def __init__(self, flags):
        self.flags, self.played = flags, []

    def run(self, trial):
        self.played.append(trial.labels["method"])
        return types.SimpleNamespace(weights=lambda: GOLD)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = knees.write_knees(tmp_path_factory.mktemp("knees") / "k", images=80, size=32, progress=False)
    return Pool("stand-in", oai.read_oai(folder), list(oai.LABELS.values()), "key", ("png",))


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def trials_of(pool, *arguments):
    flags = cli.parse(APP, [*FLAGS, *arguments])
    placement = types.SimpleNamespace(poison=flags[PoisonSettings].poison, whole=False)
    return trials.Trials(Study(flags), pool, placement, "tiny")


def keys(pool, *arguments):
    found = trials_of(pool, *arguments)
    return {method: key_of(found.trial(method, 0).key()) for method in METHODS}


@pytest.fixture(scope="module")
def plain(pool):
    return keys(pool)


IN_ROUNDS = {"csfl", "plfl", "plfl+", "fssfl"}


@pytest.mark.parametrize(
    ("flag", "changed"),
    [
        ("--batch=8", set(METHODS)),
        ("--contrast=equalize", set(METHODS)),
        ("--learning-rate=0.5", set(METHODS)),
        ("--freeze=yes", set(METHODS)),
        ("--freeze=no", set()),  # as auto is with random weights
        ("--poison=0.5", set()),
        ("--poison-seeds=1", set()),
        ("--gold-epochs=7", {"gold", "plfl", "plfl+"}),
        ("--epochs=7", {"csfl", "plfl", "fssfl"}),
        ("--aggregator=robust", IN_ROUNDS),
        ("--csfl-rounds=7", {"csfl"}),
        ("--plfl-rounds=7", {"plfl"}),
        ("--server-in-average", {"plfl"}),
        ("--threshold=0.5", {"plfl", "plfl+"}),
        ("--target-accuracy=0.5", IN_ROUNDS),
        ("--shear=degrees", set(METHODS)),
        ("--plus-epochs=7", {"plfl+"}),
        ("--label-views=1", {"plfl+"}),
        ("--average-from=1", {"plfl+"}),
        ("--keep=0.5", {"plfl+"}),
        ("--tau=0.5", {"fssfl"}),
        ("--views=3", {"fssfl"}),
        ("--mu=3", {"fssfl"}),
    ],
)
def test_a_flag_is_in_the_key_of_the_runs_that_depend_on_it(flag, changed, pool, plain):
    other = keys(pool, flag)
    assert {method for method in METHODS if other[method] != plain[method]} == changed


def test_no_setting_is_forgotten(pool):
    found = trials_of(pool)
    written: dict[str, set[str]] = {}
    for method in (*METHODS, *ON_REQUEST):
        for name, values in found.trial(method, 0).key()["settings"].items():
            written.setdefault(name, set()).update(values)
    for owner in APP.settings:
        fields = {each.name for each in settings_of(owner) if each.in_key and not each.in_key_when_changed}
        (kind,) = [name for name in written if name in (owner.__name__, f"Tested{owner.__name__}")] or [""]
        assert fields == written.get(kind, set()), owner


def test_what_waits_to_be_named_depends_on_its_own_flags(pool):
    def keys_of(*arguments):
        found = trials_of(pool, *arguments)
        return {method: key_of(found.trial(method, 0).key()) for method in (*METHODS, *ON_REQUEST)}

    continued = {CONTINUED, *CEILINGS}
    plain, fixmatches = keys_of(), {"fixmatch", "flexmatch", "freematch"}
    for flag, changed in {
        "--align=1": fixmatches, "--tau=0.5": {"fssfl", *fixmatches}, "--fairness=0": {"freematch"},
        "--warmup-rounds=1": {*FIXMATCHES, *ALTERNATE}, "--semifl-tau=0.5": {"semifl"},
        "--alternate-rounds=3": {"semifl", "fl2"}, "--keep=0.5": {"plfl+"}, "--floor=0.5": {"plfl+"},
        "--rate-share=0.5": {"plfl+", *continued}, "--plus-view=strong": {"plfl+", *continued},
        "--gold-share=0.5": {method for method in plain if SPLITS[method] == "plfl"},
        "--gold-batches=9": {"gold", *AFTER_GOLD}, "--fssfl-rounds=3": {"fssfl", "fssfl-labelled", *fixmatches},
    }.items():  # fmt: skip
        other = keys_of(flag)
        assert {method for method in plain if plain[method] != other[method]} == changed, flag
    assert set(cli.parse(APP, FLAGS)[Common].methods) == set(METHODS)
    assert trials_of(pool).trial("semifl", 0).initial.weights is GOLD


def test_seed_model_and_share_tell_runs_apart(pool):
    found = trials_of(pool)
    clean, spoilt, other = found.trial("csfl", 0), found.trial("csfl", 0, 0.5), found.trial("csfl", 1)
    assert len({key_of(trial.key()) for trial in (clean, spoilt, other)}) == 3
    assert (clean.name, spoilt.name) == ("csfl-tiny-seed0", "csfl-tiny-seed0-poison0.5")


def test_plfl_begins_with_the_gold_model(pool):
    found = trials_of(pool, "--methods=csfl,plfl", "--poison=")
    order = [(trial.labels["method"], trial.initial.weights is GOLD) for trial in found.all(Split("", pool))]
    assert order == [("gold", False), ("csfl", False), ("plfl", True)]
    gold, spoilt = found.trial("gold", 0), found.trial("plfl", 0, 1.0)
    assert spoilt.initial.identity == {"gold": key_of(gold.key())}  # the server's data is not spoilt
    assert gold.size == gold.min_clients == 1


def test_a_target_on_validation_stops_every_federation(pool):
    found = trials_of(pool, "--target-accuracy=0.7")
    assert {method for method in METHODS if found.trial(method, 0).enough} == IN_ROUNDS
    enough = found.trial("csfl", 0).enough
    assert enough(pd.DataFrame({"val_accuracy": [0.1, 0.7], "accuracy": 0.1}))
    assert not enough(pd.DataFrame({"val_accuracy": [0.9, 0.69], "accuracy": 0.9}))  # the last round counts
    assert trials_of(pool).trial("plfl", 0).enough is None


def test_every_framework_is_validated_by_the_server_or_else_by_the_clients(pool):
    found = trials_of(pool)
    for method in METHODS:
        parts = found.trial(method, 0).evaluator.parts
        assert set(parts) == {"", "val_"}, method
        whose = {"client1", "client2"} if method == "csfl" else {oai.SERVER}
        assert set(parts["val_"]._images.client) == whose, method


def test_the_thesis_to_the_letter(pool):
    flags = cli.parse(APP, ["--profile=paper", "--models=mobilenetv2"])
    chosen, images = flags[PlflNetwork], flags[PlflImages]
    assert (flags[Common].weights, flags[CutSettings].train_from, images.contrast) == ("imagenet", "head", "equalize")
    assert (chosen.shear, chosen.augment, chosen.head, chosen.size) == ("degrees", "affine", "flatten256", 224)
    assert inputs.SHEARS["degrees"]["affine"] is augment.affine_degrees
