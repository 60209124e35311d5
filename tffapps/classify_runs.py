"""The work behind `tffapps.classify`: data → clients → rounds → table."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import Any

import numpy as np
import pandas as pd

from models import classifiers, weights
from tffapps import classify, cli
from tffapps.data import held_out, images, pipeline, standin, textures
from tffapps.data import manifest as manifests
from tffapps.data.unreadable import drop_unreadable
from tffapps.engine import Engine, addresses, open_engine
from tffapps.errors import UserError
from tffapps.evaluation import classification
from tffapps.evaluation.exam import Exam
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, stream
from tffapps.federated.methods import METHODS
from tffapps.federated.rounds import Rounds
from tffapps.federated.task import Task, cross_entropy
from tffapps.federated.training import train
from tffapps.figures import curves
from tffapps.results import over_seeds, write_table
from tffapps.runs import name_of
from tffapps.settings import as_dict, pick
from tffapps.site import published


def run_all(values: dict[str, Any]) -> None:
    settings = classify.settings_of(values)
    folder = classify.APP.folder(values)
    # Files that cannot be used are found before an engine is started; sites have looked at theirs.
    local = None if addresses(values["engine"]) else _local(*load_data(values, settings))
    with open_engine(values["engine"], cli.certificates(values)) as engine:
        images_ = local or _published(engine)
        runs = _Runs(values, settings, images_, engine)
        rows = [row for method in values["methods"] for seed in values["seeds"] for row in runs.of(method, seed)]
    summary = over_seeds(pd.DataFrame(rows), ["method", "site", "aggregator", "rounds"], classify.METRICS)
    what_ran = {
        "data": images_.name,
        "profile": values["profile"],
        "weights": runs.weights_used,
        "model": settings.model,
    }
    write_table(folder / "comparison.csv", summary, **what_ran)
    curves(folder / "accuracy.png", pd.concat(runs.records), "accuracy", f"{images_.name}, {settings.model}")
    shown = summary[["method", "site", "accuracy", "macro_f1", "seeds"]]
    print(shown.to_string(index=False, float_format="{:.4f}".format))
    print(f"table: {folder / 'comparison.csv'}, figure: {folder / 'accuracy.png'}")


def load_data(values: dict[str, Any], settings: classify.Settings) -> tuple[str, pd.DataFrame]:
    """The name of the data for the tables, and its checked manifest."""
    if values["data"]:
        source = pathlib.Path(values["data"])
        name = "stand-in" if standin.is_standin(source) else source.resolve().name
    else:
        name = "stand-in"
        source = pathlib.Path("data") / f"textures-{settings.size}-{settings.standin_images}"
        textures.write_textures(source, per_class=settings.standin_images, size=settings.size)
    table = manifests.load(source)
    manifests.check(table)
    table, dropped = drop_unreadable(table, settings.channels)
    if len(dropped):
        print(f"{len(dropped)} of {len(dropped) + len(table)} images cannot be read:", file=sys.stderr)
    for row in dropped.itertuples():
        print(f"left out: {row.path}: {row.reason}", file=sys.stderr)
    if len(dropped):
        manifests.check(table)
    manifests.check_classes(table, f"--data {source}")
    return name, held_out.with_test(table, source)


@dataclasses.dataclass(frozen=True)
class _Images:
    """What there is to train and test on, and what the tables call it."""

    name: str
    table: pd.DataFrame
    formats: tuple[str, ...]
    fingerprint: str


def _local(name: str, table: pd.DataFrame) -> _Images:
    return _Images(name, table, images.formats_of(table.path), manifests.fingerprint(table))


def _published(engine: Engine) -> _Images:
    table = published.with_test(engine.sites, published.manifest(engine.sites))
    formats = published.formats(engine.sites, images.FORMATS)
    return _Images(published.name(engine.sites), table, formats, published.fingerprint(engine.sites))


class _Runs:
    """All runs of one command: they share the network and every round that has been built."""

    def __init__(self, values: dict[str, Any], settings: classify.Settings, images_: _Images, engine: Engine):
        self._values, self._settings, self._images, self._engine = values, settings, images_, engine
        self._table = table = images_.table
        self.aggregation = pick(Aggregation, values)
        self._classes = manifests.classes(table)
        size = (settings.size, settings.size)
        try:
            self._model = classifiers.build(
                settings.model, input_shape=(*size, settings.channels), classes=len(self._classes)
            )
        except ValueError as error:
            raise UserError(str(error)) from error
        spec = pipeline.element_spec(size, settings.channels)
        self._rounds = Rounds(Task.of_batches(self._model, spec, cross_entropy))
        self.weights_used = ""
        self.records: list[pd.DataFrame] = []  # accuracy by round, for the figure
        tested = table[table.split == "test"]
        self._exam = Exam(engine, self._model, spec, tested, lambda rows: self._batches(rows, 0, 1, shuffle=False))

    def of(self, method: str, seed: int) -> list[dict[str, Any]]:
        """Final metrics of one method and seed; `separate` has a row for each client."""
        training = self._table[self._table.split == "train"]
        if method == "centralised":
            return [self._one(method, "all data", {"all data": training}, seed)]
        count = training.client.nunique()
        if method != "separate" and self._values["min_clients"] > count:
            raise UserError(f"--min-clients {self._values['min_clients']}: there are only {count} clients")
        by_client = {str(name): rows for name, rows in training.groupby("client", sort=True)}
        if method == "separate":
            return [self._one(method, name, {name: rows}, seed) for name, rows in by_client.items()]
        return [self._one(method, "federation", by_client, seed)]

    def _one(self, method: str, site: str, training: dict[str, pd.DataFrame], seed: int) -> dict[str, Any]:
        alone = method in classify.REFERENCES
        rules = pick(METHODS["fedavg" if alone else method], self._values)
        aggregation = Aggregation() if alone else self.aggregation
        weights_used = self._initial(seed)
        settings = {
            **as_dict(self._settings), **as_dict(aggregation), **as_dict(rules),
            "method": method, "site": site, "seed": seed, "data": self._images.fingerprint,
            "weights": weights_used.label, "weights_sha256": weights_used.sha256,
        }  # fmt: skip
        initial = self._model.get_weights()
        name = name_of(method, site, f"seed{seed}")
        with cli.open_run(classify.APP, self._values, name, settings) as run:
            if not run.finished:
                clients = [self._client(client, rows, seed) for client, rows in training.items()]
                train(
                    run, self._rounds.of(rules, aggregation, len(clients)), initial, clients,
                    rounds=self._settings.rounds, evaluate=self._evaluate, engine=self._engine,
                    min_clients=1 if alone else self._values["min_clients"],
                    tensorboard=self._values["tensorboard"], seed=seed,
                )  # fmt: skip
                last = run.rounds().iloc[-1]
                run.finish({metric: float(last[metric]) for metric in classify.METRICS})
            shown = method if site == "federation" else f"{method}: {site}"
            self.records.append(run.rounds()[["round", "accuracy"]].assign(name=shown, seed=seed))
            return {
                "method": method, "site": site, "seed": seed, "aggregator": aggregation.described(),
                "rounds": self._settings.rounds, **run.summary(),
            }  # fmt: skip

    def _initial(self, seed: int) -> weights.WeightsUsed:
        try:
            used = weights.load(self._model, self._settings.model, self._values["weights"], seed=seed)
        except weights.WeightsError as error:
            raise UserError(f"--weights: {error}") from error
        self.weights_used = used.label
        return used

    def _client(self, name: str, rows: pd.DataFrame, seed: int) -> Client:
        position = sorted(set(self._table.client)).index(name) if name in set(self._table.client) else 0

        def batches(number: int):
            return self._batches(rows, stream(seed, number, position), self._settings.epochs)

        return Client(name, batches)

    def _batches(self, rows: pd.DataFrame, seed: int, epochs: int, shuffle: bool = True):
        codes = [self._classes.index(label) for label in rows.label]
        size = (self._settings.size, self._settings.size)
        return pipeline.batches(
            list(rows.path), codes, size=size, channels=self._settings.channels,
            batch=self._settings.batch, epochs=epochs, seed=seed, shuffle=shuffle, formats=self._images.formats,
        )  # fmt: skip

    def _evaluate(self, values: list[np.ndarray], number: int) -> dict[str, float]:
        answers = self._exam.answers(values, last=number == self._settings.rounds)
        found = classification.scores(*answers) if answers else {}
        return {metric: found.get(metric, float("nan")) for metric in classify.METRICS}
