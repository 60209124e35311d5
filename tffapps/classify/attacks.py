"""`--attack`: every method and aggregator under clients that attack, beside the same without them, in `attacks.csv`."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tffapps import (
    METHODS,
    Aggregation,
    Classifier,
    Client,
    Common,
    Flags,
    Pool,
    Predictions,
    Record,
    RunStopped,
    Split,
    Study,
    Task,
    Trial,
    UserError,
    name_of,
)
from tffapps.classify import REFERENCES, ClassifySettings
from tffapps.classify.attack_settings import AGGREGATORS, AttackSettings, studied
from tffapps.data import backdoor
from tffapps.errors import Diverged
from tffapps.evaluation import evidence, metrics
from tffapps.evaluation.subjects import Run
from tffapps.federated import attacks
from tffapps.federated.attacks import Attack
from tffapps.federated.cohort import NOT_FINITE

NONE = "none"
BY = ("method", "attack", "aggregator")
SCORES, JUDGED_BY, SUCCESS = ("accuracy", "macro_f1"), "macro_f1", "backdoor_success"
FINISHED, DIVERGED = "finished", "diverged"


def check(flags: Flags, pool: Pool | None) -> Flags:
    """The flags of a study, its methods chosen; a UserError for what cannot be combined. Nothing has run yet.

    Args:
      flags: of the command.
      pool: its images; None: they are at sites.
    """
    common, settings, aggregation = flags[Common], flags[AttackSettings], flags[Aggregation]
    for wrong, line in (
        (common.across_sites, "attackers are simulated in one place; leave --engine out"),
        (
            common.tune,
            "nothing is tuned under attack; leave --tune out, and give what was chosen as flags",
        ),
        (aggregation.aggregator != "mean", "give the aggregators of the study as --aggregators A,B"),
    ):
        if wrong:
            raise UserError(f"--attack: {line}")
    assert pool is not None
    clients = len(pool.clients)
    methods = studied(common.methods)
    for method in methods:
        if method in REFERENCES or METHODS[method].personal:
            why = "has no clients that could attack" if method in REFERENCES else "has no global model to be judged"
            raise UserError(f"--attack: {method} {why}; leave it out of --methods")
    if settings.backdoor_target and settings.backdoor_target not in pool.classes:
        known = ", ".join(pool.classes)
        raise UserError(f"--backdoor-target {settings.backdoor_target}: no such class; choose from {known}")
    count = round(settings.attackers * clients)
    if not 0 < count < clients:
        raise UserError(
            f"--attackers {settings.attackers:g}: of {clients} clients that is {count}; there must be at least one, and"
            " one that does not attack (--clients deals the images to more)"
        )
    for name in settings.aggregators or AGGREGATORS:  # told of the truth, or of more
        rule = dataclasses.replace(aggregation, aggregator=name).against(count)
        rule.check(common.clients_per_round or clients, methods[0], False)
    return flags.replaced(
        methods=methods, aggregators=settings.aggregators or AGGREGATORS,
        attack=tuple(name for name in attacks.NAMES if name in settings.attack),
    )  # fmt: skip


@dataclasses.dataclass
class Played:
    """Runs that differ in their seeds and splits alone."""

    entries: list[evidence.Entry] = dataclasses.field(default_factory=list)
    patched: list[evidence.Entry] = dataclasses.field(default_factory=list)
    diverged: list[int] = dataclasses.field(default_factory=list)  # seeds


class AttackStudy:
    """All runs of a study.

    Args:
      study: what plays them.
      trials: the plain trials (`tffapps.classify.trials.Trials`).
      flags: as `check` returns them.
    """

    def __init__(self, study: Study, trials: Any, flags: Flags) -> None:
        self._study, self._trials, self._flags = study, trials, flags
        self._settings, pool = flags[AttackSettings], trials.pool
        self._tasks: dict[Classifier, Task] = {}
        self._target = self._settings.backdoor_target or pool.classes[0]
        self._attackers = round(self._settings.attackers * len(pool.clients))
        for method in flags[Common].methods:  # what its clients send beside updates is known with the network alone
            task, own = trials.classifier(flags).task, flags[METHODS[method]]
            more = bool(own.sent_specs(task) or own.gathered_specs(task))
            for rule in map(self._rule, self._settings.aggregators):
                rule.check(flags[Common].clients_per_round or len(pool.clients), method, more)

    def table(self, divided: list[Split]) -> pd.DataFrame:
        """Plays everything, and says what became of it: one row a method, attack and aggregator."""
        found: dict[tuple[str, str, str], Played] = {}
        for split in divided:
            for method in self._flags[Common].methods:
                for aggregator in self._settings.aggregators:
                    for attack in (None, *map(self._attack, self._settings.attack)):
                        key = (method, attack.name if attack else NONE, aggregator)
                        self._play(found.setdefault(key, Played()), key, attack, split)
        return self._made(found)

    def _play(self, played: Played, key: tuple[str, str, str], attack: Attack | None, split: Split) -> None:
        method, _, aggregator = key
        for seed in self._flags[Common].seeds:
            flags = self._flags_of(aggregator, attack)
            trial = self._trial(method, attack, self._flags_of(aggregator), split, seed)
            try:
                record = self._study.under(flags).run(trial)
            except (Diverged, RunStopped) as error:
                if attack is None or not (isinstance(error, Diverged) or NOT_FINITE in str(error)):
                    raise  # without attackers it is no finding
                played.diverged.append(seed)
                continue
            labels = {"attack": key[1], "aggregator": aggregator}
            played.entries.append(record.entry(**labels))
            if attacks.BACKDOOR in self._settings.attack:
                played.patched.append(self._patched_entry(record, split, flags, {**record.labels, **labels}))

    def _flags_of(self, aggregator: str, attack: Attack | None = None) -> Flags:
        """What is written down beside a run: the command that makes it, alone or beside the one without attackers."""
        rule = self._rule(aggregator)
        if attack is None:
            return self._flags.replaced(aggregator=rule.aggregator, byzantine=rule.byzantine, attack=(), aggregators=())
        return self._flags.replaced(byzantine=rule.byzantine, attack=(attack.name,), aggregators=(aggregator,))

    def _rule(self, aggregator: str) -> Aggregation:
        return dataclasses.replace(self._flags[Aggregation], aggregator=aggregator).against(self._attackers)

    def _attack(self, name: str) -> Attack:
        settings = self._settings
        factor = {
            attacks.SIGN_FLIP: -settings.flip_factor, attacks.SCALING: settings.scaling_factor,
            attacks.FREE_RIDER: 0.0,
            attacks.BACKDOOR: settings.backdoor_factor or len(self._trials.pool.clients) / self._attackers,
        }  # fmt: skip
        made = Attack(name, self._attackers, factor.get(name, 1.0))
        if name != attacks.BACKDOOR:
            return made
        return dataclasses.replace(
            made, target=self._target, patch=settings.backdoor_patch, share=settings.backdoor_share
        )

    def _trial(self, method: str, attack: Attack | None, flags: Flags, split: Split, seed: int) -> Trial:
        (plain,) = self._trials.of(method, flags, split, seed)
        if attack is None:
            return plain
        classifier: Classifier = self._trials.classifier(flags)
        places = attacks.chosen(seed, plain.size, attack.attackers)
        trial = dataclasses.replace(
            plain, labels={**plain.labels, "attack": attack.name}, settings=[*plain.settings, attack], bundle=None,
            name=name_of(method, plain.labels["aggregator"], attack.name, split.name, f"seed{seed}"),
            clients=functools.partial(self._clients, classifier, flags, split.pool, attack, places, seed),
        )  # fmt: skip
        if attack.factor == 1:
            return trial
        return dataclasses.replace(
            trial, method=attacks.attacked_method(plain.method), task=self._attacked_task(classifier)
        )

    def _attacked_task(self, classifier: Classifier) -> Task:
        """One for each classifier, so that its rounds are built once."""
        return self._tasks.setdefault(classifier, attacks.attacked_task(classifier.task))

    def _clients(
        self, classifier: Classifier, flags: Flags, pool: Pool, attack: Attack, places: list[int], seed: int
    ) -> list[Client]:
        training = {client: pool.part("train", client) for client in sorted(pool.clients)}
        for place, (client, rows) in enumerate(training.items()):
            if place in places:
                training[client] = self._spoilt(pool, rows, attack, seed, place)
        judged = pool.table[pool.table.split != "train"]
        made = classifier.clients(training, judged, seed, flags[ClassifySettings].epochs)
        if attack.factor == 1:
            return made
        return [
            dataclasses.replace(client, batches=_multiplied(client, attack.factor if place in places else 1.0))
            for place, client in enumerate(made)
        ]

    def _spoilt(self, pool: Pool, rows: pd.DataFrame, attack: Attack, seed: int, place: int) -> pd.DataFrame:
        codes = pool.codes(rows)
        if attack.name == attacks.LABEL_FLIP:
            return rows.assign(label=[pool.classes[code] for code in attacks.next_labels(codes, len(pool.classes))])
        if attack.name == attacks.BACKDOOR:
            chosen = attacks.to_patch(codes, pool.classes.index(attack.target), attack.share, seed, place)
            paths, labels = rows.path.to_numpy(object, copy=True), rows.label.to_numpy(object, copy=True)
            paths[chosen], labels[chosen] = backdoor.patched(list(paths[chosen]), attack.patch), attack.target
            return rows.assign(path=paths, label=labels)
        return rows

    def _patched_entry(self, record: Record, split: Split, flags: Flags, labels: dict[str, Any]) -> evidence.Entry:
        """What the run's model says of patched test images of other classes, as if the target were their class."""
        rows = split.pool.part("test")
        rows = rows[rows.label != self._target]
        stamped = rows.assign(path=backdoor.patched(list(rows.path), self._settings.backdoor_patch))
        said: Predictions = self._trials.classifier(flags).test_images(stamped).predict_exactly(record.weights())
        subjects = rows.subject.where(rows.subject != "", rows.path) if "subject" in rows else rows.path
        target = np.full(len(rows), split.pool.classes.index(self._target))
        run = Run(
            target, said.probabilities, subjects.to_numpy(str), rows.path.to_numpy(str), split.name, int(labels["seed"])
        )
        return evidence.Entry(labels, run, rows.client.to_numpy())

    def _made(self, found: dict[tuple[str, str, str], Played]) -> pd.DataFrame:
        whole = [entry for played in found.values() if not played.diverged for entry in played.entries]
        rows = pd.DataFrame([dict(zip(BY, key)) for key in found])
        rows["clients"], rows["attackers"] = len(self._trials.pool.clients), self._attackers
        rows.loc[rows.attack == NONE, "attackers"] = 0
        rules = map(self._rule, rows.aggregator)
        rows["byzantine"] = pd.array([rule.byzantine if rule.told else None for rule in rules], "Int64")
        rows["outcome"] = [
            f"{DIVERGED}: seed {' '.join(map(str, played.diverged))}" if played.diverged else FINISHED
            for played in found.values()
        ]
        for part in (evidence.table(whole, BY, SCORES), self._successes(found), self._differences(found, whole)):
            if len(part):
                rows = rows.merge(part, on=list(BY), how="left")
        counts = [name for name in evidence.COLUMNS if name in rows]
        return rows[[*(name for name in rows if name not in counts), *counts]]

    @staticmethod
    def _successes(found: dict[tuple[str, str, str], Played]) -> pd.DataFrame:
        patched = [entry for played in found.values() if not played.diverged for entry in played.patched]
        if not patched:
            return pd.DataFrame()
        return evidence.table(patched, BY, {SUCCESS: metrics.NAMED["accuracy"]}).drop(columns=list(evidence.COLUMNS))

    @staticmethod
    def _differences(found: dict[tuple[str, str, str], Played], whole: list[evidence.Entry]) -> pd.DataFrame:
        """To the same method and aggregator without attackers, paired, corrected for all rows together."""
        declared, keys = [], []
        for key, played in found.items():
            method, attack, aggregator = key
            if attack == NONE or played.diverged:
                continue
            labels = {"method": method, "aggregator": aggregator}
            mine, clean = (attack, {**labels, "attack": attack}), (NONE, {**labels, "attack": NONE})
            declared.append(evidence.Claim(mine, clean, JUDGED_BY, JUDGED_BY))
            keys.append(key)
        made = evidence.claims(whole, declared)
        if not len(made):
            return pd.DataFrame()
        renamed = {"gain": "difference", "gain_low": "difference_low", "gain_high": "difference_high"}
        made = made[[*renamed, "p_holm", "verdict"]].rename(columns=renamed)
        return pd.concat([pd.DataFrame(keys, columns=list(BY)), made], axis=1)


def _multiplied(client: Client, factor: float) -> Any:
    return lambda number: attacks.with_factor(client.batches(number), factor)


def shown(table: pd.DataFrame) -> Iterator[str]:
    """The table in short: macro F1, an aggregator a row, an attack a column; then the backdoor's success."""
    for title, column in (("macro F1", JUDGED_BY), ("patched images taken for the target", SUCCESS)):
        if column in table:
            wide = table.pivot(index=["method", "aggregator"], columns="attack", values=column)
            wide = wide.reindex(index=pd.MultiIndex.from_frame(table[["method", "aggregator"]].drop_duplicates()))
            wide = wide[list(dict.fromkeys(table["attack"]))]
            yield f"{title}\n{wide.to_string(float_format='{:.3f}'.format, na_rep=DIVERGED)}"
