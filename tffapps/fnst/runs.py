"""The work behind `tffapps.fnst`: patches → sites → images made of other sites' styles → federations → tables."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tffapps import cli, fnst
from tffapps.data import images
from tffapps.engine import Engine, addresses, open_engine
from tffapps.errors import UserError
from tffapps.evaluation import classification
from tffapps.evaluation.evaluator import Answers, Evaluator
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, stream
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import Round
from tffapps.federated.rounds import Rounds
from tffapps.federated.task import Task, cross_entropy
from tffapps.federated.training import train
from tffapps.fnst import Augmentation, data, figures, jobs, tables
from tffapps.fnst.across import AcrossSites
from tffapps.fnst.attack import attack
from tffapps.fnst.data import AS_GIVEN, CACHE, Pool, Sites
from tffapps.fnst.exchange import Exchange, Made, rare_and_rich
from tffapps.fnst.styler import Styler
from tffapps.inputs import Inputs, Network, whereabouts
from tffapps.runs import Run, name_of
from tffapps.settings import as_dict, pick

ALL_DATA, FEDERATION = "all data", "federation"


@dataclasses.dataclass(frozen=True)
class Record:
    """What one run wrote down."""

    method: str
    site: str  # a client, ALL_DATA or FEDERATION
    rare: int
    augmentation: str  # of AUGMENTED methods, "" otherwise
    seed: int
    made: int  # images added, all clients together
    rounds: pd.DataFrame


def run_all(values: dict[str, Any]) -> None:
    settings, folder = fnst.settings_of(values), fnst.APP.folder(values)
    augmentations = [Augmentation.parse(text) for text in settings.augmentations]
    # Files that cannot be used are found before an engine is started; sites have looked at theirs.
    local = None if addresses(values["engine"]) else data.load(values, folder)
    if local is None:
        values = _for_sites(values)
    elif not local.has_sites and set(fnst.AUGMENTED) & set(values["methods"]):
        _check(augmentations, settings.rare)
    wants_styles = values["attack"] or "fnst" in values["methods"]
    # First: a missing file of weights is not found out last.
    styler = Styler(pick(fnst.StyleFlags, values)) if wants_styles else None
    with open_engine(values["engine"], cli.certificates(values)) as engine:
        pool = local or data.of_sites(engine.sites)
        first = pool.sites(settings.rare[0], values["seeds"][0])
        if values["min_clients"] > len(first.clients):
            raise UserError(f"--min-clients {values['min_clients']}: there are only {len(first.clients)} clients")
        work = _Work(values, settings, pool, styler, engine)
        records = list(work.runs(augmentations))
    attacked = attack(styler, first, values) if styler and values["attack"] else None
    what_ran = {
        "data": pool.name,
        "profile": values["profile"],
        "weights": work.inputs.weights,
        "model": settings.model,
        "vgg": f"{styler.weights}, width {values['vgg_width']}" if styler else "",
    }
    tables.write_all(folder, pool, first, records, work.made, attacked, what_ran)
    figures.draw_all(folder, pool, first, records, attacked, what_ran)
    if styler and work.made and local:
        figures.styled(folder / "styled.png", styler, pool, work.made, pool.name)


def _for_sites(values: dict[str, Any]) -> dict[str, Any]:
    """The settings without what needs images here."""
    jobs.check_weights(pick(fnst.StyleFlags, values))
    if values["attack"]:
        print("the attack is left out: it looks at images, and these are at the sites", file=sys.stderr)
    return {**values, "attack": False}


class _Work:
    """All runs of one command: they share the network, its round and the images made."""

    def __init__(
        self, values: dict[str, Any], settings: fnst.Settings, pool: Pool, styler: Styler | None, engine: Engine
    ) -> None:
        self._values, self._settings, self._pool, self._engine = values, settings, pool, engine
        self._exchange: Exchange | None = None
        if styler:
            self._exchange = AcrossSites(styler, engine) if engine.sites else Exchange(styler)
        formats = tuple(name for name in images.FORMATS if name in pool.formats or name == "png")  # made images are PNG
        network = Network(settings.model, settings.size, 3, settings.head, settings.freeze, values["weights"])
        self.inputs = Inputs(
            network, classes=len(pool.classes), formats=formats, cache=CACHE / "features", augmentations={},
            **whereabouts(engine),
        )  # fmt: skip
        self._rounds = Rounds(Task.of_batches(self.inputs.model, self.inputs.spec, cross_entropy))
        self._aggregation = pick(Aggregation, values)
        self._evaluators: dict[int, Evaluator] = {}  # by seed, where features are tested that each seed has of its own
        self.made: dict[tuple[str, int], Made] = {}  # augmentation and seed -> what clients made

    def runs(self, augmentations: list[Augmentation]) -> Iterator[Record]:
        """Every method on every seed and every setting that it knows."""
        methods, rare = self._values["methods"], self._settings.rare
        if self._pool.has_sites:
            rare = (AS_GIVEN,)
        for seed in self._values["seeds"]:
            if "centralised" in methods:
                table = self._pool.table[self._pool.table.split == "train"]
                yield self._run("centralised", ALL_DATA, {ALL_DATA: table}, seed=seed)
            for count in rare:
                sites = self._pool.sites(count, seed)
                clients = {name: sites.of(name) for name in sites.clients}
                if "separate" in methods:
                    for name, rows in clients.items():
                        yield self._run("separate", name, {name: rows}, seed=seed, rare=count)
                if "fedavg" in methods:
                    yield self._run("fedavg", FEDERATION, clients, seed=seed, rare=count)
            for augmentation in augmentations:
                for method in fnst.AUGMENTED:
                    if method in methods:
                        yield self._augmented(method, augmentation, seed)

    def _augmented(self, method: str, augmentation: Augmentation, seed: int) -> Record:
        rare = self._pool.rare_of(augmentation)
        sites = self._pool.sites(rare, seed)
        if method == "fnst":
            made = self._made(sites, augmentation, seed)
            more, key = made.table, made.key
        else:
            more, key = repeated(sites, augmentation), ""
        columns = ["path", "label", "client"]
        clients = {
            name: pd.concat([sites.of(name)[columns], more[columns][more.client == name]]) for name in sites.clients
        }
        return self._run(
            method, FEDERATION, clients, seed=seed, rare=rare, augmentation=augmentation.name, key=key, made=len(more)
        )

    def _made(self, sites: Sites, augmentation: Augmentation, seed: int) -> Made:
        place = (augmentation.name, seed)
        if place not in self.made:
            assert self._exchange is not None  # there is one wherever fnst is run
            self.made[place] = self._exchange.make(sites, augmentation, seed)
        return self.made[place]

    def _run(
        self,
        method: str,
        site: str,
        clients: dict[str, pd.DataFrame],
        *,
        seed: int,
        rare: int = AS_GIVEN,
        augmentation: str = "",
        key: str = "",
        made: int = 0,
    ) -> Record:
        alone = site != FEDERATION
        weights, identity = self.inputs.initial(seed)
        rules, aggregation = pick(FedAvg, self._values), Aggregation() if alone else self._aggregation
        rounds, epochs = self._settings.rounds, self._settings.epochs
        if alone:
            epochs = min(self._settings.alone_every, self._settings.alone_epochs)
            rounds = -(-self._settings.alone_epochs // epochs)
        settings = {
            **as_dict(rules), **as_dict(aggregation), **identity,
            **{name: getattr(self._settings, name) for name in ("model", "size", "head", "batch")},
            "rounds": rounds, "epochs": epochs, "method": method, "site": site, "seed": seed,
            "data": self._pool.key, "made": key,
        }  # fmt: skip
        if rare != AS_GIVEN:
            settings["rare"] = rare
        if augmentation:
            settings["augmentation"] = augmentation
        parts = [method, "" if site == FEDERATION else site, augmentation or (f"rare{rare}" if rare else "")]
        name = name_of(*parts, f"seed{seed}")
        with cli.open_run(fnst.APP, self._values, name, settings) as run:
            if not run.finished:
                round_ = self._rounds.of(rules, aggregation, len(clients))
                self._train(run, round_, weights, clients, seed, rounds, epochs, 1 if alone else None)
                last = run.rounds().iloc[-1]
                run.finish({metric: float(last[metric]) for metric in fnst.METRICS})
            return Record(method, site, rare, augmentation, seed, made, run.rounds())

    def _train(
        self,
        run: Run,
        round_: Round,
        weights: list[np.ndarray],
        clients: dict[str, pd.DataFrame],
        seed: int,
        rounds: int,
        epochs: int,
        min_clients: int | None,
    ) -> None:
        tested = self._pool.table[self._pool.table.split == "test"]
        everything = [path for rows in (*clients.values(), tested) for path in rows.path]
        self.inputs.prepare(everything, "plain")
        evaluator = self._evaluator(tested, seed)

        def client(place: int, name: str, rows: pd.DataFrame) -> Client:
            return Client(name, lambda number: self._batches(rows, stream(seed, number, place), epochs))

        def evaluate(values: list[np.ndarray], number: int) -> dict[str, float]:
            return self._scores(evaluator.answers(values, last=number == rounds))

        train(
            run, round_, weights, [client(place, *pair) for place, pair in enumerate(clients.items())],
            rounds=rounds, evaluate=evaluate, engine=self._engine, headline="macro_f1",
            min_clients=min_clients or self._values["min_clients"], tensorboard=self._values["tensorboard"], seed=seed,
        )  # fmt: skip

    def _batches(self, rows: pd.DataFrame, seed: int, epochs: int, shuffle: bool = True) -> Any:
        return self.inputs.batches(
            list(rows.path), self._pool.codes(rows), batch=self._settings.batch, epochs=epochs, seed=seed,
            shuffle=shuffle,
        )  # fmt: skip

    def _evaluator(self, tested: pd.DataFrame, seed: int) -> Evaluator:
        place = seed if self.inputs.on_features else 0
        if place not in self._evaluators:
            self._evaluators[place] = Evaluator(
                self._engine, self.inputs.model, self.inputs.spec, tested,
                lambda rows: self._batches(rows, 0, 1, shuffle=False),
            )  # fmt: skip
        return self._evaluators[place]

    def _scores(self, answers: Answers | None) -> dict[str, float]:
        """Not known in a round in which a site with test images was away."""
        classes = self._pool.classes
        if answers is None:
            return dict.fromkeys((*fnst.METRICS, *(f"f1_{label}" for label in classes)), float("nan"))
        found = classification.scores(*answers)
        by_class = classification.per_class(*answers, classes).f1
        return {
            **{metric: found[metric] for metric in fnst.METRICS},
            **{f"f1_{label}": float(value) for label, value in by_class.items()},
        }


def repeated(sites: Sites, augmentation: Augmentation) -> pd.DataFrame:
    """The rare images again, each as many times as it would be given a style."""
    few, many = rare_and_rich(sites, augmentation)
    again = [sites.train[:0]]
    for client, labels in few.items():
        for label in labels:
            others = [len(sites.of(name, label)) for name in many if name != client and label in many[name]]
            times = sum(min(count, augmentation.styles) for count in others)
            again += [sites.of(client, label)] * times
    return pd.concat(again, ignore_index=True)


def _check(augmentations: list[Augmentation], rare: tuple[int, ...]) -> None:
    for augmentation in augmentations:
        if augmentation.contents not in rare:
            raise UserError(
                f"--augmentations {augmentation.name}: contents are all rare images of a class: "
                f"add {augmentation.contents} to --rare, or leave {augmentation.name} out"
            )
