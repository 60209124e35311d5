"""The work behind `tffapps.classify`: data → clients → trials → table."""

from collections.abc import Iterator

import pandas as pd

from tffapps import (
    METHODS,
    Aggregation,
    Classifier,
    Common,
    CutSettings,
    Flags,
    Metrics,
    Network,
    Pool,
    PredictionEvaluator,
    Predictions,
    Record,
    Study,
    Trial,
    curves,
    name_of,
    open_engine,
    over_seeds,
    write_table,
)
from tffapps.classify import APP, METRICS, REFERENCES, ClassifySettings, data
from tffapps.data import labelled
from tffapps.evaluation import classification

FEDERATION, ALL_DATA = "federation", "all data"


def run(flags: Flags) -> None:
    """Plays every method on every seed, and writes the table and the figure."""
    common, folder = flags[Common], APP.folder(flags)
    # Files that cannot be used are found before an engine is started; sites have looked at theirs.
    local = None if common.across_sites else data.load(flags)
    with open_engine(common.engine, common.certificates()) as engine:
        pool = local or labelled.of_sites(engine.sites)
        study = Study(APP, flags, engine)
        trials = Trials(study, pool)
        pool.announce(folder)
        records = [study.run(trial) for trial in trials.all()]
    what_ran = {
        "data": pool.name, "profile": flags.profile, "weights": trials.weights,
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
        self._settings = settings = study.flags[ClassifySettings]
        network = Network(
            settings.model, settings.size, settings.channels, settings.head, self._common.weights,
            study.flags[CutSettings],
        )  # fmt: skip
        self._classifier = Classifier(
            study, pool, network, batch=settings.batch, augment=settings.augment, stored_views=settings.stored_views
        )
        self._tested = pool.part("test")
        self._classifier.inputs.initial(self._common.seeds[0])  # first: a missing file of weights is not found out last
        if set(self._common.methods) - set(REFERENCES):
            self._common.check_clients(len(pool.clients))
        self._evaluators: dict[int, PredictionEvaluator] = {}  # by seed, where each seed has features of its own

    @property
    def weights(self) -> str:
        """What tables call the first weights."""
        return self._classifier.inputs.weights

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
                    yield self._trial(method, FEDERATION, training, seed)

    def _trial(self, method: str, site: str, training: dict[str, pd.DataFrame], seed: int) -> Trial:
        alone = method in REFERENCES
        aggregation = Aggregation() if alone else self._flags[Aggregation]
        first = sorted(self._pool.clients).index(site) if method == "separate" else 0
        return Trial(
            labels={
                "method": method, "site": site, "seed": seed, "aggregator": aggregation.described(),
                "rounds": self._settings.rounds,
            },
            name=name_of(method, site, f"seed{seed}"),
            method=self._flags[METHODS["fedavg" if alone else method]],
            task=self._classifier.task,
            clients=lambda: self._classifier.clients(training, self._tested, seed, self._settings.epochs, first),
            initial=self._classifier.inputs.initial(seed),
            rounds=self._settings.rounds,
            evaluator=self._evaluator(seed),
            settings=[self._settings],
            data={"images": self._pool.key},
            size=len(training),
            aggregation=aggregation,
            min_clients=1 if alone else self._common.min_clients,
            reestimate=self._flags[CutSettings].reestimate,
        )  # fmt: skip

    def _evaluator(self, seed: int) -> PredictionEvaluator:
        key = seed if self._classifier.inputs.on_features else 0
        if key not in self._evaluators:
            tested = self._classifier.test_images(self._tested)
            self._evaluators[key] = PredictionEvaluator({"": tested}, _scores, METRICS, self._pool.classes)
        return self._evaluators[key]


def _scores(predictions: Predictions) -> Metrics:
    scores = classification.scores(predictions.labels, predictions.probabilities)
    return {metric: scores[metric] for metric in METRICS}
