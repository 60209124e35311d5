"""The work behind `tffapps.fedtransfer`: tiles → generators → painted images → federations of U-Nets → tables."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from models.weights import WeightsError, WeightsUsed, check_shapes, fill
from tffapps import cli, fedtransfer
from tffapps.engine import Engine, addresses, open_engine
from tffapps.errors import RunStopped, UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, stream
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import Round
from tffapps.federated.rounds import Rounds
from tffapps.federated.task import Task
from tffapps.federated.training import train
from tffapps.fedtransfer import GLOBAL, data, figures, look, tables
from tffapps.fedtransfer.data import Pool
from tffapps.fedtransfer.exchange import Exchange, Made
from tffapps.fedtransfer.inputs import Inputs
from tffapps.fedtransfer.judge import Judge, Scores
from tffapps.fedtransfer.judge_at_sites import JudgeAtSites
from tffapps.fedtransfer.sites import Sites
from tffapps.runs import Run, name_of
from tffapps.settings import as_dict, pick

ALL_DATA, FEDERATION = "all data", "federation"
_BEST = "best"  # the weights of the round with the lowest validation loss, as a run keeps them


@dataclasses.dataclass(frozen=True)
class Record:
    """What one run wrote down."""

    method: str
    site: str  # a client, ALL_DATA or FEDERATION
    precision: str  # of fedtransfer, "" otherwise
    seed: int
    fold: int
    chosen: int  # the round
    scores: Scores
    rounds: pd.DataFrame
    best: Callable[[], list[np.ndarray]]  # the weights of that round


@dataclasses.dataclass(frozen=True)
class Exchanged:
    """What was painted for one seed and fold."""

    precision: str
    seed: int
    fold: int
    made: Made


def run_all(values: dict[str, Any]) -> None:
    folder = fedtransfer.APP.folder(values)
    # Files that cannot be used are found before an engine is started; sites look at theirs.
    local = [] if addresses(values["engine"]) else data.load(values)
    with open_engine(values["engine"], cli.certificates(values)) as engine:
        sites = Sites(engine, values) if engine.sites else None
        clients = sites.names if sites else local[0].clients
        if values["min_clients"] > len(clients):
            raise UserError(f"--min-clients {values['min_clients']}: there are only {len(clients)} clients")
        pools = sites.pools() if sites else local
        work = _Work(values, pools, engine, sites)
        records = list(work.runs())
    seen = [look.seen(pools[one.fold], one.made, work.channels, one.seed) for one in work.compared()] if local else []
    if not local:
        print("look.csv, looks.png, segmentations.png: left out, the images are at the sites", file=sys.stderr)
    settings = work.settings
    what_ran = {
        "data": pools[0].name,
        "profile": values["profile"],
        "weights": work.weights,
        "model": f"U-Net of width {settings.width}, {pools[0].size[1]}x{pools[0].size[0]} pixels",
    }
    tables.write_all(folder, pools, records, work.exchanged, seen, what_ran, pictures=bool(local))
    figures.draw_all(folder, pools[0], records, work.exchanged, work.judge if local else None, what_ran)


class _Work:
    """All runs of one command: they share the network, its round and the images painted."""

    def __init__(self, values: dict[str, Any], pools: list[Pool], engine: Engine, sites: Sites | None) -> None:
        self._values, self._pools, self._engine = values, pools, engine
        self.settings = fedtransfer.settings_of(values)
        self.channels = self.settings.channels
        self._exchange, self._aggregation = Exchange(values, sites), pick(Aggregation, values)
        self._inputs = inputs = Inputs(self.settings, pools[0].size)
        self._model = inputs.model
        self._rounds = Rounds(Task.of_batches(inputs.model, inputs.spec, inputs.loss))
        here = Judge(inputs.model, inputs.in_order, inputs.loss, inputs.spec)
        self.judge = JudgeAtSites(inputs, engine, sites) if sites else here
        self.exchanged: list[Exchanged] = []
        self.weights = ""

    def runs(self) -> Iterator[Record]:
        """Every method on every seed and fold."""
        for seed in self._values["seeds"]:
            for fold in range(len(self._pools)):
                for method in self._values["methods"]:
                    yield from self._of(method, seed, fold)

    def compared(self) -> list[Exchanged]:
        """The exchanges whose images stand for the method: those of the first precision."""
        return [one for one in self.exchanged if one.precision == self._values["generator_precision"][0]]

    def _of(self, method: str, seed: int, fold: int) -> Iterator[Record]:
        pool = self._pools[fold]
        own = {client: pool.of("train", client)[["path", "mask"]] for client in pool.clients}
        if method == "separate":
            for client, rows in own.items():
                yield self._run(method, client, {client: rows}, seed, fold)
        elif method == "centralised":
            yield self._run(method, ALL_DATA, {ALL_DATA: pd.concat(list(own.values()))}, seed, fold)
        elif method == "fedavg":
            yield self._run(method, FEDERATION, own, seed, fold)
        elif method == "repeated":
            others = len(pool.clients) - 1  # every one of them sends a generator, which paints each label once
            again = {client: pd.concat([rows] * (1 + others)) for client, rows in own.items()}
            yield self._run(method, FEDERATION, again, seed, fold)
        else:
            for precision in self._values["generator_precision"]:
                made = self._exchange.make(pool, precision, seed)
                self.exchanged.append(Exchanged(precision, seed, fold, made))
                more = {client: made.table[made.table.client == client] for client in own}
                both = {client: pd.concat([rows, more[client][["path", "mask"]]]) for client, rows in own.items()}
                yield self._run(method, FEDERATION, both, seed, fold, precision, made.key)

    def _run(
        self,
        method: str,
        site: str,
        clients: dict[str, pd.DataFrame],
        seed: int,
        fold: int,
        precision: str = "",
        key: str = "",
    ) -> Record:
        pool, alone = self._pools[fold], site != FEDERATION
        rules, aggregation = pick(FedAvg, self._values), Aggregation() if alone else self._aggregation
        rounds = self.settings.alone_rounds if method == "separate" else self.settings.rounds
        used = self._initial(seed)
        names = ("width", "depth", "channels", "boundary_weight", "epochs", "batch", "erasing")
        settings = {
            **as_dict(rules), **as_dict(aggregation), **{name: getattr(self.settings, name) for name in names},
            "rounds": rounds, "method": method, "site": site, "seed": seed, "fold": fold, "data": pool.key,
            "weights": used.label, "weights_sha256": used.sha256, "made": key,
        }  # fmt: skip
        if precision:
            settings["precision"] = precision
        parts = [method, "" if site == FEDERATION else site, precision, f"fold{fold}" if len(self._pools) > 1 else ""]
        name = name_of(*parts, f"seed{seed}")
        with cli.open_run(fedtransfer.APP, self._values, name, settings) as run:
            if not run.finished:
                judged = [site] if method == "separate" else pool.clients
                round_ = self._rounds.of(rules, aggregation, len(clients))
                self._train(run, round_, clients, judged, pool, seed, rounds, alone)
                run.finish(self._tested(run, pool))
            found = run.summary()
            scores = {test: found["scores"][test] for test in (*pool.clients, GLOBAL)}  # JSON has them by name
            best = lambda: run.kept(_BEST) or []  # noqa: E731
            return Record(method, site, precision, seed, fold, found["round"], scores, run.rounds(), best)

    def _train(
        self,
        run: Run,
        round_: Round,
        clients: dict[str, pd.DataFrame],
        judged: list[str],
        pool: Pool,
        seed: int,
        rounds: int,
        alone: bool,
    ) -> None:
        def client(place: int, name: str, rows: pd.DataFrame) -> Client:
            return Client(name, lambda number: self._inputs.batches(rows, stream(seed, number, place)))

        def evaluate(weights: list[np.ndarray], number: int) -> dict[str, float]:
            losses = self.judge.validation_losses(weights, pool, judged, last=number == rounds)
            mean = float(np.mean(list(losses.values())))
            earlier = run.rounds()
            lowest = earlier.validation_loss.min() if len(earlier) else math.inf
            if mean < (math.inf if math.isnan(lowest) else lowest):
                run.keep(number, _BEST, weights)
            return {"validation_loss": mean, **{f"validation_loss_{name}": value for name, value in losses.items()}}

        train(
            run, round_, self._model.get_weights(),
            [client(place, *pair) for place, pair in enumerate(clients.items())],
            rounds=rounds, evaluate=evaluate, engine=self._engine, headline="validation_loss",
            min_clients=1 if alone else self._values["min_clients"], tensorboard=self._values["tensorboard"], seed=seed,
        )  # fmt: skip

    def _tested(self, run: Run, pool: Pool) -> dict[str, Any]:
        best, record = run.kept(_BEST), run.rounds()
        if best is None:
            raise RunStopped(f"{run.folder}: no round has a finite validation loss; lower --learning-rate")
        row = record.loc[record.validation_loss.idxmin()]
        return {
            "round": int(row["round"]), "validation_loss": float(row.validation_loss),
            "scores": self.judge.test(best, pool),
        }  # fmt: skip

    def _initial(self, seed: int) -> WeightsUsed:
        """Gives the network the weights that a seed's runs begin with."""
        try:
            used = fill(self._model, self._values["weights"], seed, _no_imagenet, _whole)
        except WeightsError as error:
            raise UserError(f"--weights: {error}") from error
        self.weights = used.label
        return used


def _no_imagenet() -> Any:
    raise WeightsError("a U-Net has no ImageNet weights; choose --weights random or --weights FILE")


def _whole(path: Any, arrays: list[np.ndarray], model: tf.keras.Model) -> tuple[str, int]:
    """A file holds all weights of this U-Net, or is refused."""
    if len(arrays) != len(model.weights):
        raise WeightsError(f"{path}: {len(arrays)} arrays; this U-Net has {len(model.weights)}")
    check_shapes(path, arrays, model.weights, model.name)
    return "model", len(arrays)
