"""Trials of both kinds on every seed, and the table."""

from __future__ import annotations

import pandas as pd

from own_system import APP, OwnSettings, data
from tffapps.app import Common
from tffapps.data import labelled
from tffapps.data.pool import Pool
from tffapps.engine import open_engine
from tffapps.evaluation import classification
from tffapps.evaluation.evaluator import PredictionEvaluator
from tffapps.evaluation.predictions import TestImages
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, stream
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.task import Task, cross_entropy
from tffapps.home import cache_folder
from tffapps.inputs import Inputs, Network, engine_options
from tffapps.results import over_seeds, write_table
from tffapps.settings import Flags
from tffapps.study import Study, Trial

METRICS = ("accuracy", "macro_f1")


def run(flags: Flags) -> None:
    common, folder = flags[Common], APP.folder(flags)
    local = None if common.across_sites else data.load(flags)
    with open_engine(common.engine, common.certificates()) as engine:
        pool = local or labelled.of_sites(engine.sites)
        pool.announce(folder)
        study = Study(APP, flags, engine)
        records = [study.run(trial) for trial in trials(study, pool)]
    rows = pd.DataFrame([{**record.labels, **record.summary} for record in records])
    write_table(folder / "comparison.csv", over_seeds(rows, ["method"], METRICS), data=pool.name, profile=flags.profile)


def trials(study: Study, pool: Pool) -> list[Trial]:
    common, settings = study.common, study.flags[OwnSettings]
    network = Network(settings.model, settings.size, 3, "gap", "auto", common.weights)
    inputs = Inputs(
        network, classes=len(pool.classes), formats=pool.formats, cache=cache_folder() / "features", augmentations={},
        **engine_options(study.engine),
    )  # fmt: skip
    task = Task.of_batches(inputs.model, inputs.spec, cross_entropy)

    def batches(rows: pd.DataFrame, **options):
        return inputs.batches(list(rows.path), pool.codes(rows), batch=settings.batch, **options)

    def trial(method: str, seed: int) -> Trial:
        epochs = 1 if method == "often" else settings.stretch

        def client(position: int, name: str) -> Client:
            rows = pool.part("train", name)
            return Client(name, lambda number: batches(rows, epochs=epochs, seed=stream(seed, number, position)))

        initial = inputs.initial(seed)  # first: stored features depend on the weights
        tested = TestImages(
            study.engine, inputs.model, inputs.spec, pool.part("test"), lambda rows: batches(rows, shuffle=False)
        )
        return Trial(
            labels={"method": method, "seed": seed}, name=f"{method}-seed{seed}", method=study.flags[FedAvg], task=task,
            clients=lambda: [client(*pair) for pair in enumerate(pool.clients)], initial=initial,
            rounds=-(-settings.epochs // epochs), evaluator=PredictionEvaluator({"": tested}, scores, METRICS),
            settings=[settings], data={"images": pool.key}, size=len(pool.clients),
            aggregation=study.flags[Aggregation], min_clients=common.min_clients,
        )  # fmt: skip

    return [trial(method, seed) for method in common.methods for seed in common.seeds]


def scores(predictions) -> dict[str, float]:
    every = classification.scores(predictions.labels, predictions.probabilities)
    return {metric: every[metric] for metric in METRICS}
