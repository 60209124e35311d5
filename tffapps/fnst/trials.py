"""The work behind `tffapps.fnst`: patches → clients → images made of other clients' styles → trials → tables."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from tffapps import (
    CHOSEN,
    OF_PAPER,
    Aggregation,
    ClassBalance,
    Classifier,
    Common,
    CutSettings,
    FedAvg,
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
from tffapps.fnst import (
    APP,
    AUGMENTED,
    METRICS,
    AloneSettings,
    AttackSettings,
    Augmentation,
    FederationSettings,
    FnstSettings,
    GramSettings,
    SharingSettings,
    TransferSettings,
    data,
    figures,
    jobs,
    tables,
)
from tffapps.fnst.attack import attack
from tffapps.fnst.data import AS_GIVEN
from tffapps.fnst.exchange import Exchange, Made, repeated
from tffapps.fnst.placement import placed
from tffapps.fnst.styler import Styler

ALL_DATA, FEDERATION = "all data", "federation"
_AREA_LOST = "area_lost"  # 1 - AUROC of the test images: the paper takes the round where it is lowest


def run(flags: Flags) -> None:
    """Plays every method on every seed and every setting that it knows, then writes tables and draws figures."""
    common, sharing, folder = flags[Common], flags[SharingSettings], APP.folder(flags)
    flags[Retraining].check(flags[FedAvg], flags[Aggregation], common.select)
    augmentations = list(dict.fromkeys(map(Augmentation.parse, sharing.augmentations)))
    # Files that cannot be used are found before an engine is started; sites have looked at theirs.
    local = None if common.across_sites else data.load(flags)
    if local is None:
        flags = _for_sites(flags)
    elif not local.given and set(AUGMENTED) & set(common.methods):
        _check_contents(augmentations, sharing.rare)
    attacks = flags[AttackSettings].attack
    # First: a missing file of weights is not found out last.
    styler = Styler(flags[GramSettings], flags[TransferSettings]) if attacks or "fnst" in common.methods else None
    if styler and styler.in_one_pass and "fnst" in common.methods and not common.across_sites:
        styler.pair  # noqa: B018 (opened, for the same reason)
    with open_engine(common.engine, common.certificates(), common.devices) as engine:
        pool = local or data.of_sites(engine.sites)
        pool.announce(folder)
        divided = splits.of(pool, common)
        first = data.shared_out(divided[0].pool, sharing.rare[0], common.seeds[0])
        common.check_clients(len(first.clients))
        study = Study(APP, flags, engine)
        trials = Trials(study, pool, Exchange(placed(styler, engine)) if styler else None)
        played = [study.run(trial) for split in divided for trial in trials.all(split, augmentations)]
    records = with_earlier(APP, flags, played, [split.pool.key for split in divided])
    what_ran = {
        "chosen": {**CHOSEN, OF_PAPER: "highest test AUC, as the paper does: it flatters"}[common.select],
        "data": pool.name, "profile": flags.profile, "weights": trials.inputs.weights,
        "model": flags[FnstSettings].model, "vgg": styler.described() if styler else "",
        **flags[Retraining].described(),
    }  # fmt: skip
    attacked = attack(styler, first, flags[AttackSettings]) if styler and attacks else None
    findings = tables.Findings(pool, first, records, trials.made, attacked, what_ran)
    tables.write_all(folder, findings)
    split_tables.write(folder, records, divided, METRICS, **what_ran)
    figures.draw_all(folder, findings)
    if styler and trials.made and not pool.at_sites:
        shown, seed = augmentations[0], common.seeds[0]
        federation = data.shared_out(divided[0].pool, data.rare_of(pool, shown), seed)
        made = trials.made[divided[0].name, shown.name, seed]
        figures.styled(folder / "styled.png", styler, federation, made, shown, seed)


def _for_sites(flags: Flags) -> Flags:
    """The flags without what needs images here."""
    jobs.check_weights(flags[GramSettings], flags[TransferSettings])
    if flags[AttackSettings].attack:
        print("the attack is left out: it looks at images, and these are at the sites", file=sys.stderr)
    return flags.replaced(attack=False)


def _check_contents(augmentations: Sequence[Augmentation], rare: Sequence[int]) -> None:
    for augmentation in augmentations:
        if augmentation.contents not in rare:
            raise UserError(
                f"--augmentations {augmentation.name}: contents are all rare images of a class: "
                f"add {augmentation.contents} to --rare, or leave {augmentation.name} out"
            )


class Trials:
    """All trials of one command: they share the network, the test images and the images made."""

    def __init__(self, study: Study, pool: Pool, exchange: Exchange | None) -> None:
        """`exchange` is needed where fnst is among the methods."""
        self._study, self._flags, self._pool, self._exchange = study, study.flags, pool, exchange
        self._settings = settings = study.flags[FnstSettings]
        network = Network(
            settings.model, settings.size, 3, settings.head, study.common.weights, study.flags[CutSettings],
            study.common.precision,
        )  # fmt: skip
        self._classifier = Classifier(
            study, pool, network, batch=settings.batch, made=True, balance=study.flags[ClassBalance]
        )
        self.inputs = self._classifier.inputs
        self._split = Split("", pool)  # that trials are made for
        self._evaluators: dict[int, PredictionEvaluator] = {}  # by seed, where each seed has features of its own
        self.made: dict[tuple[str, str, int], Made] = {}  # split, augmentation and seed → what clients made

    def all(self, split: Split, augmentations: Sequence[Augmentation]) -> Iterator[Trial]:
        """Every method on every seed and every setting that it knows; `separate` is a trial for each client."""
        self._split, self._pool = split, split.pool
        self._evaluators.clear()
        methods = self._study.common.methods
        amounts = (AS_GIVEN,) if self._pool.given else self._flags[SharingSettings].rare
        for seed in self._study.common.seeds:
            if "centralised" in methods:
                yield self._trial(_labels("centralised", seed, site=ALL_DATA), {ALL_DATA: self._pool.part("train")})
            for rare in amounts:
                training = _by_client(data.shared_out(self._pool, rare, seed))
                if "separate" in methods:
                    for client, rows in training.items():
                        yield self._trial(_labels("separate", seed, site=client, rare=rare), {client: rows})
                if "fedavg" in methods:
                    yield self._trial(_labels("fedavg", seed, rare=rare), training)
            for augmentation in augmentations:
                for method in AUGMENTED:
                    if method in methods:
                        yield self._augmented(method, augmentation, seed)

    def _augmented(self, method: str, augmentation: Augmentation, seed: int) -> Trial:
        rare = data.rare_of(self._pool, augmentation)
        federation, made_key = data.shared_out(self._pool, rare, seed), {}
        if method == "fnst":
            assert self._exchange is not None
            made = self._exchange.make(federation, augmentation, seed)
            self.made[self._split.name, augmentation.name, seed] = made
            more, made_key = made.table, {"made": made.key, "vgg": self._exchange.placement.styler.sha256}
        else:
            more = repeated(federation, augmentation)
        training = {
            client: pd.concat([rows, more[more.client == client]], join="inner")
            for client, rows in _by_client(federation).items()
        }
        labels = _labels(method, seed, rare=rare, augmentation=augmentation.name, made=len(more))
        return self._trial(labels, training, made_key)

    def _trial(
        self, labels: Mapping[str, Any], training: Mapping[str, pd.DataFrame], made_key: Mapping[str, str] | None = None
    ) -> Trial:
        """`training` has the rows of each client; `made_key` tells apart the images that were made for it."""
        alone, seed = labels["site"] != FEDERATION, labels["seed"]
        schedule: AloneSettings | FederationSettings
        schedule = self._flags[AloneSettings] if alone else self._flags[FederationSettings]
        settings: list[Any] = [self._settings, schedule]
        if made_key:
            settings += [self._flags[GramSettings], self._flags[TransferSettings]]
        setting = labels["augmentation"] or (f"rare{labels['rare']}" if labels["rare"] else "")
        evaluator, judged = self._evaluator(seed), self._pool.table[self._pool.table.split != "train"]
        chosen = {"chosen": self._study.common.select} if evaluator.chosen_by else {}
        return Trial(
            labels={**labels, **self._split.labels, **chosen},
            name=name_of(labels["method"], labels["site"] if alone else "", setting, self._split.name, f"seed{seed}"),
            method=self._flags[FedAvg],
            task=self._classifier.task,
            clients=lambda: self._classifier.clients(training, judged, seed, schedule.epochs),
            initial=self.inputs.initial(seed),
            rounds=schedule.rounds,
            evaluator=evaluator,
            settings=[*settings, *self._classifier.balance_settings],
            data={"images": self._pool.key, **(made_key or {})},
            size=len(training),
            aggregation=Aggregation() if alone else self._flags[Aggregation],
            min_clients=1 if alone else self._study.common.min_clients,
            reestimate=self._flags[CutSettings].reestimate,
            retraining=self._flags[Retraining],
            bundle=self._classifier.recipe(training, self._pool.part("val")),
            trained=_trained(training),
        )

    def _evaluator(self, seed: int) -> PredictionEvaluator:
        key = seed if self.inputs.on_features else 0
        if key not in self._evaluators:
            select = self._study.common.select
            parts, chosen_by = self._classifier.judged(self._pool.part("test"), self._pool.part("val"), select)
            metrics = (*METRICS, *(f"f1_{label}" for label in self._pool.classes))
            self._evaluators[key] = PredictionEvaluator(
                parts, self._scores, metrics, self._pool.classes, headline="macro_f1",
                chosen_by=_AREA_LOST if select == OF_PAPER else chosen_by,
            )  # fmt: skip
        return self._evaluators[key]

    def _scores(self, predictions: Predictions) -> Metrics:
        labels, probabilities = predictions.labels, predictions.probabilities
        scores = classification.scores(labels, probabilities)
        by_class = classification.per_class(labels, probabilities, self._pool.classes).f1
        return {
            **{metric: scores[metric] for metric in METRICS},
            **({_AREA_LOST: 1 - scores["auroc"]} if self._study.common.select == OF_PAPER else {}),
            **{f"f1_{label}": float(value) for label, value in by_class.items()},
        }


def _labels(
    method: str, seed: int, *, site: str = FEDERATION, rare: int = AS_GIVEN, augmentation: str = "", made: int = 0
) -> dict[str, Any]:
    """`site` is a client, ALL_DATA or FEDERATION; `made` counts the images added, of all clients together."""
    return {
        "method": method, "site": site, "rare": rare, "augmentation": augmentation, "made": made, "seed": seed,
    }  # fmt: skip


def _trained(training: Mapping[str, pd.DataFrame]) -> int:
    """Subjects, of whose images all that are made come too."""
    return subjects_in(pd.concat(list(training.values())).drop_duplicates("path"))


def _by_client(federation: Pool) -> dict[str, pd.DataFrame]:
    return {client: federation.part("train", client) for client in federation.clients}
