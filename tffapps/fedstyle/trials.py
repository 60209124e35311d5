"""The work behind `tffapps.fedstyle`: pictures → federations → the comparison, the studies, the model to be asked."""

import dataclasses
import hashlib
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from models.embedding import embedding_of
from tffapps import (
    CHOSEN,
    PLAIN,
    VALIDATION,
    Aggregation,
    Client,
    Common,
    CutSettings,
    Evaluator,
    Flags,
    Initial,
    Inputs,
    Network,
    Pool,
    PredictionEvaluator,
    Record,
    Retraining,
    Split,
    Study,
    Task,
    TestImages,
    Trial,
    Tuner,
    UserError,
    cache_folder,
    cross_entropy,
    engine_options,
    name_of,
    open_engine,
    split_tables,
    stream,
    with_earlier,
)
from tffapps.data import images
from tffapps.data.pool import subjects_in
from tffapps.engine.values import HERE
from tffapps.evaluation.evidence import Entry
from tffapps.federated import embeddings
from tffapps.federated.embeddings import TrainingAndOnce
from tffapps.fedstyle import (
    APP,
    COMPARISON,
    FROM_PUBLIC,
    METRICS,
    STUDIES,
    WEIGHTS,
    FedStylePublicSettings,
    FedStyleSettings,
    FedStyleStartSettings,
    FedStyleStudySettings,
    asked,
    cases,
    data,
    evaluators,
    figures,
    global_model,
    paper,
    rivals,
    stopping,
    tables,
)
from tffapps.fedstyle.placement import AtSites, Here, Placement
from tffapps.fedstyle.roles import ROLES, Role
from tffapps.tuning import Chosen
from tffapps.use.recipe import Recipe

_SERVER_POSITION = 10_000  # among the clients' positions: seeds the server's own order of pictures

_OWN_PICTURES = (
    "fedproto: its clients' models do not leave their sites, and are tested on their own sites' pictures alone; where a"
    " site has few artists that flatters them: compare fedproto with others on one machine"
)


def run(flags: Flags) -> None:
    """Plays the comparison and the studies; writes tables, figures and the model that `query` asks."""
    flags = with_weights(flags)
    common, folder = flags[Common], APP.folder(flags)
    for name in flags[FedStyleStudySettings].studies:
        if name not in (*STUDIES, COMPARISON, "none"):
            raise UserError(f"--studies {name}: choose from {', '.join(STUDIES)}, or none")
    # What cannot be used is found before an engine is started; sites have looked at theirs.
    local = data.load(flags)
    here = None if common.across_sites else Here(local, flags)
    with open_engine(common.engine, common.certificates(), common.devices) as engine:
        placement: Placement = here or AtSites(local, flags, engine.sites)
        placement.pool.announce(folder)
        study = Study(APP, placement.flags, engine)
        trials, divided = Trials(study, placement), data.divided(placement.pool, common)
        trials.check_gradients()
        records, untrained, model = list[Record](), list[Entry](), None
        for number, split in enumerate(divided):
            trials.placement = on_split = here.on(split) if here else placement
            records += [study.run(trials.of(case)) for case in cases.comparison(on_split)]
            untrained += rivals.entries(trials, common)
            if not number:  # the model of the first split is asked, and figures show its pictures
                model, placement = trials.publish(records), on_split
            records += [study.run(trials.of(case)) for case in cases.studies(on_split)]
    what_ran = {
        "data": placement.pool.name, "profile": flags.profile,
        "weights": trials.inputs(placement.federation.artists).weights, "model": flags[FedStyleSettings].model,
    }  # fmt: skip
    answers = asked.of_test_pictures(global_model.load(model), placement.federation) if model and here else None
    records = with_earlier(APP, placement.flags, records, [split.pool.key for split in divided])
    if common.select == VALIDATION:
        what_ran = {"chosen": CHOSEN[VALIDATION], **what_ran}
    tables.write_all(folder, placement.federation, records, untrained, flags[FedStyleSettings], answers, what_ran)
    trials.tuner.write(**what_ran)
    split_tables.write(folder, records, divided, METRICS, **what_ran)
    figures.draw_all(folder, placement.federation, records, answers, what_ran)


def with_weights(flags: Flags) -> Flags:
    """The loss weights that --loss-weights stands for; refuses what else cannot be."""
    for start in flags[FedStyleStartSettings].start_from:
        if start not in (WEIGHTS, FROM_PUBLIC):
            raise UserError(f"--start-from {start}: choose from {WEIGHTS}, {FROM_PUBLIC}")
    if flags[FedStyleSettings].patience and flags[Common].select != VALIDATION:
        raise UserError("--patience: it is the validation loss that is waited for; give --select validation as well")
    return flags.replaced(**paper.LOSS_WEIGHTS.get(flags[FedStyleStudySettings].loss_weights, {}))


@dataclasses.dataclass(frozen=True)
class Feed:
    """The pipelines of one run: pictures of a pool as an application's network sees them."""

    inputs: Inputs
    pool: Pool
    batch: int
    by_embeddings: bool = False  # whether everybody who trains also sees each picture once as it is

    def training(self, rows: pd.DataFrame, epochs: int, seed: int) -> Any:
        """A dataset, or `TrainingAndOnce`."""
        paths, codes = list(rows.path), self.pool.codes(rows)
        batches = self.inputs.batches(paths, codes, batch=self.batch, epochs=epochs, seed=seed)
        return TrainingAndOnce(batches, self.once(rows)) if self.by_embeddings else batches

    def once(self, rows: pd.DataFrame) -> tf.data.Dataset:
        """In the order of the rows."""
        return self.inputs.batches(list(rows.path), self.pool.codes(rows), batch=self.batch, shuffle=False)

    def exact(self, rows: pd.DataFrame) -> tf.data.Dataset:
        """The same, of nothing that was stored in half precision."""
        return self.inputs.exact(list(rows.path), self.pool.codes(rows), batch=self.batch)


class Trials:
    """Makes a trial of each case. Trials of as many artists share a network, its tasks and across sites its evaluators.

    What --tune chose is asked of `tuner`, and what runs from public pictures begin with is trained when it is needed.
    A trial has to be played before the next is made: a frozen base has the weights of the last one's seed.
    """

    def __init__(self, study: Study, placement: Placement) -> None:
        self._study, self._flags = study, placement.flags
        self.placement = placement  # that trials are made for
        self.tuner = Tuner(study)
        self._chosen: dict[tuple[str, str, str], Chosen] = {}  # by method, start and split; or without it
        # Cloaked pictures are PNG.
        self._formats = tuple(name for name in images.FORMATS if name in (*placement.pool.formats, "png"))
        self._inputs: dict[tuple[Network, int], Inputs] = {}
        self._tasks: dict[tuple[Inputs, bool, bool], Task] = {}
        self._evaluators: dict[tuple[int, bool], Evaluator] = {}

    def check_gradients(self) -> None:
        """Refuses a method that could not learn, before any other is trained."""
        model = self.inputs(self.placement.federation.artists).model
        for name in set(self._study.common.methods) & set(ROLES):
            embeddings.check_gradient(ROLES[name].method_of(self._flags), model)

    def of(self, case: cases.Case) -> Trial:
        """The trial of a case, with what --tune chose for its method if it is of the comparison."""
        if case.study != COMPARISON:
            return self._trial(case, self._flags, self.placement)
        if ROLES[case.method].retrained:
            return self._retrained(case)
        chosen = self._choose(case)
        return dataclasses.replace(self._trial(case, chosen.flags, self.placement), tuned=chosen.values)

    def _choose(self, case: cases.Case) -> Chosen:
        placement = self.placement
        once = self._flags[FedStyleSettings].tune_once
        key = (case.method, case.start, "" if once else placement.split.name)
        if key not in self._chosen:

            def make(flags: Flags, split: Split, seed: int) -> Iterator[Trial]:
                on_split = placement.on(split)
                yield self._trial(
                    dataclasses.replace(case, federation=on_split.federation, seed=seed), flags, on_split
                )  # fmt: skip

            self._chosen[key] = self.tuner.choose(
                " from ".join([case.method, *case.labels.values()]), placement.split, make
            )
        return self._chosen[key]

    def _retrained(self, case: cases.Case) -> Trial:
        """FedAvg's run over again up to the round that stands for it; its classifying layer is trained anew then."""
        plain = self.of(dataclasses.replace(case, method="fedavg"))
        rounds = int(self._study.run(plain).summary.get("round", plain.rounds))
        evaluator = plain.evaluator
        assert isinstance(evaluator, PredictionEvaluator)
        labels = {name: value for name, value in plain.labels.items() if name != "chosen"}
        return dataclasses.replace(
            plain, labels={**labels, "method": case.method}, name=plain.name.replace("fedavg", case.method),
            rounds=rounds, evaluator=dataclasses.replace(evaluator, chosen_by=""), enough=None, bundle=None,
            retraining=Retraining(retrain="ccvr"),
        )  # fmt: skip

    def _trial(self, case: cases.Case, flags: Flags, placement: Placement) -> Trial:
        role, federation, settings = ROLES[case.method], case.federation, flags[FedStyleSettings]
        rows = role.training_rows(federation.pool)
        initial = self._initial(case, flags)
        inputs = self.inputs(federation.artists, flags)
        feed = Feed(inputs, federation.pool, settings.batch, role.by_embeddings)
        evaluator = self._evaluator(role, feed)
        return Trial(
            labels={
                "study": case.study, "variant": case.variant, "method": case.method, "artists": federation.artists,
                "clients": len(federation.pool.clients), "seed": case.seed, **placement.split.labels, **case.labels,
                **({"chosen": VALIDATION} if evaluator.chosen_by else {}),
            },
            name=name_of(
                case.study, case.variant, case.method, f"{federation.artists}artists", placement.split.name,
                f"seed{case.seed}", *case.labels.values(),
            ),
            method=role.method_of(flags, **case.changes),
            task=self._task(inputs, role),
            clients=lambda: self._clients(role, feed, rows, case.seed, flags),
            initial=initial,
            rounds=settings.rounds,
            evaluator=evaluator,
            settings=[settings, *role.settings(flags), *case.prepared],
            data={"images": placement.pool.key, "federation": federation.key},
            size=len(rows),
            aggregation=Aggregation() if role.alone else flags[Aggregation],
            min_clients=1 if role.alone else self._study.common.min_clients,
            reestimate=flags[CutSettings].reestimate,
            enough=stopping.when(settings.patience),
            trained=subjects_in(pd.concat(list(rows.values()))),
            server_data=(lambda number: self._server_data(feed, case.seed, number, flags)) if role.server else None,
            bundle=self._recipe(inputs, role, federation.pool, rows),
        )  # fmt: skip

    def _recipe(self, inputs: Inputs, role: Role, pool: Pool, rows: dict[str, pd.DataFrame]) -> Recipe | None:
        """Of a run's bundle; a federation that sends no weights has no global model to leave."""
        if not role.method.sends_weights:
            return None
        here = [] if pool.at_sites else [path for part in rows.values() for path in part.path]
        return inputs.recipe(pool.classes, pool.name, here)

    def _initial(self, case: cases.Case, flags: Flags) -> Initial:
        """As --weights says, or as local ends on this split: its settings and its round are chosen as any method's."""
        inputs = self.inputs(case.federation.artists, flags)
        if case.start != FROM_PUBLIC:
            return inputs.initial(case.seed)
        local = cases.Case(COMPARISON, "", "local", self.placement.federation, case.seed)
        weights = self._study.run(self.of(local)).weights()
        identity = inputs.initial(case.seed).identity  # after the run: a frozen base has the weights of the last seed
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in weights)).hexdigest()
        return Initial(weights, {**identity, "start": digest})

    def inputs(self, artists: int, flags: Flags | None = None) -> Inputs:
        """The network of so many artists, and what it sees."""
        chosen = (flags or self._flags)[FedStyleSettings]
        network = Network(
            chosen.model, chosen.size, 3, chosen.head, self._study.common.weights, self._flags[CutSettings],
            self._study.common.precision,
        )  # fmt: skip
        if (network, artists) not in self._inputs:
            self._inputs[network, artists] = Inputs(
                network, classes=artists, formats=self._formats, cache=cache_folder() / "features", augmentations={},
                **engine_options(self._study.engine),
            )  # fmt: skip
        return self._inputs[network, artists]

    def publish(self, records: Sequence[Record]) -> pathlib.Path | None:
        """The file of the model to be asked: of the comparison's FedStyle, first seed; None if it was not played."""
        for record in records:
            if record["method"] == "fedstyle":
                if not (record.folder / global_model.FILE).exists():
                    self._save(record)
                return global_model.publish(record.folder, self._study.folder)
        return None

    def _save(self, record: Record) -> None:
        federation, role = self.placement.federation, ROLES["fedstyle"]
        inputs = self.inputs(federation.artists)
        inputs.initial(record["seed"])  # of a frozen base, which the rounds do not train
        inputs.model.set_weights(record.weights())
        public = Feed(inputs, federation.pool, self._flags[FedStyleSettings].batch).once(federation.pool.part("public"))
        styles = embeddings.class_sums_of(self._task(inputs, role), public).means()
        about = {**inputs.described, "seed": record["seed"]}
        global_model.save(record.folder, inputs.network, styles, federation, about)

    def _clients(
        self, role: Role, feed: Feed, rows: dict[str, pd.DataFrame], seed: int, flags: Flags
    ) -> list[Client]:  # fmt: skip
        feed.inputs.prepare(list(feed.pool.table.path), PLAIN)
        epochs, site = role.epochs(flags), HERE if role.alone else None

        def client(position: int, name: str) -> Client:
            return Client(
                name, lambda number: feed.training(rows[name], epochs, stream(seed, number, position)), site,
                examples=epochs * len(rows[name]), passes=epochs,
            )  # fmt: skip

        return [client(position, name) for position, name in enumerate(rows)]

    def _server_data(self, feed: Feed, seed: int, number: int, flags: Flags) -> Any:
        epochs = flags[FedStylePublicSettings].public_epochs
        return feed.training(feed.pool.part("public"), epochs, stream(seed, number, _SERVER_POSITION))

    def _task(self, inputs: Inputs, role: Role) -> Task:
        key = (inputs, role.by_embeddings, role.server)
        if key not in self._tasks:
            spec = TrainingAndOnce.spec(inputs.spec) if role.by_embeddings else tf.data.DatasetSpec(inputs.spec)
            self._tasks[key] = Task(inputs.model, spec, cross_entropy, server_spec=spec if role.server else None)
        return self._tasks[key]

    def _evaluator(self, role: Role, feed: Feed) -> Evaluator:
        """Across sites the same for the same artists: what sites are asked is built and sent once."""
        key = (len(feed.pool.classes), role.method.sends_weights)
        if self._study.engine.sites and key in self._evaluators:
            return self._evaluators[key]
        model, tested, validated = feed.inputs.model, feed.pool.part("test"), feed.pool.part("val")

        def pictures(model: tf.keras.Model, rows: pd.DataFrame = tested) -> TestImages:
            return TestImages(
                self._study.engine, model, feed.inputs.spec, rows, feed.once, exact=feed.exact, codes=feed.pool.codes,
            )  # fmt: skip

        if role.method.sends_weights:
            self._evaluators[key] = evaluators.of_global_model(
                pictures(model), feed.pool.classes, pictures(model, validated) if len(validated) else None,
                self._study.common.select == VALIDATION,
            )  # fmt: skip
        else:
            encoder, clients = embedding_of(model), feed.pool.clients
            parts = {client: tested[tested.client == client] for client in clients}
            own = {client: pictures(encoder, rows) if len(rows) else None for client, rows in parts.items()}
            if self._study.engine.sites:
                print(_OWN_PICTURES, file=sys.stderr)
            self._evaluators[key] = evaluators.PrototypeEvaluator(
                pictures(encoder), model, clients, feed.pool.classes, own if self._study.engine.sites else None,
                pictures(encoder, validated) if len(validated) else None,
            )  # fmt: skip
        return self._evaluators[key]
