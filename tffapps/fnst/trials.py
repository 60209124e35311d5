"""The work behind `tffapps.fnst`: patches → clients → images made of other clients' styles → trials → tables."""

import dataclasses
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
    Record,
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
    METRICS,
    AloneSettings,
    AttackSettings,
    Augmentation,
    FederationSettings,
    FnstSettings,
    GramSettings,
    RealismSettings,
    SharingSettings,
    TransferSettings,
    choices,
    data,
    figures,
    jobs,
    lab,
    parts,
    realism,
    tables,
)
from tffapps.fnst.attack import attack
from tffapps.fnst.copies import copies
from tffapps.fnst.data import AS_GIVEN
from tffapps.fnst.exchange import Exchange, Made
from tffapps.fnst.parts import PARTS, Method
from tffapps.fnst.placement import placed
from tffapps.fnst.styler import Styler

ALL_DATA, FEDERATION = "all data", "federation"
_AREA_LOST = "area_lost"  # 1 - AUROC of the test images: the paper takes the round where it is lowest


def run(flags: Flags) -> None:
    """Plays every method on every seed and every setting that it knows, then writes tables and draws figures."""
    common, sharing, folder = flags[Common], flags[SharingSettings], APP.folder(flags)
    flags[Retraining].check(flags[FedAvg], flags[Aggregation], common.select)
    augmentations = list(dict.fromkeys(map(Augmentation.parse, sharing.augmentations)))
    methods = parts.trained(common.methods)
    parts.on_best(common.methods)  # checked
    # Files that cannot be used are found before an engine is started; sites have looked at theirs.
    local = None if common.across_sites else data.load(flags)
    if local is None:
        flags = _for_sites(flags)
    elif not local.given and any(method.multiplies for method in methods):
        _check_contents(augmentations, sharing.rare)
    attacks = flags[AttackSettings].attack
    # First: a missing file of weights is not found out last.
    stylers = {name: styler_of(name, flags) for name in parts.styles_needed(common.methods)}
    for each in stylers.values():
        if each.in_one_pass and not common.across_sites:
            each.pair  # noqa: B018 (opened, for the same reason)
    styler = stylers.get(parts.FNST) or (styler_of(parts.FNST, flags) if attacks else None)
    with open_engine(common.engine, common.certificates(), common.devices) as engine:
        pool = local or data.of_sites(engine.sites)
        pool.announce(folder)
        divided = splits.of(pool, common)
        choices.check(common.methods, bool((divided[0].pool.table.split == "val").any()))
        first = data.shared_out(divided[0].pool, sharing.rare[0], common.seeds[0])
        common.check_clients(len(first.clients))
        study = Study(APP, flags, engine)
        exchanges = {name: Exchange(placed(each, engine)) for name, each in stylers.items()}
        trials, played = Trials(study, pool, exchanges), list[Record]()
        for split in divided:
            of_split = [study.run(trial) for trial in trials.all(split, augmentations)]
            played += [*of_split, *(study.run(trial) for trial in trials.on_best_controls(of_split))]
    records = with_earlier(APP, flags, played, [split.pool.key for split in divided])
    what_ran = {
        "chosen": {**CHOSEN, OF_PAPER: "highest test AUC, as the paper does: it flatters"}[common.select],
        "data": pool.name, "profile": flags.profile, "weights": trials.inputs.weights,
        "model": flags[FnstSettings].model,
        "vgg": next((each.described() for each in (styler, *stylers.values()) if each), ""),
        **flags[Retraining].described(),
    }  # fmt: skip
    attacked = attack(styler, first, flags[AttackSettings]) if styler and attacks else None
    findings = tables.Findings(
        pool, first, records, trials.made, attacked, what_ran, common.methods,
        _realism(trials.made, divided[0], flags), _lab(first, flags),
    )  # fmt: skip
    tables.write_all(folder, findings)
    split_tables.write(folder, records, divided, METRICS, **what_ran)
    figures.draw_all(folder, findings)
    if trials.made and not pool.at_sites:
        shown, seed = augmentations[0], common.seeds[0]
        federation = data.shared_out(divided[0].pool, data.rare_of(pool, shown), seed)
        for name, each in stylers.items():
            made = trials.made[divided[0].name, shown.name, seed, name]
            file = "styled.png" if name == parts.FNST else f"styled_{name}.png"
            figures.styled(folder / file, each, federation, made, shown, seed)


def _realism(made: Mapping[tuple[str, str, int, str], Made], split: Split, flags: Flags) -> pd.DataFrame:
    """Of what was made of the first split's images with the first seed."""
    settings, seed = flags[RealismSettings], flags[Common].seeds[0]
    if not settings.realism or split.pool.at_sites:
        return pd.DataFrame()
    features, network = realism.encoder_of(settings)
    found = []
    for augmentation in dict.fromkeys(name for of, name, drawn, _ in made if (of, drawn) == (split.name, seed)):
        own = {(part, name): images for (of, name, drawn, part), images in made.items()
               if (of, name, drawn) == (split.name, augmentation, seed)}  # fmt: skip
        federation = data.shared_out(split.pool, data.rare_of(split.pool, Augmentation.parse(augmentation)), seed)
        found.append(realism.table(federation, own, features))
    return pd.concat(found, ignore_index=True).assign(features=network) if found else pd.DataFrame()


def _lab(federation: Pool, flags: Flags) -> pd.DataFrame:
    sizes = flags[AttackSettings].attack_sizes
    if not sizes or federation.at_sites:
        return pd.DataFrame()
    return lab.lab(
        [styler_of(parts.FNST, flags.replaced(style_size=size)) for size in sizes], federation, flags[AttackSettings]
    )


def styler_of(part: str, flags: Flags) -> Styler:
    """What makes the images of a part of a method: as flags say, but for what the part has of its own."""
    own = PARTS[part].styled or {}
    known = {field.name for field in dataclasses.fields(GramSettings)}
    of_grams = {name: value for name, value in own.items() if name in known}
    others = {name: value for name, value in own.items() if name not in known}
    return Styler(
        dataclasses.replace(flags[GramSettings], **of_grams), dataclasses.replace(flags[TransferSettings], **others)
    )


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

    def __init__(self, study: Study, pool: Pool, exchanges: Mapping[str, Exchange]) -> None:
        """`exchanges`: of each part of a method that gives images a style."""
        self._study, self._flags, self._pool, self._exchanges = study, study.flags, pool, exchanges
        self._settings = settings = study.flags[FnstSettings]
        network = Network(
            settings.model, settings.size, 3, settings.head, study.common.weights, study.flags[CutSettings],
            study.common.precision,
        )  # fmt: skip
        self._classifier = Classifier(
            study, pool, network, batch=settings.batch, made=True, balance=study.flags[ClassBalance]
        )
        self._classifiers: dict[ClassBalance | None, Classifier] = {
            None: self._classifier
        }  # by loss and sampling; None: as the flags have them
        self.inputs = self._classifier.inputs
        self._split = Split("", pool)  # that trials are made for
        self._evaluators: dict[int, PredictionEvaluator] = {}  # by seed, where each seed has features of its own
        # split, augmentation, seed and part → what clients made
        self.made: dict[tuple[str, str, int, str], Made] = {}

    def all(self, split: Split, augmentations: Sequence[Augmentation]) -> Iterator[Trial]:
        """Every method on every seed and every setting that it knows; `separate` is a trial for each client."""
        self._split, self._pool = split, split.pool
        self._evaluators.clear()
        methods = self._study.common.methods
        federated = parts.trained(methods)
        amounts = (AS_GIVEN,) if self._pool.given else self._flags[SharingSettings].rare
        for seed in self._study.common.seeds:
            if "centralised" in methods:
                yield self._trial(_labels("centralised", seed, site=ALL_DATA), {ALL_DATA: self._pool.part("train")})
            for rare in amounts:
                training = _by_client(data.shared_out(self._pool, rare, seed))
                if "separate" in methods:
                    for client, rows in training.items():
                        yield self._trial(_labels("separate", seed, site=client, rare=rare), {client: rows})
                for method in federated:
                    if not method.multiplies:
                        yield self._trial(_labels(method.name, seed, rare=rare), training, balance=method.balance)
            for augmentation in augmentations:
                for method in federated:
                    if method.multiplies:
                        yield self._augmented(method, augmentation, seed)

    def on_best_controls(self, records: Sequence[Record]) -> Iterator[Trial]:
        """What is asked for on top of the best control, which the records of this split tell by validation images."""
        for (_, seed, _, augmentation), control in choices.best_controls(records).items():
            for rest in parts.on_best(self._study.common.methods):
                method = parts.parse(parts.joined(rest, control["method"]))
                yield self._augmented(method, Augmentation.parse(augmentation), seed)

    def _augmented(self, method: Method, augmentation: Augmentation, seed: int) -> Trial:
        rare = data.rare_of(self._pool, augmentation)
        federation, keys = data.shared_out(self._pool, rare, seed), dict[str, str]()
        more: list[pd.DataFrame] = []
        for name in method.parts:
            part = PARTS[name]
            if part.styled is not None:
                exchange = self._exchanges[name]
                made = exchange.make(federation, augmentation, seed, other_class=part.other_class)
                self.made[self._split.name, augmentation.name, seed, name] = made
                more.append(made.table)
                keys |= {"made": keys.get("made", "") + made.key, "vgg": exchange.placement.styler.sha256}
            elif part.copies:
                rows, key = copies(part.copies, federation, augmentation, seed)
                more.append(rows)
                keys |= {part.copies: key} if key else {}
        training = {
            client: pd.concat([rows, *(table[table.client == client] for table in more)], join="inner")
            for client, rows in _by_client(federation).items()
        }
        count = sum(map(len, more))
        labels = _labels(method.name, seed, rare=rare, augmentation=augmentation.name, made=count)
        styled = next((name for name in method.parts if name in parts.STYLED), "")
        return self._trial(labels, training, keys, method.balance, styled)

    def _trial(
        self, labels: Mapping[str, Any], training: Mapping[str, pd.DataFrame],
        made_key: Mapping[str, str] | None = None, balance: ClassBalance | None = None, styled: str = "",
    ) -> Trial:  # fmt: skip
        """`training` has the rows of each client; `made_key` tells apart the images that were made for it.

        `balance` is a method's own; `styled` the part that gives images a style.
        """
        alone, seed = labels["site"] != FEDERATION, labels["seed"]
        schedule: AloneSettings | FederationSettings
        schedule = self._flags[AloneSettings] if alone else self._flags[FederationSettings]
        settings: list[Any] = [self._settings, schedule]
        if styled:
            styler = self._exchanges[styled].placement.styler
            settings += [styler.grams, styler.transfer]
        if balance and balance not in self._classifiers:
            self._classifiers[balance] = self._classifier.balanced(balance)
        classifier = self._classifiers[balance]
        setting = labels["augmentation"] or (f"rare{labels['rare']}" if labels["rare"] else "")
        evaluator, judged = self._evaluator(seed), self._pool.table[self._pool.table.split != "train"]
        chosen = {"chosen": self._study.common.select} if evaluator.chosen_by else {}
        return Trial(
            labels={**labels, **self._split.labels, **chosen},
            name=name_of(labels["method"], labels["site"] if alone else "", setting, self._split.name, f"seed{seed}"),
            method=self._flags[FedAvg],
            task=classifier.task,
            clients=lambda: classifier.clients(training, judged, seed, schedule.epochs),
            initial=self.inputs.initial(seed),
            rounds=schedule.rounds,
            evaluator=evaluator,
            settings=[*settings, *classifier.balance_settings],
            data={"images": self._pool.key, **(made_key or {})},
            size=len(training),
            aggregation=Aggregation() if alone else self._flags[Aggregation],
            min_clients=1 if alone else self._study.common.min_clients,
            reestimate=self._flags[CutSettings].reestimate,
            retraining=self._flags[Retraining],
            bundle=classifier.recipe(training, self._pool.part("val")),
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
