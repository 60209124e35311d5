"""What a command costs: see `tffapps.estimate`. Of pseudo-labels all are taken for sure enough to train on."""

from typing import NamedTuple

import pandas as pd

from tffapps import Common, Flags, Pool
from tffapps.data import oai
from tffapps.estimate import Cost
from tffapps.federated.pseudo_label_plus import PseudoLabelPlus
from tffapps.measured_networks import classifiers
from tffapps.plfl import (
    AFTER_GOLD,
    ALTERNATE,
    ON_REQUEST,
    SPLITS,
    AlternateSettings,
    CsflSettings,
    FssflSettings,
    GoldSettings,
    LocalSettings,
    PlflNetwork,
    PlflSettings,
    PlusSettings,
    PoisonSettings,
    division,
    poisoning,
)
from tffapps.plfl.inputs import inputs_of, network_of


class Passes(NamedTuple):
    """Of one run."""

    training: int
    inference: int


def costs(flags: Flags, pool: Pool) -> list[Cost]:
    common, poison = flags[Common], flags[PoisonSettings]
    methods = set(common.methods)
    if methods.intersection(AFTER_GOLD):
        methods.add("gold")
    spoilt = len(poison.poison) * len(common.seeds[: poison.poison_seeds or None])
    runs = {method: len(common.seeds) + (spoilt if method in poisoning.KINDS else 0) for method in methods}
    by_run = {method: passes(method, division.split(pool, SPLITS[method], common.seeds[0]), flags) for method in runs}
    runs = {method: count * common.split_count for method, count in runs.items()}
    found = []
    for model in flags[PlflNetwork].models:
        inputs = inputs_of(network_of(model, flags), flags, len(pool.classes), ("png",))
        found += classifiers(
            inputs,
            training=sum(runs[method] * by_run[method].training for method in runs),
            inference=sum(runs[method] * by_run[method].inference for method in runs),
            runs=sum(runs.values()),
            images=len(pool.table) * _views(methods, flags),
        )
    return found


def passes(method: str, table: pd.DataFrame, flags: Flags) -> Passes:
    """Images in training steps, and images that are only predicted, of a framework over a division of the images."""
    at_server, local = table[table.client == oai.SERVER], flags[LocalSettings]
    clients = table[table.client != oai.SERVER]
    gold, own = int((at_server.split == "train").sum()), int((clients.split == "train").sum())
    tested, tested_by_clients = len(at_server) - gold, len(clients) - own
    if method == "gold":
        return Passes(flags[GoldSettings].gold_epochs * gold, tested)
    if method == "csfl":
        rounds = flags[CsflSettings].csfl_rounds
        return Passes(rounds * local.epochs * own, rounds * (tested + tested_by_clients))
    if method == "plfl":
        rounds = flags[PlflSettings].plfl_rounds
        return Passes(rounds * local.epochs * own, rounds * (own + tested))
    if method == "plfl+":
        plus, server = flags[PlusSettings], flags[PseudoLabelPlus].server_epochs
        seen = plus.plus_epochs * own + server * gold
        return Passes(plus.plus_rounds * seen, plus.plus_rounds * ((1 + plus.label_views) * own + tested))
    if method in ALTERNATE:
        turns = flags[AlternateSettings]
        # SemiFL's mixed images and (FL)²'s two more passes cost as much again, at least.
        seen = turns.alternate_epochs * (2 * own + gold)
        return Passes(turns.alternate_rounds * seen, turns.alternate_rounds * (own + tested))
    settings = flags[FssflSettings]
    trained = clients[clients.split == "train"]
    labelled = settings.fssfl_rounds * local.epochs * int(trained.labelled.sum())
    # A labelled image and the strong views that go with it are trained on, their weak views predicted.
    return Passes(
        labelled * (1 + settings.mu), labelled * settings.mu + settings.fssfl_rounds * (tested + tested_by_clients)
    )


def _views(methods: set[str], flags: Flags) -> int:
    """Of an image, stored where activations are: plain, affine for plfl+, weak and strong for fssfl."""
    plus, fixmatch = flags[PlusSettings].plus_views, 2 * flags[FssflSettings].views
    return 1 + (plus if "plfl+" in methods else 0) + (fixmatch if methods & {"fssfl", *ON_REQUEST} else 0)
