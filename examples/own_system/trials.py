"""Trials of both kinds on every seed, and the table."""

from __future__ import annotations

from own_system import APP, OwnSettings, data
from tffapps import (
    Aggregation,
    Classifier,
    Common,
    FedAvg,
    Flags,
    Network,
    Pool,
    PredictionEvaluator,
    Study,
    Trial,
    open_engine,
    write_table,
)
from tffapps.data import labelled
from tffapps.evaluation import classification, evidence

METRICS = ("accuracy", "macro_f1")


def run(flags: Flags) -> None:
    common, folder = flags[Common], APP.folder(flags)
    local = None if common.across_sites else data.load(flags)
    with open_engine(common.engine, common.certificates(), common.devices) as engine:
        pool = local or labelled.of_sites(engine.sites)
        pool.announce(folder)
        study = Study(APP, flags, engine)
        records = [study.run(trial) for trial in trials(study, pool)]
    table = evidence.table([record.entry() for record in records], ["method"], METRICS)
    write_table(folder / "comparison.csv", table, data=pool.name, profile=flags.profile)


def trials(study: Study, pool: Pool) -> list[Trial]:
    common, settings = study.common, study.flags[OwnSettings]
    network = Network(settings.model, settings.size, 3, "auto", common.weights)
    classifier = Classifier(study, pool, network, batch=settings.batch)
    training, tested = {client: pool.part("train", client) for client in pool.clients}, pool.part("test")

    def trial(method: str, seed: int) -> Trial:
        epochs = 1 if method == "often" else settings.stretch
        return Trial(
            labels={"method": method, "seed": seed}, name=f"{method}-seed{seed}", method=study.flags[FedAvg],
            task=classifier.task, clients=lambda: classifier.clients(training, tested, seed, epochs),
            initial=classifier.inputs.initial(seed), rounds=-(-settings.epochs // epochs),
            evaluator=PredictionEvaluator({"": classifier.test_images(tested)}, scores, METRICS, pool.classes),
            settings=[settings],
            data={"images": pool.key}, size=len(training), aggregation=study.flags[Aggregation],
            min_clients=common.min_clients, bundle=classifier.recipe(training, pool.part("val")),
        )  # fmt: skip

    return [trial(method, seed) for method in common.methods for seed in common.seeds]


def scores(predictions) -> dict[str, float]:
    every = classification.scores(predictions.labels, predictions.probabilities)
    return {metric: every[metric] for metric in METRICS}
