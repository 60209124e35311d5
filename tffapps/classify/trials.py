"""The work behind `tffapps.classify`: data → clients → trials → table."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pandas as pd

from tffapps import (
    CHOSEN,
    FEW_LABELS,
    METHODS,
    VALIDATION,
    Aggregation,
    ClassBalance,
    Classifier,
    Common,
    CutSettings,
    Evaluator,
    Flags,
    Metrics,
    Network,
    Pool,
    PredictionEvaluator,
    Predictions,
    Record,
    Retraining,
    Split,
    Study,
    Trial,
    Tuner,
    UserError,
    curves,
    name_of,
    open_engine,
    split_tables,
    with_earlier,
    write_table,
)
from tffapps.classify import APP, METRICS, REFERENCES, ClassifySettings, LabelSettings, claims, data, labels
from tffapps.classify.few import FewLabelTrials
from tffapps.data import labelled, splits
from tffapps.data.pool import subjects_in
from tffapps.evaluation import classification, evidence
from tffapps.evaluation.personal import PersonalEvaluator

FEDERATION, ALL_DATA = "federation", "all data"


def run(flags: Flags) -> None:
    """Plays every method on every split and seed, and writes the tables and the figure."""
    common, folder = flags[Common], APP.folder(flags)
    # Files that cannot be used are found before an engine is started; sites have looked at theirs.
    local = None if common.across_sites else data.load(flags)
    with open_engine(common.engine, common.certificates()) as engine:
        divided = splits.of(local or labelled.of_sites(engine.sites), common)
        study = Study(APP, flags, engine)
        trials = Trials(study, divided[0].pool)
        trials.pool.announce(folder)
        tuner = Tuner(study)
        played = [study.run(trial) for split in divided for trial in trials.all(split, tuner)]
    records = with_earlier(APP, flags, played, [split.pool.key for split in divided])
    what_ran = {
        "chosen": CHOSEN[common.select], "data": trials.pool.name, "profile": flags.profile,
        "weights": trials.weights, "model": flags[ClassifySettings].model, **trials.balance,
        **flags[LabelSettings].described(), **flags[Retraining].described(),
    }  # fmt: skip
    entries = [record.entry(personal=_personal(record)) for record in records]
    by = ["method", "site", "aggregator", "rounds", "personal"]
    summary = evidence.table(entries, by, METRICS, worst=claims.METRIC, mean_client=True)
    write_table(folder / "comparison.csv", split_tables.with_tuned(summary, records, by[:-1]), **what_ran)
    write_table(folder / "claims.csv", evidence.claims(entries, claims.CLAIMS), **what_ran)
    split_tables.write(folder, records, divided, METRICS, **what_ran)
    tuner.write(**what_ran)
    title = f"{trials.pool.name}, {what_ran['model']}"
    curves(folder / "accuracy.png", pd.concat(map(_curve, records)), "accuracy", title)
    shown = ["method", "site", "accuracy", "macro_f1", "macro_f1_low", "macro_f1_high", "images", "seeds"]
    print(summary[shown].to_string(index=False, float_format="{:.4f}".format))
    print(f"tables and figures: {folder}")


def _personal(record: Record) -> str:
    """Which models the table judges: clients' own, each on its own images, or the one that all have."""
    return "yes" if _is_personal(record["method"]) else "no"


def _is_personal(method: str) -> bool:
    return method in METHODS and METHODS[method].personal


def _curve(record: Record) -> pd.DataFrame:
    name = record["method"] if record["site"] == FEDERATION else f"{record['method']}: {record['site']}"
    return record.rounds[["round", "accuracy"]].assign(name=name)


class Trials:
    """All trials of one command: those of the same network share it, and those of a split its test images."""

    def __init__(self, study: Study, pool: Pool) -> None:
        """`pool`: all images, as any of the splits has them."""
        self._study, self._common, self.pool = study, study.common, pool
        self._classifiers: dict[Any, Classifier] = {}
        self._evaluators: dict[Any, Evaluator] = {}
        self._few: dict[Any, FewLabelTrials] = {}
        labels.check(study.flags, pool)
        for method in {*self._common.methods} - {*REFERENCES}:
            kind = study.flags[{**METHODS, **FEW_LABELS}[method]]
            study.flags[Retraining].check(kind, study.flags[Aggregation], self._common.select)
        first = self._classifier(study.flags)
        first.inputs.initial(self._common.seeds[0])  # first: a missing file of weights is not found out last
        if set(self._common.methods) - set(REFERENCES):
            self._common.check_clients(len(pool.clients))
        for method in self._common.methods if self._common.select == VALIDATION else ():
            if _is_personal(method):
                raise UserError(
                    f"--select {VALIDATION}: {method} has a model at every client, of which the last is kept alone;"
                    " leave the method out, or use --select last"
                )
        self.weights = first.inputs.weights  # what tables call the first weights
        # What tables say of loss and sampling, where they are not the usual ones.
        self.balance = {name: getattr(each, name) for each in first.balance_settings for name in ("loss", "sampling")}

    def all(self, split: Split, tuner: Tuner) -> Iterator[Trial]:
        """Every method on every seed, with the settings that were chosen for it."""
        self._evaluators.clear()  # of the split before: they hold its images
        for method in self._common.methods:

            def make(flags: Flags, split: Split, seed: int, method: str = method) -> Iterator[Trial]:
                return self.of(method, flags, split, seed)

            chosen = tuner.choose(method, split, make)
            for seed in self._common.seeds:
                for trial in self.of(method, chosen.flags, split, seed):
                    yield dataclasses.replace(trial, tuned=chosen.values)

    def of(self, method: str, flags: Flags, split: Split, seed: int) -> Iterator[Trial]:
        """The trials of a method: `separate` is one for each client."""
        divided = labels.divide(split.pool, flags[LabelSettings], self._common.group, seed)
        training = dict(divided.known)
        if method in FEW_LABELS:
            yield self._few_labels(method, divided, flags, split, seed)
        elif method == "centralised":
            rows = pd.concat(list(training.values())) if divided.unknown else split.pool.part("train")
            yield self._trial(method, ALL_DATA, {ALL_DATA: rows}, flags, split, seed)
        elif method == "separate":
            for client, rows in training.items():
                yield self._trial(method, client, {client: rows}, flags, split, seed)
        else:
            yield self._trial(method, FEDERATION, training, flags, split, seed)

    def _trial(
        self, method: str, site: str, training: dict[str, pd.DataFrame], flags: Flags, split: Split, seed: int,
        named: str = "",
    ) -> Trial:  # fmt: skip
        """`named`: what the run is called, where it is not after its method."""
        alone, settings, classifier = method in REFERENCES, flags[ClassifySettings], self._classifier(flags)
        aggregation = Aggregation() if alone else flags[Aggregation]
        first = sorted(split.pool.clients).index(site) if method == "separate" else 0
        judged = split.pool.table[split.pool.table.split != "train"]
        evaluator = self._evaluator(classifier, split, seed, _is_personal(method))
        return Trial(
            labels={
                "method": named or method, "site": site, "seed": seed,
                "aggregator": aggregation.described(bool(self._study.engine.sites)),
                "rounds": settings.rounds, **split.labels, **({"chosen": VALIDATION} if evaluator.chosen_by else {}),
            },
            name=name_of(named or method, site, split.name, f"seed{seed}"),
            method=flags[METHODS["fedavg" if alone else method]],
            task=classifier.task,
            clients=lambda: classifier.clients(training, judged, seed, settings.epochs, first),
            initial=classifier.inputs.initial(seed),
            rounds=settings.rounds,
            evaluator=evaluator,
            settings=[settings, *classifier.balance_settings, *flags[LabelSettings].where_used],
            data={"images": split.pool.key},
            size=len(training),
            aggregation=aggregation,
            min_clients=1 if alone or len(training) == 1 else self._common.min_clients,
            reestimate=flags[CutSettings].reestimate,
            retraining=flags[Retraining],
            # Of a personal method clients use their own models.
            bundle=None if _is_personal(method) else classifier.recipe(training, split.pool.part("val")),
            trained=subjects_in(pd.concat(list(training.values()))),
        )  # fmt: skip

    def _few_labels(self, method: str, divided: labels.Divided, flags: Flags, split: Split, seed: int) -> Trial:
        """As a supervised trial over all of the clients' images, but for what they train with."""
        training = divided.unknown if divided.at_server is not None else {
            client: pd.concat([divided.known[client], rows]) for client, rows in divided.unknown.items()
        }  # fmt: skip
        classifier, epochs, chosen = self._classifier(flags), flags[ClassifySettings].epochs, flags[FEW_LABELS[method]]
        few = self._few_trials(classifier, flags)
        judged = split.pool.table[split.pool.table.split != "train"]
        return dataclasses.replace(
            self._trial("fedavg", FEDERATION, dict(training), flags, split, seed, named=method),
            method=chosen,
            task=few.task(chosen, divided.at_server is not None),
            clients=lambda: few.clients(chosen, divided, judged, seed, epochs),
            server_data=few.server_data(divided, seed, epochs),
        )

    def _few_trials(self, classifier: Classifier, flags: Flags) -> FewLabelTrials:
        batch, ratio = flags[ClassifySettings].batch, flags[LabelSettings].unlabelled_ratio
        key = (id(classifier), batch, ratio)
        if key not in self._few:
            self._few[key] = FewLabelTrials(classifier.inputs, self.pool, batch, ratio)
        return self._few[key]

    def _classifier(self, flags: Flags) -> Classifier:
        settings, balance = flags[ClassifySettings], flags[ClassBalance]
        network = Network(
            settings.model, settings.size, settings.channels, settings.head, self._common.weights, flags[CutSettings]
        )
        key = (network, settings.batch, settings.augment, settings.stored_views, balance)
        if key not in self._classifiers:
            self._classifiers[key] = Classifier(
                self._study, self.pool, network, batch=settings.batch, augment=settings.augment,
                stored_views=settings.stored_views, balance=balance,
            )  # fmt: skip
        return self._classifiers[key]

    def _evaluator(self, classifier: Classifier, split: Split, seed: int, personal: bool) -> Evaluator:
        """One for all methods that are judged alike: what sites are asked is built once."""
        key = (id(classifier), split.name, seed if classifier.inputs.on_features else 0, personal)
        if key not in self._evaluators:
            self._evaluators[key] = self._new_evaluator(classifier, split.pool, personal)
        return self._evaluators[key]

    def _new_evaluator(self, classifier: Classifier, pool: Pool, personal: bool) -> Evaluator:
        if not personal:
            parts, chosen_by = classifier.judged(pool.part("test"), pool.part("val"), self._common.select)
            return PredictionEvaluator(parts, _scores, METRICS, pool.classes, chosen_by=chosen_by)
        of_clients = {client: pool.part("test", client) for client in sorted(pool.clients)}
        tested = {client: classifier.test_images(rows) if len(rows) else None for client, rows in of_clients.items()}
        return PersonalEvaluator(tested, _scores, METRICS, pool.classes)


def _scores(predictions: Predictions) -> Metrics:
    scores = classification.scores(predictions.labels, predictions.probabilities)
    return {metric: scores[metric] for metric in METRICS}
