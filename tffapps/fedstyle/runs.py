"""The work behind `tffapps.fedstyle`: pictures → federations → the comparison, the studies, the model to be asked."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tffapps import cli, fedstyle
from tffapps.data import images
from tffapps.engine import Engine, addresses, open_engine
from tffapps.engine.values import HERE
from tffapps.errors import UserError
from tffapps.federated import embeddings
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, stream
from tffapps.federated.embeddings import Means, TrainingAndOnce
from tffapps.federated.methods import EMBEDDING_METHODS, METHODS
from tffapps.federated.round import Round, build_round
from tffapps.federated.task import Task, cross_entropy
from tffapps.federated.training import kept_weights, train
from tffapps.fedstyle import asked, data, figures, global_model, sites, tables
from tffapps.fedstyle.cloaking import Cloaks
from tffapps.fedstyle.data import CACHE, Federation, Pool
from tffapps.fedstyle.judging import Judge
from tffapps.inputs import Inputs, Network, whereabouts
from tffapps.runs import Run
from tffapps.settings import as_dict, pick

_SERVER = "server"
_PLACE = 10_000  # of the server, among the clients' places: seeds its own order of pictures
COMPARISON = "comparison"
# What is left out of FedStyle's losses; the last is FedAvg whose server trains on the public pictures.
ABLATIONS = {
    "without L1": ("style_ce",),
    "without L2": ("style_contrast",),
    "without L3": ("style_mse",),
    "without styles": ("style_contrast", "style_mse", "style_server_contrast"),
}


@dataclasses.dataclass(frozen=True)
class Record:
    """What one run wrote down."""

    study: str
    variant: str  # within the study
    method: str
    artists: int
    clients: int
    seed: int
    rounds: pd.DataFrame


def run_all(values: dict[str, Any]) -> None:
    settings, folder = fedstyle.settings_of(values), fedstyle.APP.folder(values)
    unknown = [name for name in values["studies"] if name not in (*fedstyle.STUDIES, COMPARISON, "none")]
    if unknown:
        raise UserError(f"--studies {unknown[0]}: choose from {', '.join(fedstyle.STUDIES)}, or none")
    pool = data.load(values, folder)  # before an engine is started
    across = bool(addresses(values["engine"]))
    if not across:
        _check_clients(values, pool.federation(settings.artists))
    # Early: a missing file is not found out last.
    cloaks = Cloaks(values) if "cloaking" in values["studies"] and not across else None
    with open_engine(values["engine"], cli.certificates(values)) as engine:
        if across:
            pool = sites.with_sites(pool, engine.sites)
            count = pool.table.label.nunique()
            settings, values = sites.fitted(settings, count), sites.without_files(values, count)
        federation = pool.federation(settings.artists)
        _check_clients(values, federation)
        work = _Work(values, settings, pool, engine)
        records = list(work.compare(federation))
        for study in fedstyle.STUDIES:
            if study in values["studies"]:
                records += work.study(study, cloaks)
        found = work.inputs(len(federation.classes))
    what_ran = {
        "data": pool.name, "profile": values["profile"], "weights": found.weights, "model": settings.model,
    }  # fmt: skip
    # Only a model of this command's: one that lies there from before may be of other artists.
    askable = "fedstyle" in values["methods"] and not across
    answers = asked.of_test_pictures(folder, federation) if askable else None
    tables.write_all(folder, federation, records, answers, settings.last_rounds, what_ran)
    figures.draw_all(folder, federation, records, answers, what_ran)


def _check_clients(values: dict[str, Any], federation: Federation) -> None:
    count = len(federation.clients)
    if values["min_clients"] > count:
        raise UserError(f"--min-clients {values['min_clients']}: there are only {count} clients")


class _Work:
    """All runs of one command: they share networks and every round that has been built."""

    def __init__(self, values: dict[str, Any], settings: fedstyle.Settings, pool: Pool, engine: Engine) -> None:
        self._values, self._settings, self._pool, self._engine = values, settings, pool, engine
        # Cloaked pictures are PNG.
        self._formats = tuple(name for name in images.FORMATS if name in pool.formats or name == "png")
        self._aggregation = pick(Aggregation, values)
        self._inputs: dict[int, Inputs] = {}
        self._rounds: dict[Any, Round] = {}
        self._judges: dict[int, Judge] = {}

    def compare(self, federation: Federation) -> Iterator[Record]:
        for seed in self._values["seeds"]:
            for method in self._values["methods"]:
                yield self._run(COMPARISON, "", method, federation, seed)

    def study(self, name: str, cloaks: Cloaks | None) -> Iterator[Record]:
        """The runs of a study; what the comparison has already is taken from there."""
        artists = self._settings.artists
        seeds = self._values["seeds"][: self._values["study_seeds"] or None]
        methods = self._values["methods"]
        for seed in seeds:
            if name == "scalability":
                for count in self._values["scalability"]:
                    for method in methods:
                        yield self._run(name, str(count), method, self._pool.federation(count), seed)
            elif name == "ablation" and "fedstyle" in methods:
                for variant, dropped in ABLATIONS.items():
                    changes = dict.fromkeys(dropped, 0.0)
                    yield self._run(name, variant, "fedstyle", self._pool.federation(artists), seed, changes)
            elif name == "heterogeneity":
                for kind, alpha in [("even", 0.0), *(("dirichlet", alpha) for alpha in self._values["alphas"])]:
                    dealt = self._pool.dealt(artists, kind, alpha, seed)
                    for method in ("fedavg", "fedstyle"):
                        if method in methods:
                            yield self._run(name, dealt.name, method, dealt, seed)
            elif name == "cloaking" and cloaks is not None:
                for share in self._values["cloaked"]:
                    yield self._run(name, f"{share:g}", "centralised", cloaks.federation(self._pool, share, seed), seed)

    def inputs(self, classes: int) -> Inputs:
        if classes not in self._inputs:
            chosen = self._settings
            network = Network(
                chosen.model, chosen.size, 3, chosen.head, chosen.freeze, self._values["weights"]
            )  # fmt: skip
            self._inputs[classes] = Inputs(
                network, classes=classes, formats=self._formats, cache=CACHE / "features", augmentations={},
                **whereabouts(self._engine),
            )  # fmt: skip
        return self._inputs[classes]

    def _run(
        self,
        study: str,
        variant: str,
        method: str,
        federation: Federation,
        seed: int,
        changes: dict[str, float] | None = None,
    ) -> Record:
        alone = method in ("local", "centralised")
        inputs = self.inputs(len(federation.classes))
        weights, identity = inputs.initial(seed)
        kinds = {**METHODS, **EMBEDDING_METHODS}
        rules = dataclasses.replace(pick(kinds["fedavg" if alone else method], self._values), **(changes or {}))
        aggregation = Aggregation() if alone else self._aggregation
        key = {
            **as_dict(rules), **as_dict(aggregation), **identity,
            **{name: getattr(self._settings, name) for name in ("model", "size", "head", "rounds", "epochs", "batch")},
            "method": method, "study": study, "federation": federation.name, "artists": len(federation.classes),
            "seed": seed, "data": self._pool.key,
        }  # fmt: skip
        if method in ("local", "fedstyle"):
            key["public_epochs"] = self._settings.public_epochs
        parts = [study, variant, method, f"{len(federation.classes)}artists", f"seed{seed}"]
        name = "-".join(part for part in parts if part).replace(" ", "-")
        with cli.open_run(fedstyle.APP, self._values, name, key) as run:
            if not run.finished:
                self._train(run, method, rules, aggregation, weights, inputs, federation, seed)
                last = run.rounds().iloc[-1]
                run.finish({metric: float(last[metric]) for metric in fedstyle.METRICS})
            if study == COMPARISON and method == "fedstyle" and seed == self._values["seeds"][0]:
                global_model.publish(run.folder, fedstyle.APP.folder(self._values))
            return Record(study, variant, method, len(federation.classes), len(federation.clients), seed, run.rounds())

    def _train(
        self,
        run: Run,
        method: str,
        rules: Any,
        aggregation: Aggregation,
        weights: list[np.ndarray],
        inputs: Inputs,
        federation: Federation,
        seed: int,
    ) -> None:
        inputs.prepare(list(federation.table.path), "plain")
        parts = {"local": ("public",), "centralised": ("train", "public")}.get(method)
        if parts:
            rows = {_SERVER: federation.table[federation.table.split.isin(parts)]}
        else:
            rows = {name: federation.part("train")[federation.part("train").client == name]
                    for name in federation.clients}  # fmt: skip
        public = federation.part("public") if method == "fedstyle" else None
        if (parts == ("public",) or public is not None) and not len(federation.part("public")):
            raise UserError("no public pictures: artists have too few; leave local and fedstyle out of --methods")
        judge = self._judge(inputs, federation)
        round_ = self._round(rules, aggregation, inputs, len(rows), public is not None)

        def given(rows: pd.DataFrame, epochs: int, own_seed: int) -> Any:
            options: dict[str, Any] = {"batch": self._settings.batch}
            paths, codes = list(rows.path), federation.codes(rows)
            training = inputs.batches(paths, codes, epochs=epochs, seed=own_seed, **options)
            if method not in EMBEDDING_METHODS:
                return training
            return TrainingAndOnce(training, inputs.batches(paths, codes, shuffle=False, **options))

        def client(place: int, name: str) -> Client:
            own = rows[name]
            epochs = self._settings.public_epochs if method == "local" else self._settings.epochs
            return Client(
                name, lambda number: given(own, epochs, stream(seed, number, place)), site=HERE if parts else None
            )

        def server_data(number: int) -> Any:
            assert public is not None  # asked for only then
            return given(public, self._settings.public_epochs, stream(seed, number, _PLACE))

        def evaluate(state: Any, number: int) -> dict[str, float]:
            last = number == self._settings.rounds
            if method != "fedproto":
                return judge.of_model(round_.result(state), last=last)
            kept = (kept_weights(run, round_, position) for position in range(len(rows)))
            models = (own for own in kept if own is not None)  # the others were left out so far
            return judge.of_prototypes(Means(*state.memory), models, last=last)

        result = train(
            run, round_, weights, [client(*pair) for pair in enumerate(rows)], rounds=self._settings.rounds,
            evaluate_state=evaluate, engine=self._engine, seed=seed, tensorboard=self._values["tensorboard"],
            min_clients=1 if parts else self._values["min_clients"],
            server_data=server_data if public is not None else None,
        )  # fmt: skip
        if method == "fedstyle" and public is not None:
            inputs.model.set_weights(result)
            styles = embeddings.class_sums_of(self._task(inputs, True, True), given(public, 1, 0).once).means()
            about = {name: getattr(self._settings, name) for name in ("model", "size", "head")}
            global_model.save(pathlib.Path(run.folder), inputs.network, styles, federation, {**about, "seed": seed})

    def _judge(self, inputs: Inputs, federation: Federation) -> Judge:
        """Across sites the same for the same artists: what sites are asked is built and sent once."""
        judge = Judge(self._engine, inputs, federation, self._settings.batch)
        return self._judges.setdefault(len(federation.classes), judge) if self._engine.sites else judge

    def _task(self, inputs: Inputs, by_embeddings: bool, public: bool) -> Task:
        if not by_embeddings:
            return Task.of_batches(inputs.model, inputs.spec, cross_entropy)
        spec = TrainingAndOnce.spec(inputs.spec)
        return Task(inputs.model, spec, cross_entropy, server_spec=spec if public else None)

    def _round(self, rules: Any, aggregation: Aggregation, inputs: Inputs, clients: int, public: bool) -> Round:
        task = self._task(inputs, rules.name in EMBEDDING_METHODS, public)
        counted = rules.name == "fpl" or not aggregation.weighted
        key = (rules, aggregation, inputs.model.output_shape[-1], clients if counted else None, public)
        if key not in self._rounds:
            self._rounds[key] = build_round(task, rules, aggregation, clients)
        return self._rounds[key]
