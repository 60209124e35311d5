"""The work behind `tffapps.classify`: data → clients → trials → table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from models import classifiers, weights
from tffapps.app import Common
from tffapps.classify import APP, METRICS, REFERENCES, ClassifySettings, data
from tffapps.data import labelled, pipeline
from tffapps.data.pool import Pool
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.evaluation import classification
from tffapps.evaluation.evaluator import Metrics, PredictionEvaluator
from tffapps.evaluation.predictions import Predictions, TestImages
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, stream
from tffapps.federated.methods import METHODS
from tffapps.federated.task import Task, cross_entropy
from tffapps.figures import curves
from tffapps.results import over_seeds, write_table
from tffapps.runs import name_of
from tffapps.settings import Flags
from tffapps.study import Initial, Record, Study, Trial

FEDERATION, ALL_DATA = "federation", "all data"


def run(flags: Flags) -> None:
    """Plays every method on every seed, and writes the table and the figure."""
    common, folder = flags[Common], APP.folder(flags)
    # Files that cannot be used are found before an engine is started; sites have looked at theirs.
    local = None if common.across_sites else data.load(flags)
    with open_engine(common.engine, common.certificates()) as engine:
        pool = local or labelled.of_sites(engine.sites)
        pool.announce(folder)
        study = Study(APP, flags, engine)
        trials = Trials(study, pool)
        records = [study.run(trial) for trial in trials.all()]
    what_ran = {
        "data": pool.name, "profile": flags.profile, "weights": trials.weights_used,
        "model": flags[ClassifySettings].model,
    }  # fmt: skip
    rows = pd.DataFrame([{**record.labels, **record.summary} for record in records])
    summary = over_seeds(rows, ["method", "site", "aggregator", "rounds"], METRICS)
    write_table(folder / "comparison.csv", summary, **what_ran)
    curves(folder / "accuracy.png", pd.concat(map(_curve, records)), "accuracy", f"{pool.name}, {what_ran['model']}")
    shown = summary[["method", "site", "accuracy", "macro_f1", "seeds"]]
    print(shown.to_string(index=False, float_format="{:.4f}".format))
    print(f"table: {folder / 'comparison.csv'}, figure: {folder / 'accuracy.png'}")


def _curve(record: Record) -> pd.DataFrame:
    name = record["method"] if record["site"] == FEDERATION else f"{record['method']}: {record['site']}"
    return record.rounds[["round", "accuracy"]].assign(name=name, seed=record["seed"])


class Trials:
    """All trials of one command: they share the network and the test images."""

    def __init__(self, study: Study, pool: Pool) -> None:
        self._flags, self._common, self._pool = study.flags, study.common, pool
        self._settings = study.flags[ClassifySettings]
        size = (self._settings.size, self._settings.size)
        try:
            self._model = classifiers.build(
                self._settings.model, input_shape=(*size, self._settings.channels), classes=len(pool.classes)
            )
        except ValueError as error:
            raise UserError(str(error)) from error
        spec = pipeline.element_spec(size, self._settings.channels)
        self._task = Task.of_batches(self._model, spec, cross_entropy)
        images = TestImages(
            study.engine, self._model, spec, pool.part("test"), lambda rows: self._batches(rows, 0, 1, shuffle=False)
        )
        self._evaluator = PredictionEvaluator({"": images}, _scores, METRICS)
        self.weights_used = ""

    def all(self) -> Iterator[Trial]:
        """Every method on every seed; `separate` is a trial for each client."""
        training = {client: self._pool.part("train", client) for client in sorted(self._pool.clients)}
        for method in self._common.methods:
            for seed in self._common.seeds:
                if method == "centralised":
                    yield self._trial(method, ALL_DATA, {ALL_DATA: self._pool.part("train")}, seed)
                elif method == "separate":
                    for client, rows in training.items():
                        yield self._trial(method, client, {client: rows}, seed)
                else:
                    self._common.check_clients(len(training))
                    yield self._trial(method, FEDERATION, training, seed)

    def _trial(self, method: str, site: str, training: dict[str, pd.DataFrame], seed: int) -> Trial:
        alone = method in REFERENCES
        aggregation = Aggregation() if alone else self._flags[Aggregation]
        return Trial(
            labels={
                "method": method, "site": site, "seed": seed, "aggregator": aggregation.described(),
                "rounds": self._settings.rounds,
            },
            name=name_of(method, site, f"seed{seed}"),
            method=self._flags[METHODS["fedavg" if alone else method]],
            task=self._task,
            clients=lambda: [self._client(client, rows, seed) for client, rows in training.items()],
            initial=self._initial(seed),
            rounds=self._settings.rounds,
            evaluator=self._evaluator,
            settings=[self._settings],
            data={"images": self._pool.key},
            size=len(training),
            aggregation=aggregation,
            min_clients=1 if alone else self._common.min_clients,
        )  # fmt: skip

    def _initial(self, seed: int) -> Initial:
        try:
            used = weights.load(self._model, self._settings.model, self._common.weights, seed=seed)
        except weights.WeightsError as error:
            raise UserError(f"--weights: {error}") from error
        self.weights_used = used.label
        return Initial(self._model.get_weights(), {"weights": used.label, "sha256": used.sha256})

    def _client(self, name: str, rows: pd.DataFrame, seed: int) -> Client:
        clients = sorted(set(self._pool.table.client))
        position = clients.index(name) if name in clients else 0
        return Client(
            name, lambda number: self._batches(rows, stream(seed, number, position), self._settings.epochs)
        )  # fmt: skip

    def _batches(self, rows: pd.DataFrame, seed: int, epochs: int, shuffle: bool = True) -> Any:
        size = (self._settings.size, self._settings.size)
        return pipeline.batches(
            list(rows.path), self._pool.codes(rows), size=size, channels=self._settings.channels,
            batch=self._settings.batch, epochs=epochs, seed=seed, shuffle=shuffle, formats=self._pool.formats,
        )  # fmt: skip


def _scores(predictions: Predictions) -> Metrics:
    scores = classification.scores(predictions.labels, predictions.probabilities)
    return {metric: scores[metric] for metric in METRICS}
