"""The work behind `tffapps.fedsda`: patches → stains → stain model → images of each side → classifiers → tables."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from preprocessing.stain import StainSettings
from tffapps import cli, fedsda
from tffapps.engine import Engine, addresses, open_engine
from tffapps.errors import UserError
from tffapps.evaluation import classification
from tffapps.evaluation.evaluator import Evaluator
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, stream
from tffapps.federated.methods import METHODS
from tffapps.federated.rounds import Rounds
from tffapps.federated.task import Task, cross_entropy
from tffapps.federated.training import train
from tffapps.fedsda import data, figures, stains, tables
from tffapps.fedsda.alignments import Aligned, Alignments
from tffapps.fedsda.ccst import Learned as LearnedStyles
from tffapps.fedsda.ccst import StyleTransfer
from tffapps.fedsda.data import CACHE, FEDERATION, Fold, Pool
from tffapps.fedsda.diffusion import Diffusion, Learned
from tffapps.fedsda.placement import AtSites, OneMachine, Place
from tffapps.fedsda.quality import Quality
from tffapps.fedsda.stain_source import distances_between
from tffapps.inputs import Inputs, Network, whereabouts
from tffapps.runs import Run
from tffapps.settings import as_dict, pick


@dataclasses.dataclass(frozen=True)
class Record:
    """What one run of a classifier wrote down."""

    method: str
    side: str
    fold: str
    seed: int
    rounds: pd.DataFrame


def run_all(values: dict[str, Any]) -> None:
    settings, folder = fedsda.settings_of(values), fedsda.APP.folder(values)
    separation = StainSettings(method=values["stain_method"], lambda_matrix=values["stain_lambda"])
    # What is here is read before an engine is started; sites have looked at theirs.
    here = None if addresses(values["engine"]) else _Here(values, folder, settings, separation)
    with open_engine(values["engine"], cli.certificates(values)) as engine:
        pool = here.pool if here else data.of_sites(engine.sites)
        if here is None:
            settings = _across_sites(settings)
        folds = _folds(pool, settings, values)
        place: Place = AtSites(engine, separation)
        if here:
            place = here.place
        work = _Work(values, settings, pool, place, engine)
        judge = Quality(values) if here and len(settings.sides) > 1 else None  # first: a missing file is not found last
        records = [record for fold in folds for record in work.classify(fold)]
        if not records:
            raise UserError("nothing to run: --pairs paper has other sides than none and fedsda for fedavg only")
        stain_models = work.stain_models(folds[0]) if "fedsda" in settings.sides else []
        quality = work.quality(folds[0], judge) if judge else {}
        separated = place.separation(folds[0])
        between = distances_between(place.sources(folds[0])) if stain_models else []
    what_ran = {
        "data": pool.name,
        "profile": values["profile"],
        "weights": work.inputs.weights,
        "model": settings.model,
    }
    tables.write_all(folder, pool, separated, records, stain_models, between, quality, what_ran)
    figures.draw_all(folder, folds[0], here.measured if here else None, records, stain_models, quality, what_ran)


class _Here:
    """Everybody's patches on this machine, and their stains."""

    def __init__(
        self, values: dict[str, Any], folder: pathlib.Path, settings: fedsda.Settings, separation: StainSettings
    ) -> None:
        self.pool = data.load(values, folder)
        train = _folds(self.pool, settings, values)[0].train
        self.measured = stains.measure(list(train.path), separation, self.pool.key, CACHE)
        tables.say_unmeasured(self.measured, folder)
        self.place: Place = OneMachine(self.measured, separation, self.pool.truth)


def _folds(pool: Pool, settings: fedsda.Settings, values: dict[str, Any]) -> list[Fold]:
    folds = data.folds(pool, settings.leave_out)
    for fold in folds:
        if values["min_clients"] > len(fold.clients):
            raise UserError(f"--min-clients {values['min_clients']}: there are only {len(fold.clients)} clients")
    return folds


def _across_sites(settings: fedsda.Settings) -> fedsda.Settings:
    """Without what would need the sites' images here."""
    sides = tuple(side for side in settings.sides if side in fedsda.SIDES_OF_SITES)
    left_out = [side for side in settings.sides if side not in sides]
    if not sides:
        choice = ", ".join(fedsda.SIDES_OF_SITES)
        raise UserError(f"--sides {','.join(left_out)}: cannot be had across sites; choose from {choice}")
    if left_out:
        print(f"across sites {' and '.join(left_out)} are left out, and so are measures of pictures", file=sys.stderr)
    return dataclasses.replace(settings, sides=sides)


class _Work:
    """All runs of one command: they share networks, the images made and every round that has been built."""

    def __init__(
        self,
        values: dict[str, Any],
        settings: fedsda.Settings,
        pool: Pool,
        place: Place,
        engine: Engine,
    ) -> None:
        self._values, self._settings, self._pool, self._engine = values, settings, pool, engine
        self._place = place
        network = Network(settings.model, settings.size, 3, settings.head, settings.freeze, values["weights"])
        self.inputs = Inputs(
            network, classes=len(pool.classes), formats=pool.formats, cache=CACHE / "features", augmentations={},
            **whereabouts(engine),
        )  # fmt: skip
        self._rounds = Rounds(Task.of_batches(self.inputs.model, self.inputs.spec, cross_entropy))
        self._aggregation = pick(Aggregation, values)
        self._diffusion = Diffusion(values, engine)
        self._learned: dict[Any, Learned] = {}
        self._sides: dict[str, Alignments] = {}
        # Now, so that a missing file of weights is not found out after an hour.
        self._style_transfer = StyleTransfer(values, engine) if "ccst" in settings.sides else None

    def classify(self, fold: Fold) -> list[Record]:
        """Every method and side that is asked for, on every seed. Left-out centres are for FedAvg alone."""
        records = []
        for seed in self._values["seeds"]:
            for side in self._settings.sides:
                methods = [name for name in self._values["methods"] if self._wanted(name, side, fold)]
                aligned = self._images(fold).of(side, seed) if methods else None
                records += [self._run(method, side, fold, aligned, seed) for method in methods if aligned is not None]
        return records

    def _wanted(self, method: str, side: str, fold: Fold) -> bool:
        if method == "fedavg":
            return True
        return fold.name == FEDERATION and (self._settings.pairs == "all" or side in ("none", "fedsda"))

    def stain_models(self, fold: Fold) -> list[Learned]:
        """The stain model, its rivals (Table 1) and its other schedules (Figure 7)."""
        first, *others = self._values["blocks"]
        usual = self._values["diffusion_epochs"]
        found = [self._stain_model(fold, block) for block in (first, *others)]
        return found + [self._stain_model(fold, first, e) for e in self._values["sweep_epochs"] if e != usual]

    def quality(self, fold: Fold, judge: Quality) -> dict[str, Any]:
        """For each side its scores and its images, and under "label" what measured them."""
        made: dict[str, Any] = {"label": judge.label, "scores": {}, "aligned": {}}
        for side in self._settings.sides:
            aligned = self._images(fold).of(side, self._values["seeds"][0])
            made["scores"][side] = judge.measure(aligned, fold.clients)
            made["aligned"][side] = aligned
        return made

    def _stain_model(self, fold: Fold, block: str, epochs: int = 0) -> Learned:
        key = (fold.name, block, epochs)
        if key not in self._learned:
            without = "" if fold.name == FEDERATION else fold.name
            self._learned[key] = self._diffusion.learn(fold.clients, self._place.sources(fold), block, without, epochs)
        return self._learned[key]

    def _images(self, fold: Fold) -> Alignments:
        if fold.name not in self._sides:
            self._sides[fold.name] = Alignments(
                self._values,
                fold,
                self._place.align,
                lambda: self._stain_model(fold, self._values["blocks"][0]).model,
                functools.cache(lambda: self._learned_styles(fold)),
            )
        return self._sides[fold.name]

    def _learned_styles(self, fold: Fold) -> LearnedStyles:
        assert self._style_transfer is not None  # asked for by the side ccst alone
        return self._style_transfer.learn(fold, self._pool.key, self._pool.formats)

    def _run(self, method: str, side: str, fold: Fold, aligned: Aligned, seed: int) -> Record:
        weights, identity = self.inputs.initial(seed)
        rules = pick(METHODS[method], self._values)
        key = {
            **as_dict(rules), **as_dict(self._aggregation), **identity,
            **{name: getattr(self._settings, name) for name in ("model", "size", "head", "rounds", "epochs", "batch")},
            "method": method, "side": side, "fold": fold.name, "seed": seed, "data": self._pool.key,
            "made": aligned.key,
        }  # fmt: skip
        name = f"{method}-{side}-seed{seed}" + ("" if fold.name == FEDERATION else f"-without-{fold.name}")
        with cli.open_run(fedsda.APP, self._values, name, key) as run:
            if not run.finished:
                self._train(run, rules, weights, fold, aligned, seed)
                last = run.rounds().iloc[-1]
                run.finish({metric: float(last[metric]) for metric in fedsda.METRICS})
            return Record(method, side, fold.name, seed, run.rounds())

    def _train(self, run: Run, rules: Any, weights: list[np.ndarray], fold: Fold, aligned: Aligned, seed: int) -> None:
        self.inputs.prepare([*aligned.train.path, *aligned.test.path], "plain")
        spec, tested = self.inputs.spec, aligned.test
        evaluator = Evaluator(
            self._engine, self.inputs.model, spec, tested, lambda rows: self._batches(rows, 0, 1, shuffle=False)
        )

        def client(place: int, name: str) -> Client:
            rows = aligned.train[aligned.train.client == name]

            def batches(number: int) -> Any:
                return self._batches(rows, stream(seed, number, place), self._settings.epochs)

            return Client(name, batches)

        def evaluate(values: list[np.ndarray], number: int) -> dict[str, float]:
            answers = evaluator.answers(values, last=number == self._settings.rounds)
            return _scores(*answers) if answers else dict.fromkeys(fedsda.METRICS, np.nan)

        train(
            run, self._rounds.of(rules, self._aggregation, len(fold.clients)), weights,
            [client(*pair) for pair in enumerate(fold.clients)],
            rounds=self._settings.rounds, evaluate=evaluate, engine=self._engine, headline="auroc",
            min_clients=self._values["min_clients"], tensorboard=self._values["tensorboard"], seed=seed,
        )  # fmt: skip

    def _batches(self, rows: pd.DataFrame, seed: int, epochs: int, shuffle: bool = True) -> Any:
        return self.inputs.batches(
            list(rows.path), self._pool.codes(rows), batch=self._settings.batch, epochs=epochs, seed=seed,
            shuffle=shuffle,
        )  # fmt: skip


def _scores(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    found = classification.scores(labels, probabilities)
    if probabilities.shape[1] == 2 and 0 < labels.sum() < len(labels):  # of the second class, which is the tumour
        found["auprc"] = float(average_precision_score(labels, probabilities[:, 1]))
    return {metric: found[metric] for metric in fedsda.METRICS}
