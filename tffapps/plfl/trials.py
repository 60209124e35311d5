"""The work behind `tffapps.plfl`: data → networks → trials of the frameworks → tables and figures."""

import copy
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from preprocessing.knee_settings import KneeSettings
from tffapps import (
    Aggregation,
    Client,
    Common,
    CutSettings,
    Flags,
    Initial,
    Metrics,
    Pool,
    PredictionEvaluator,
    Predictions,
    Record,
    Split,
    Study,
    TestImages,
    Trial,
    engine_options,
    key_of,
    name_of,
    open_engine,
    split_tables,
    with_earlier,
    write_table,
)
from tffapps.app import PAPER
from tffapps.data import images, oai
from tffapps.data.compare import is_own
from tffapps.data.pool import subjects_in
from tffapps.evaluation import classification
from tffapps.plfl import (
    AFTER_GOLD,
    APP,
    METRICS,
    SPLITS,
    PlflImages,
    PlflNetwork,
    PoisonSettings,
    Shares,
    TargetSettings,
    division,
    figures,
    parameters,
    poisoning,
    tables,
)
from tffapps.plfl.frameworks import Frameworks
from tffapps.plfl.inputs import inputs_of, network_of
from tffapps.plfl.parameters import Shape
from tffapps.plfl.placement import Placement, placed
from tffapps.use.recipe import Recipe
from tffapps.use.steps import Knee


def run(flags: Flags) -> None:
    """Plays every framework on every network and seed, then the poisoning study; writes the tables and figures."""
    common, folder = flags[Common], APP.folder(flags)
    if not common.data:
        common.check_clients(len(oai.CLIENTS))
    placement = placed(flags)
    records, weights = list[Record](), list[str]()
    with open_engine(common.engine, common.certificates(), common.devices) as engine:
        pool = placement.pool(engine.sites)
        pool.announce(folder)
        common.check_clients(len(division.clients(pool)))
        divided = division.splits_of(pool, common, common.methods, pool.classes)
        study = Study(APP, flags, engine)
        for model in flags[PlflNetwork].models:
            trials = Trials(study, pool, placement, model)
            records += [study.run(trial) for split in divided for trial in trials.all(split)]
            weights.append(trials.inputs.weights)
    records = with_earlier(APP, flags, records, [split.pool.key for split in divided])
    what_ran = {"data": pool.name, "profile": flags.profile, "weights": weights[0]}
    own = flags.profile == PAPER and is_own(pool, APP.name)
    made = tables.all_of(records, pool, divided, common.seeds, own)
    for name, table in made.items():
        if len(table):
            write_table(folder / f"{name}.csv", table, **what_ran)
    split_tables.write(folder, records, divided, METRICS, **what_ran)
    shapes = [Shape.of(network_of(model, flags), len(pool.classes)) for model in flags[PlflNetwork].models]
    counted = parameters.write(folder, shapes, flags.fresh)
    if own:
        found = tables.studies(made["comparison"], parameters.totals(counted, shapes))
        write_table(folder / "studies.csv", found, **what_ran)
        figures.studies(folder / "studies.png", found, f"{pool.name}, {weights[0]}")
    figures.draw_all(folder, records, pool, made, f"{pool.name}, {weights[0]}")
    if flags[PlflImages].preprocess == "knee":
        figures.knee_steps(folder / "steps.png", pool, flags[PlflImages].contrast)
    print(tables.shown(made["comparison"]))
    print(f"tables and figures: {folder}")


class Trials:
    """All trials of one network: they share it, its tasks and its stored features."""

    def __init__(self, study: Study, pool: Pool, placement: Placement, model: str) -> None:
        self._study, self._flags, self._pool, self._model = study, study.flags, pool, model
        self._poison, self._split = placement.poison, Split("", pool)  # that trials are made for
        # What the poisoner ruins becomes PNG.
        formats = tuple(name for name in images.FORMATS if name in pool.formats or (name == "png" and self._poison))
        network = network_of(model, self._flags)
        held = engine_options(study.engine)["held_bytes"]
        self.inputs = inputs_of(network, self._flags, len(pool.classes), formats, placement.whole, held)
        self._frameworks = Frameworks(self.inputs, pool, self._flags)

    def under(self, flags: Flags) -> "Trials":
        """The same with other flags of the frameworks, and every round that is built shared: not those of networks."""
        other = copy.copy(self)
        other._flags, other._study = flags, self._study.under(flags)
        other._frameworks = self._frameworks.under(flags)
        return other

    def all(self, split: Split) -> Iterator[Trial]:
        """Each is to be played before the next is asked for: stored features are of the weights loaded last."""
        self._split = split
        common = self._flags[Common]
        methods = list(common.methods)
        if set(AFTER_GOLD) & set(methods) and "gold" not in methods:
            methods.insert(0, "gold")
        for seed in common.seeds:
            for method in methods:
                yield self.trial(method, seed)
        for share in self._poison:
            for seed in common.seeds[: self._flags[PoisonSettings].poison_seeds or None]:
                for method in poisoning.KINDS:
                    if method in methods:
                        yield self.trial(method, seed, share)

    def trial(self, method: str, seed: int, share: float = 0.0) -> Trial:
        """A framework; with a `share`, that much of the first client's training data is spoilt."""
        common, target = self._flags[Common], self._flags[TargetSettings].target_accuracy
        initial = self._initial(method, seed)
        split = self._split
        shares = self._flags[Shares]
        table = division.split(split.pool, SPLITS[method], seed, held_out=bool(split.name), share=shares.gold_share)
        federation = self._frameworks.of(method, table, seed)
        several = len(federation.clients) > 1

        def clients() -> Sequence[Client]:
            first = division.clients(self._pool)[0]
            trained = poisoning.poisoned(table, method, share, self._pool.classes, seed, first) if share else table
            self._frameworks.prepare(method, trained)
            return self._frameworks.of(method, trained, seed).clients

        return Trial(
            labels={"method": method, "model": self._model, "seed": seed, "poison": share, **split.labels},
            name=name_of(method, self._model, split.name, f"seed{seed}", f"poison{share:g}" if share else ""),
            method=federation.method,
            task=federation.task,
            clients=clients,
            initial=initial,
            rounds=federation.rounds,
            evaluator=self._evaluator(method, table),
            settings=[
                self._flags[PlflImages],
                self._flags[PlflNetwork],
                *federation.settings,
                *([shares] if shares.gold_share and SPLITS[method] == "plfl" else []),
            ],
            data={"images": split.pool.key},
            size=len(federation.clients),
            aggregation=self._flags[Aggregation] if several else Aggregation(),
            min_clients=1 if not several else common.min_clients,
            reestimate=self._flags[CutSettings].reestimate,
            trained=subjects_in(table[table.split == "train"]),
            server_data=federation.server_data,
            bundle=self._recipe(table),
            enough=(lambda rounds: rounds["val_accuracy"].iloc[-1] >= target) if target and method != "gold" else None,
        )

    def _recipe(self, table: pd.DataFrame) -> Recipe | None:
        """Of a run's bundle: knees are prepared as they were. Embeddings are those of the images that are here."""
        chosen = self._flags[PlflImages]
        steps = [Knee(KneeSettings(contrast=chosen.contrast))] if chosen.preprocess == "knee" else []
        here = table[table.client == oai.SERVER] if self._pool.at_sites else table
        training, held_back = (here[here.split == split] for split in ("train", "val"))
        return self.inputs.recipe(
            self._pool.classes, self._pool.name, list(training.path), list(held_back.path),
            self._pool.codes(held_back), steps,
        )  # fmt: skip

    def _initial(self, method: str, seed: int) -> Initial:
        """The network's first weights, or those that the server's own training ended with."""
        if method not in AFTER_GOLD:
            return self.inputs.initial(seed)
        gold = self.trial("gold", seed)
        return Initial(self._study.run(gold).weights(), {"gold": key_of(gold.key())})

    def _evaluator(self, method: str, table: pd.DataFrame) -> PredictionEvaluator:
        """Of the server's test images, and of the validation images.

        Those are the server's; where it has none (csfl as the thesis divides the images), the clients'.
        """
        server = table[table.client == oai.SERVER]
        held_back = server[server.split == "val"]
        if held_back.empty and not self._pool.at_sites:
            held_back = table[table.split == "val"]
        rows = {"": server[server.split == "test"], "val_": held_back}
        parts = {
            prefix: TestImages(
                self._study.engine, self.inputs.model, self.inputs.spec, part,
                self._frameworks.plain, exact=self._frameworks.exact, here=True,
            )
            for prefix, part in rows.items()
            if len(part)
        }  # fmt: skip
        return PredictionEvaluator(parts, self._scores, METRICS, self._pool.classes)

    def _scores(self, predictions: Predictions) -> Metrics:
        """METRICS and the confusion matrix, `test_<true>_<predicted>`."""
        labels, probabilities = predictions.labels, predictions.probabilities
        scores = classification.scores(labels, probabilities)
        counts = classification.confusion(labels, probabilities, self._pool.classes).to_numpy()
        confusion = {f"test_{i}_{j}": int(count) for (i, j), count in np.ndenumerate(counts)}
        return {name: value for name, value in scores.items() if name in METRICS} | confusion
