"""Which encoder is served: chosen for each pair of newcomers by the pairs that share no artist with it; the tables.

The score of a choice is the mean over those pairs, on validation pictures, of top-1, mAP@10 and open-set AUROC. How
many of the nearest pictures vote in the rival is chosen in the same way, by top-1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from tffapps import UserError
from tffapps.evaluation import evidence, identities, metrics
from tffapps.evaluation.evidence import Claim, Entry
from tffapps.fedstyle.leaving import FROZEN, STYLE, Played
from tffapps.fedstyle.strangers import OPEN_SET, Judged, Measure

SERVED, NEIGHBOURS = "served", "neighbours"
FOUND = {"top_1": metrics.mean_of(0), "map_10": metrics.mean_of(1)}
KEYS = ("encoder", "measure")
Choice = tuple[str, Measure]


def tables(played: Sequence[Played]) -> dict[str, pd.DataFrame]:
    """holdout, holdout_claims, holdout_chosen and holdout_pairs."""
    every = [choice for choice in played[0].judged if not choice[1].voting]
    nearest = [choice for choice in played[0].judged if choice[1].voting]
    found, opened, told, chosen = list[Entry](), list[Entry](), list[Entry](), list[dict]()
    for one in played:
        others = [other for other in played if not {*one.pair} & {*other.pair}]
        if not others:
            raise UserError("--pairs: some pair shares an artist with every other, and nothing is chosen for it; more")
        served = max(every, key=lambda choice: _mean(others, choice, _score))
        rule = max(OPEN_SET, key=functools.partial(_familiarity, others, served))
        rival = max(nearest, key=lambda choice: _mean(others, choice, lambda judged: judged.top_1("val")))
        chosen.append({
            "pair": " and ".join(one.pair), "split": one.split, "chosen_by_pairs": len(others), "encoder": served[0],
            "measure": served[1].name, "open_set_rule": rule, "validation_score": _mean(others, served, _score),
            "neighbours": rival[1].voting,
        })  # fmt: skip
        for name, measure, choice, how in (
            (SERVED, "chosen", served, rule), (NEIGHBOURS, "chosen", rival, OPEN_SET[0]),
            *((choice[0], choice[1].name, choice, OPEN_SET[0]) for choice in every),
        ):  # fmt: skip
            labels = {"encoder": name, "measure": measure, "pair": " and ".join(one.pair), "seed": 0}
            found.append(_found(labels, one, one.judged[choice]))
            opened.append(_opened(labels, one, one.judged[choice], how))
            told.append(_told(labels, one, one.judged[choice]))
    scores = evidence.table(found, KEYS, FOUND)
    for name, entries in (("open_set_auroc", opened), ("membership_auroc", told)):
        table = evidence.table(entries, KEYS, ["auroc"])
        table = table.rename(columns=lambda column, name=name: str(column).replace("auroc", name))
        scores = scores.merge(table[[*KEYS, *(each for each in table if str(each).startswith(name))]], on=list(KEYS))
    pairs = pd.DataFrame(
        [{**entry.labels, "top_1": entry.run.probabilities[:, 0].mean(), "map_10": entry.run.probabilities[:, 1].mean(),
          "open_set_auroc": metrics.NAMED["auroc"](other.run.labels, other.run.probabilities)}
         for entry, other in zip(found, opened)]
    ).drop(columns="seed")  # fmt: skip
    return {
        "holdout": scores.rename(columns={"splits": "pairs"}),
        "holdout_claims": evidence.claims(found, CLAIMS, FOUND), "holdout_chosen": pd.DataFrame(chosen),
        "holdout_pairs": pairs[pairs.measure == "chosen"],
    }  # fmt: skip


def _of(name: str, measure: str = "chosen") -> tuple[str, dict]:
    return name if measure == "chosen" else f"{name}, {measure}", {"encoder": name, "measure": measure}


CLAIMS = [
    Claim(_of(SERVED), rival, metric, metric, control=rival[0] != NEIGHBOURS)
    for rival in (_of(NEIGHBOURS), _of(FROZEN, "centred"), _of(STYLE, "centred"))
    for metric in FOUND
]


def _score(judged: Judged) -> float:
    return (judged.top_1("val") + judged.map_10("val") + judged.auroc("val")) / 3


def _familiarity(played: Sequence[Played], choice: Choice, rule: str) -> float:
    return _mean(played, choice, lambda judged: judged.auroc("val", rule))


def _mean(played: Sequence[Played], choice: Choice, score: Callable[[Judged], float]) -> float:
    return float(np.mean([score(one.judged[choice]) for one in played]))


def _found(labels: dict, one: Played, judged: Judged) -> Entry:
    rows = one.pictures.of("test", newcomers=True)
    table = identities.identified(one.rows.iloc[rows]).assign(
        hit=judged.found["test"][:, 0], ap=judged.found["test"][:, 1]
    )
    return evidence.entry_of(labels, table, ["hit", "ap"], trained=one.trained)


def _opened(labels: dict, one: Played, judged: Judged, rule: str) -> Entry:
    rows = np.concatenate([one.pictures.of("test", newcomers) for newcomers in (False, True)])
    return _known(labels, one, rows, judged.known["test"], judged.familiar["test"][rule])


def _told(labels: dict, one: Played, judged: Judged) -> Entry:
    """Whether a picture was enrolled with, by its similarity to its artist's prototype."""
    enrolled, others = one.pictures.enrolled_and_not()
    return _known(labels, one, np.concatenate([enrolled, others]), len(enrolled), judged.own)


def _known(labels: dict, one: Played, rows: np.ndarray, known: int, values: np.ndarray) -> Entry:
    """The first `known` rows should have larger values than the others."""
    codes = (np.arange(len(rows)) < known).astype(np.int64)
    scores = np.stack([-values, values], axis=1)
    return evidence.untrained_entry(
        labels, identities.identified(one.rows.iloc[rows]), codes, scores, ["unknown", "known"], trained=one.trained
    )  # fmt: skip
