"""The work behind `tffapps.fedstyle`: pictures → federations → the comparison, the studies, the model to be asked."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import pandas as pd
import tensorflow as tf

from models.embedding import embedding_of
from tffapps import (
    PLAIN,
    Aggregation,
    Client,
    Common,
    CutSettings,
    Evaluator,
    Flags,
    Inputs,
    Network,
    Pool,
    Record,
    Study,
    Task,
    TestImages,
    Trial,
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
from tffapps.federated import embeddings
from tffapps.federated.embeddings import TrainingAndOnce
from tffapps.fedstyle import (
    APP,
    COMPARISON,
    METRICS,
    STUDIES,
    FedStylePublicSettings,
    FedStyleSettings,
    FedStyleStudySettings,
    asked,
    cases,
    data,
    evaluators,
    figures,
    global_model,
    tables,
)
from tffapps.fedstyle.placement import AtSites, Here, Placement
from tffapps.fedstyle.roles import ROLES, Role
from tffapps.use.recipe import Recipe

_SERVER_POSITION = 10_000  # among the clients' positions: seeds the server's own order of pictures


def run(flags: Flags) -> None:
    """Plays the comparison and the studies; writes tables, figures and the model that `query` asks."""
    common, folder = flags[Common], APP.folder(flags)
    for name in flags[FedStyleStudySettings].studies:
        if name not in (*STUDIES, COMPARISON, "none"):
            raise UserError(f"--studies {name}: choose from {', '.join(STUDIES)}, or none")
    # What cannot be used is found before an engine is started; sites have looked at theirs.
    local = data.load(flags)
    here = None if common.across_sites else Here(local, flags)
    with open_engine(common.engine, common.certificates()) as engine:
        placement: Placement = here or AtSites(local, flags, engine.sites)
        placement.pool.announce(folder)
        study = Study(APP, placement.flags, engine)
        trials, divided = Trials(study, placement), data.divided(placement.pool, common)
        records, model = list[Record](), None
        for number, split in enumerate(divided):
            trials.placement = on_split = here.on(split) if here else placement
            records += [study.run(trials.of(case)) for case in cases.comparison(on_split)]
            if not number:  # the model of the first split is asked, and figures show its pictures
                model, placement = trials.publish(records), on_split
            records += [study.run(trials.of(case)) for case in cases.studies(on_split)]
    what_ran = {
        "data": placement.pool.name, "profile": flags.profile,
        "weights": trials.inputs(placement.federation.artists).weights, "model": flags[FedStyleSettings].model,
    }  # fmt: skip
    answers = asked.of_test_pictures(global_model.load(model), placement.federation) if model and here else None
    records = with_earlier(APP, placement.flags, records, [split.pool.key for split in divided])
    tables.write_all(folder, placement.federation, records, flags[FedStyleSettings].last_rounds, answers, what_ran)
    split_tables.write(folder, records, divided, METRICS, **what_ran)
    figures.draw_all(folder, placement.federation, records, answers, what_ran)


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

    A trial has to be played before the next is made: a frozen base has the weights of the last one's seed.
    """

    def __init__(self, study: Study, placement: Placement) -> None:
        self._study, self._flags = study, placement.flags
        self.placement = placement  # that trials are made for
        self._settings = placement.flags[FedStyleSettings]
        # Cloaked pictures are PNG.
        self._formats = tuple(name for name in images.FORMATS if name in (*placement.pool.formats, "png"))
        self._inputs: dict[int, Inputs] = {}
        self._tasks: dict[tuple[int, bool, bool], Task] = {}
        self._evaluators: dict[tuple[int, bool], Evaluator] = {}

    def of(self, case: cases.Case) -> Trial:
        role, federation, settings = ROLES[case.method], case.federation, self._settings
        rows = role.training_rows(federation.pool)
        inputs = self.inputs(federation.artists)
        feed = Feed(inputs, federation.pool, settings.batch, role.by_embeddings)
        return Trial(
            labels={
                "study": case.study, "variant": case.variant, "method": case.method, "artists": federation.artists,
                "clients": len(federation.pool.clients), "seed": case.seed, **self.placement.split.labels,
            },
            name=name_of(
                case.study, case.variant, case.method, f"{federation.artists}artists", self.placement.split.name,
                f"seed{case.seed}",
            ),
            method=dataclasses.replace(self._flags[role.method], **case.changes),
            task=self._task(inputs, role),
            clients=lambda: self._clients(role, feed, rows, case.seed),
            initial=inputs.initial(case.seed),
            rounds=settings.rounds,
            evaluator=self._evaluator(role, feed),
            settings=[settings, *role.settings(self._flags), *case.prepared],
            data={"images": self.placement.pool.key, "federation": federation.key},
            size=len(rows),
            aggregation=Aggregation() if role.alone else self._flags[Aggregation],
            min_clients=1 if role.alone else self._study.common.min_clients,
            reestimate=self._flags[CutSettings].reestimate,
            trained=subjects_in(pd.concat(list(rows.values()))),
            server_data=(lambda number: self._server_data(feed, case.seed, number)) if role.server else None,
            bundle=self._recipe(inputs, role, federation.pool, rows),
        )  # fmt: skip

    def _recipe(self, inputs: Inputs, role: Role, pool: Pool, rows: dict[str, pd.DataFrame]) -> Recipe | None:
        """Of a run's bundle; a federation that sends no weights has no global model to leave."""
        if not role.method.sends_weights:
            return None
        here = [] if pool.at_sites else [path for part in rows.values() for path in part.path]
        return inputs.recipe(pool.classes, pool.name, here)

    def inputs(self, artists: int) -> Inputs:
        """The network of so many artists, and what it sees."""
        if artists not in self._inputs:
            chosen = self._settings
            network = Network(
                chosen.model, chosen.size, 3, chosen.head, self._study.common.weights, self._flags[CutSettings]
            )
            self._inputs[artists] = Inputs(
                network, classes=artists, formats=self._formats, cache=cache_folder() / "features", augmentations={},
                **engine_options(self._study.engine),
            )  # fmt: skip
        return self._inputs[artists]

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
        public = Feed(inputs, federation.pool, self._settings.batch).once(federation.pool.part("public"))
        styles = embeddings.class_sums_of(self._task(inputs, role), public).means()
        about = {**inputs.described, "seed": record["seed"]}
        global_model.save(record.folder, inputs.network, styles, federation, about)

    def _clients(self, role: Role, feed: Feed, rows: dict[str, pd.DataFrame], seed: int) -> list[Client]:
        feed.inputs.prepare(list(feed.pool.table.path), PLAIN)
        epochs, site = role.epochs(self._flags), HERE if role.alone else None

        def client(position: int, name: str) -> Client:
            return Client(
                name, lambda number: feed.training(rows[name], epochs, stream(seed, number, position)), site,
                examples=epochs * len(rows[name]), passes=epochs,
            )  # fmt: skip

        return [client(position, name) for position, name in enumerate(rows)]

    def _server_data(self, feed: Feed, seed: int, number: int) -> Any:
        epochs = self._flags[FedStylePublicSettings].public_epochs
        return feed.training(feed.pool.part("public"), epochs, stream(seed, number, _SERVER_POSITION))

    def _task(self, inputs: Inputs, role: Role) -> Task:
        key = (inputs.model.output_shape[-1], role.by_embeddings, role.server)
        if key not in self._tasks:
            spec = TrainingAndOnce.spec(inputs.spec) if role.by_embeddings else tf.data.DatasetSpec(inputs.spec)
            self._tasks[key] = Task(inputs.model, spec, cross_entropy, server_spec=spec if role.server else None)
        return self._tasks[key]

    def _evaluator(self, role: Role, feed: Feed) -> Evaluator:
        """Across sites the same for the same artists: what sites are asked is built and sent once."""
        key = (len(feed.pool.classes), role.method.sends_weights)
        if self._study.engine.sites and key in self._evaluators:
            return self._evaluators[key]
        model = feed.inputs.model

        def pictures(model: tf.keras.Model) -> TestImages:
            return TestImages(
                self._study.engine, model, feed.inputs.spec, feed.pool.part("test"), feed.once, exact=feed.exact,
                codes=feed.pool.codes,
            )  # fmt: skip

        if role.method.sends_weights:
            self._evaluators[key] = evaluators.of_global_model(pictures(model), feed.pool.classes)
        else:
            embeddings_of, clients = pictures(embedding_of(model)), feed.pool.clients
            self._evaluators[key] = evaluators.PrototypeEvaluator(embeddings_of, model, clients, feed.pool.classes)
        return self._evaluators[key]
