"""Rounds over the images of the fixture `noise`, as a coordinator and as one machine with all the files play them."""

from __future__ import annotations

import pathlib

import pandas as pd

from tests.site.conftest import PIXELS
from tffapps.data import manifest as manifests
from tffapps.data import pipeline, published
from tffapps.engine import Engine
from tffapps.federated.cohort import Client, Outcome, play, stream
from tffapps.federated.round import Round


def table_of(engine: Engine, images: pathlib.Path) -> pd.DataFrame:
    return published.manifest(engine.sites) if engine.sites else manifests.load(images)


def batches(rows: pd.DataFrame, seed: int = 0, shuffle: bool = True):
    codes = [int(label[-1]) for label in rows.label]
    size = (PIXELS, PIXELS)
    return pipeline.batches(
        list(rows.path), codes, size=size, channels=3, batch=4, epochs=2, seed=seed, shuffle=shuffle, formats=("png",)
    )


def clients(table: pd.DataFrame) -> list[Client]:
    training = table[table.split == "train"]

    def client(place: int, name: str) -> Client:
        rows = training[training.client == name]
        return Client(name, lambda number: batches(rows, stream(0, number, place)), examples=2 * len(rows))

    return [client(place, name) for place, name in enumerate(sorted(set(training.client)))]


def played(engine: Engine, round_: Round, weights: list, images: pathlib.Path, rounds: int = 2) -> Outcome:
    """The last of some rounds."""
    state, everyone = round_.start(weights), clients(table_of(engine, images))
    for number in range(1, rounds + 1):
        outcome = play(round_, state, everyone, number, min_clients=2)
        state = outcome.state
    return outcome
