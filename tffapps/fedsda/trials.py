"""The work behind `tffapps.fedsda`: patches → stains → stain model → images of each side → classifiers → tables."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from tffapps import (
    CHOSEN,
    METHODS,
    VALIDATION,
    Aggregation,
    ClassBalance,
    Classifier,
    Common,
    CutSettings,
    Flags,
    Metrics,
    Network,
    Pool,
    PredictionEvaluator,
    Predictions,
    Retraining,
    Split,
    Study,
    Trial,
    UserError,
    name_of,
    open_engine,
    split_tables,
    with_earlier,
)
from tffapps.data import splits
from tffapps.data.pool import subjects_in
from tffapps.evaluation import classification
from tffapps.evaluation.evaluator import Evaluator
from tffapps.evaluation.personal import PersonalEvaluator
from tffapps.fedsda import (
    APP,
    GAUSSIAN_DP,
    HARMOFL,
    METRICS,
    SIDES_ON_REQUEST,
    CcstDecoderSettings,
    ClassifierSettings,
    FedsdaSettings,
    QualitySettings,
    SeparationSettings,
    data,
    figures,
    tables,
)
from tffapps.fedsda.alignments import (
    Aligned,
    Alignment,
    AmplitudeAlignment,
    StainAlignment,
    StyleAlignment,
    Unaligned,
    in_views,
)
from tffapps.fedsda.ccst import style_transfer
from tffapps.fedsda.controls import ControlAlignment
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.diffusion import StainModels
from tffapps.fedsda.placement import AtSites, Here, Placement
from tffapps.fedsda.quality import PictureEvaluator
from tffapps.fedsda.stain_source import distances_between
from tffapps.fedsda.tables import Results


def run(flags: Flags) -> None:
    """Plays every method on every side and seed, and writes the tables and figures."""
    common, folder = flags[Common], APP.folder(flags)
    for method in common.methods:
        flags[Retraining].check(flags[METHODS[method]], flags[Aggregation], common.select)
    separation = flags[SeparationSettings].of_patches()
    # What is here is read and measured before an engine is started; sites have looked at theirs.
    here = None if common.across_sites else Here(data.look(flags), separation, bool(common.splits))
    with open_engine(common.engine, common.certificates(), common.devices) as engine:
        placement = here or AtSites(engine, separation)
        placement.announce(folder)
        divided = splits.of(placement.pool, common)
        results = _results(Study(APP, flags, engine), placement, divided)
    if not flags[FedsdaSettings].quality_only:
        earlier = with_earlier(APP, flags, results.records, [split.pool.key for split in divided])
        results = dataclasses.replace(results, records=[record for record in earlier if record["method"] in METHODS])
        split_tables.write(folder, results.records, divided, METRICS, **results.what_ran)
    tables.write_all(folder, results)
    figures.draw_all(folder, results)


def _results(study: Study, placement: Placement, divided: Sequence[Split]) -> Results:
    """Beside the scores, what is said of stains and pictures is of the first split."""
    flags, pool = study.flags, divided[0].pool
    sides = placement.sides(flags[FedsdaSettings].sides)
    by_split = [data.folds(split, flags) for split in divided]
    whole = by_split[0][0]
    stain_models = StainModels(study, placement)
    # All of these now, so that a missing file of weights is not found out after an hour.
    alignments = {side: _alignment(side, study, placement, stain_models) for side in sides}
    quality_only = flags[FedsdaSettings].quality_only
    classifiers = None if quality_only else Classifiers(study, pool, alignments)
    separation = flags[SeparationSettings].of_patches()
    pictures = PictureEvaluator(flags[QualitySettings], separation) if len(sides) > 1 and not pool.at_sites else None

    trials = (
        (trial for folds in by_split for fold in folds for trial in classifiers.trials(fold)) if classifiers else ()
    )
    records = [study.run(trial) for trial in trials]
    if quality_only and not pictures:
        raise UserError("--quality-only: name two or more --sides, on this machine; there is nothing else to measure")
    if not records and not quality_only:
        raise UserError("nothing to run: --pairs paper has other sides than none and fedsda for fedavg only")
    learned = stain_models.all(whole) if "fedsda" in sides else []
    images = {side: alignment.of(whole, study.common.seeds[0]) for side, alignment in alignments.items() if pictures}
    return Results(
        pool=pool,
        fold=whole,
        records=records,
        separation=placement.separation(whole),
        stain_models=learned,
        between=distances_between(placement.sources(whole)) if learned else [],
        stains=placement.matrices(whole) if learned else None,
        quality=pictures.measure(images, whole.clients) if pictures else None,
        what_ran={
            "chosen": CHOSEN[study.common.select],
            "data": pool.name,
            "profile": flags.profile,
            "weights": classifiers.inputs.weights if classifiers else "",
            "model": flags[ClassifierSettings].model if classifiers else "",
            "vgg": flags[CcstDecoderSettings].described() if "ccst" in sides else "",
            **flags[Retraining].described(),
        },
    )


def _alignment(side: str, study: Study, placement: Placement, stain_models: StainModels) -> Alignment:
    if side in ("fedsda", "own", "gaussian", GAUSSIAN_DP):
        block = side if side in ("gaussian", GAUSSIAN_DP) else ""
        return StainAlignment(study.flags, placement, stain_models, own=side == "own", block=block)
    if side == "ccst":
        return StyleAlignment(study.flags, style_transfer(study, placement.pool))
    if side == "amp-norm":
        return AmplitudeAlignment(study.flags)
    if side in SIDES_ON_REQUEST:
        return ControlAlignment(side, study.flags)
    return Unaligned()


class Classifiers:
    """The trials of classifiers: they share the network."""

    def __init__(self, study: Study, pool: Pool, alignments: Mapping[str, Alignment]) -> None:
        self._study, self._pool, self._alignments = study, pool, alignments
        self._settings = study.flags[ClassifierSettings]
        network = Network(
            self._settings.model, self._settings.size, 3, self._settings.head, study.common.weights,
            study.flags[CutSettings], study.common.precision,
        )  # fmt: skip
        self._classifier = Classifier(
            study, pool, network, batch=self._settings.batch, balance=study.flags[ClassBalance]
        )
        self.inputs = self._classifier.inputs

    def trials(self, fold: Fold) -> Iterator[Trial]:
        """Every method and side that is asked for, on every seed; a side's images are made when it comes to it."""
        for seed in self._study.common.seeds:
            for side, alignment in self._alignments.items():
                played, settings = self._study.common.methods, self._study.flags[FedsdaSettings]
                methods = [method for method in played if is_wanted(method, side, fold, settings)]
                if methods:
                    aligned = in_views(alignment.of(fold, seed), fold, self._settings.views)
                    for method in methods:
                        yield self._trial(method, side, fold, aligned, seed)

    def _trial(self, method: str, side: str, fold: Fold, aligned: Aligned, seed: int) -> Trial:
        training = {name: aligned.train[aligned.train.client == name] for name in fold.clients}
        judged = pd.concat([aligned.test, aligned.val])
        evaluator = self._evaluator(method, fold, aligned)
        chosen = {"chosen": VALIDATION} if evaluator.chosen_by else {}
        personal = METHODS[method].personal  # clients use their own models
        return Trial(
            labels={"method": method, "side": side, **fold.labels, "seed": seed, **chosen},
            name=name_of(method, side, fold.labels.get("split", ""), f"seed{seed}", fold.without),
            method=self._study.flags[METHODS[method]],
            task=self._classifier.task,
            clients=lambda: self._classifier.clients(training, judged, seed, self._settings.epochs),
            initial=self.inputs.initial(seed),
            rounds=self._settings.rounds,
            evaluator=evaluator,
            settings=[self._settings, *self._classifier.balance_settings, *self._alignments[side].settings],
            data={"images": fold.split.pool.key if fold.split else self._pool.key, "made": aligned.key},
            size=len(fold.clients),
            aggregation=self._study.flags[Aggregation],
            min_clients=self._study.common.min_clients,
            reestimate=self._study.flags[CutSettings].reestimate,
            retraining=self._study.flags[Retraining],
            bundle=self._classifier.recipe(training, aligned.val, aligned.steps)
            if aligned.usable and not personal
            else None,
            trained=subjects_in(aligned.train),
        )

    def _evaluator(self, method: str, fold: Fold, aligned: Aligned) -> Evaluator:
        """Of a personal method each centre's own model is judged, on that centre's images, after the last round."""
        if METHODS[method].personal:
            rows = {name: aligned.test[aligned.test.client == name] for name in fold.clients}
            parts = {name: self._classifier.test_images(own) if len(own) else None for name, own in rows.items()}
            return PersonalEvaluator(parts, _scores, METRICS, self._pool.classes, headline="auroc")
        tested, chosen_by = self._classifier.judged(aligned.test, aligned.val, self._study.common.select)
        return PredictionEvaluator(tested, _scores, METRICS, self._pool.classes, headline="auroc", chosen_by=chosen_by)


def is_wanted(method: str, side: str, fold: Fold, settings: FedsdaSettings) -> bool:
    """Whether a method is played on a side in a federation."""
    if fold.name != FEDERATION:
        return method == "fedavg" and side in (settings.leave_out_sides or settings.sides)
    if method == "fedavg" or settings.pairs == "all":
        return True
    return side in ("none", "fedsda") or (method, side) == HARMOFL


def _scores(predictions: Predictions) -> Metrics:
    scores = classification.scores(predictions.labels, predictions.probabilities)
    return {metric: scores[metric] for metric in METRICS}
