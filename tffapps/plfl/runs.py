"""The work behind `tffapps.plfl`: data → networks → frameworks → records → tables."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps import cli, plfl
from tffapps.data import images, oai
from tffapps.engine import Engine, open_engine
from tffapps.errors import UserError
from tffapps.evaluation import classification
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.round import Round, build_round
from tffapps.federated.training import train
from tffapps.plfl import AFTER_GOLD, METRICS, data, figures, poisoning, tables
from tffapps.plfl.frameworks import SPLITS, Federation, Frameworks
from tffapps.plfl.inputs import inputs_of
from tffapps.runs import Run
from tffapps.settings import as_dict, pick


@dataclasses.dataclass(frozen=True)
class Record:
    """What one run wrote down."""

    framework: str
    model: str
    seed: int
    poison: float
    rounds: pd.DataFrame
    clients: pd.DataFrame


def run_all(values: dict[str, Any]) -> None:
    settings, folder = plfl.settings_of(values), plfl.APP.folder(values)
    if not values["data"]:
        _check_clients(values, oai.CLIENTS)
    pool = data.load(values, settings, folder)  # before an engine is started
    methods = list(values["methods"])
    if set(AFTER_GOLD) & set(methods) and "gold" not in methods:
        methods.insert(0, "gold")
    what_ran = {"data": "", "profile": values["profile"]}
    records: list[Record] = []
    with open_engine(values["engine"], cli.certificates(values)) as engine:
        if engine.sites:
            pool = data.with_sites(pool, values, settings, engine.sites)
            settings = _without_poison(settings)
        _check_clients(values, pool.clients)
        what_ran["data"] = pool.name
        for name in settings.models:
            network = _Network(name, values, settings, pool, engine)
            records += [network.run(method, seed) for seed in values["seeds"] for method in methods]
            studied = [method for method in poisoning.KINDS if method in methods]
            records += [
                network.run(method, seed, share)
                for share in settings.poison
                for seed in values["seeds"][: settings.poison_seeds or None]
                for method in studied
            ]
            what_ran.setdefault("weights", network.inputs.weights)
    tables.write_all(folder, records, pool, values, what_ran, network.inputs.frozen)
    if settings.preprocess == "knee":
        examples = pool.table.groupby("label", sort=False).source.first()
        figures.knee_steps(folder / "steps.png", [examples[label] for label in pool.classes], settings.contrast)


def _check_clients(values: dict[str, Any], clients: Sequence[str]) -> None:
    if values["min_clients"] > len(clients):
        raise UserError(f"--min-clients {values['min_clients']}: there are only {len(clients)} clients")


def _without_poison(settings: plfl.Settings) -> plfl.Settings:
    if settings.poison:
        print("the poisoning study is left out: it spoils files, and these are at the sites", file=sys.stderr)
    return dataclasses.replace(settings, poison=())


class _Network:
    """All runs of one network: they share it and every round that has been built."""

    def __init__(
        self, name: str, values: dict[str, Any], settings: plfl.Settings, pool: data.Pool, engine: Engine
    ) -> None:
        self._name, self._values, self._settings, self._pool, self._engine = name, values, settings, pool, engine
        formats = tuple(name for name in images.FORMATS if name in pool.formats or (name == "png" and settings.poison))
        self.inputs = inputs_of(name, settings, len(pool.classes), values["weights"], formats, whole=bool(engine.sites))
        self._frameworks = Frameworks(self.inputs, pool, settings, values)
        self._aggregation = pick(Aggregation, values)
        self._rounds: dict[Any, Round] = {}
        self._started: set[str] = set()  # runs that --fresh has started over

    def run(self, framework: str, seed: int, poison: float = 0.0) -> Record:
        run, _ = self._play(framework, seed, poison)
        return Record(framework, self._name, seed, poison, run.rounds(), run.clients())

    def _play(self, framework: str, seed: int, poison: float = 0.0) -> tuple[Run, list[np.ndarray]]:
        """The finished run and the weights it ended with."""
        weights, identity = self.inputs.initial(seed)
        if framework in AFTER_GOLD:
            weights = self._play("gold", seed)[1]
        table = self._pool.split(SPLITS[framework], seed)
        if poison:
            table = poisoning.poisoned(table, framework, poison, self._pool.classes, seed, self._pool.clients[0])
        self._frameworks.prepare(framework, table)
        federation = self._frameworks.of(framework, table, seed)
        name = f"{framework}-{self._name}-seed{seed}" + (f"-poison{poison:g}" if poison else "")
        key = self._key(framework, federation, identity, seed, poison)
        # The gold run serves two methods; starting over once is enough.
        fresh = self._values["fresh"] and name not in self._started
        self._started.add(name)
        with cli.open_run(plfl.APP, self._values, name, key, fresh) as run:
            stored = run.latest() if run.finished else None
            if stored is not None:  # no need to build a round
                return run, stored[1][: len(weights)]
            weights = self._train(run, federation, weights, framework, table)
            last = run.rounds().iloc[-1]
            run.finish({metric: float(last[metric]) for metric in METRICS})
            return run, weights

    def _key(
        self, framework: str, federation: Federation, identity: dict[str, Any], seed: int, poison: float
    ) -> dict[str, Any]:
        """Every setting that could change a number of this framework, and no other: the others' runs stay valid."""
        method = getattr(federation.method, "method", federation.method)
        common = {name: getattr(self._settings, name) for name in ("size", "channels", "head", "augment", "batch")}
        own: dict[str, Any] = {"rounds": federation.rounds, "epochs": federation.epochs}
        if framework in AFTER_GOLD:
            own |= {"gold_epochs": self._settings.gold_epochs, "target_accuracy": self._settings.target_accuracy}
        if framework == "plfl+":
            own |= {
                "view": self._frameworks.plus_view(),
                "plus_views": self._settings.plus_views,
                "label_views": self._settings.label_views,
            }
        if framework == "fssfl":
            own |= {name: getattr(self._settings, name) for name in ("labelled_batch", "mu", "views")}
        return {
            **common, **own, **as_dict(method), **as_dict(self._aggregation), **identity,
            "method": framework, "model": self._name, "seed": seed, "poison": poison, "data": self._pool.key,
        }  # fmt: skip

    def _train(
        self, run: Run, federation: Federation, weights: list[np.ndarray], framework: str, table: pd.DataFrame
    ) -> list[np.ndarray]:
        server = table[table.client == oai.SERVER]
        parts = {"": server[server.split == "test"]}
        if framework in ("gold", *AFTER_GOLD):
            parts["val_"] = server[server.split == "val"]
        datasets = {prefix: self._frameworks.plain(rows) for prefix, rows in parts.items()}

        def evaluate(values: list[np.ndarray], number: int) -> dict[str, float]:
            del number
            self.inputs.model.set_weights(values)
            found: dict[str, float] = {}
            for prefix, dataset in datasets.items():
                found |= {prefix + name: value for name, value in self._scores(dataset).items()}
            return found

        target = self._settings.target_accuracy
        return train(
            run, self._round(federation), weights, federation.clients,
            rounds=federation.rounds, evaluate=evaluate, engine=self._engine,
            min_clients=1 if framework == "gold" else self._values["min_clients"],
            tensorboard=self._values["tensorboard"], server_data=federation.server_data,
            satisfied=(lambda row: row["val_accuracy"] >= target) if target and framework in AFTER_GOLD else None,
        )  # fmt: skip

    def _scores(self, dataset: Any) -> dict[str, float]:
        labels, probabilities = classification.finite_predictions(self.inputs.model, dataset)
        found = {name: value for name, value in classification.scores(labels, probabilities).items() if name in METRICS}
        counts = classification.confusion(labels, probabilities, self._pool.classes).to_numpy()
        return found | {f"test_{i}_{j}": int(count) for (i, j), count in np.ndenumerate(counts)}

    def _round(self, federation: Federation) -> Round:
        aggregation = self._aggregation if len(federation.clients) > 1 else Aggregation()
        key = (federation.method, aggregation, id(federation.task))
        if key not in self._rounds:
            self._rounds[key] = build_round(federation.task, federation.method, aggregation, len(federation.clients))
        return self._rounds[key]
