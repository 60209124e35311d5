"""The tables of `results/fedstyle/`.

Scores are of the last round's model. The paper's are means over the last ten rounds: `last_rounds_accuracy` is that of
as many rounds as --last-rounds says, for whoever compares with it.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps import Record, split_tables, with_paper, write_table
from tffapps.app import PAPER
from tffapps.data import artists
from tffapps.data.compare import is_own
from tffapps.evaluation import evidence
from tffapps.evaluation.evidence import Entry
from tffapps.fedstyle import COMPARISON, METRICS, FedStyleSettings, paper, stopping
from tffapps.fedstyle.asked import RANKINGS, Answers
from tffapps.fedstyle.claims import CLAIMS
from tffapps.fedstyle.data import Federation
from tffapps.fedstyle.roles import ROLES

START = "start"  # a label of runs that do not begin as --weights says
TOLD = ("rounds", "bytes_per_client", "last_rounds_accuracy", "chosen_round", "converged")  # of runs, their means
_TOP = 3  # artists that queries.csv names


def write_all(
    folder: pathlib.Path,
    federation: Federation,
    records: Sequence[Record],
    untrained: Sequence[Entry],
    settings: FedStyleSettings,
    answers: Answers | None,
    what_ran: dict[str, str],
) -> None:
    """`untrained`: of rivals that train nothing; `answers`: of the model about every test picture, if it was asked."""
    entries = [*(record.entry() for record in records), *untrained]
    scores = scores_of(entries, records, settings)
    own = what_ran["profile"] == PAPER and is_own(federation.pool, "fedstyle")
    write_table(folder / "data.csv", artists.distribution(federation.pool.table), data=what_ran["data"])
    written = {
        "claims": evidence.claims(entries, CLAIMS),
        "comparison": comparison(scores, own),
        "table1_scalability": scalability(scores, own),
        "ablation": ablation(scores),
        "heterogeneity": heterogeneity(scores, federation.dealt),
        "cloaking": cloaking(scores),
    }
    for name, table in written.items():
        if len(table):
            write_table(folder / f"{name}.csv", table, **what_ran)
    if answers is not None:
        write_table(folder / "queries.csv", queries(answers), **what_ran)
    shown = ["method", "accuracy", "accuracy_low", "accuracy_high", "macro_f1", "mrr", "images", "seeds"]
    print(written["comparison"][shown].to_string(index=False, float_format="{:.4f}".format))
    print(f"tables and figures: {folder}")


def scores_of(entries: Sequence[Entry], records: Sequence[Record], settings: FedStyleSettings) -> pd.DataFrame:
    """One row for each study, variant, method and number of artists."""
    keys = [
        "study",
        "variant",
        "method",
        *([START] if any(START in entry.labels for entry in entries) else []),
        "artists",
    ]
    rows = [
        {
            **record.labels, "rounds": len(record.rounds),
            "bytes_per_client": record.rounds[["bytes_down", "bytes_up"]].sum().sum() / record["clients"],
            "last_rounds_accuracy": record.rounds.accuracy.tail(settings.last_rounds).mean(),
            **(_converged(record, settings.patience) if settings.patience else {}),
        }
        for record in records
    ]  # fmt: skip
    told = [name for name in rows[0] if name in TOLD]
    means = pd.DataFrame(rows).groupby(keys, sort=False, dropna=False)[told]
    table = evidence.table(entries, keys, (*METRICS, "top_3", "top_5", "mrr"), worst="accuracy")
    table = table.merge(means.mean().reset_index(), on=keys, how="left").fillna({"rounds": 0})
    return split_tables.with_tuned(table.astype({"rounds": int}), records, keys)


def _converged(record: Record, patience: int) -> dict[str, float]:
    """Blank where the rounds are another run's, which validation has chosen."""
    known = not ROLES[record["method"]].retrained
    return {
        "chosen_round": record.summary.get("round", len(record.rounds)),
        "converged": float(stopping.converged(record.rounds, patience)) if known else np.nan,
    }


def comparison(scores: pd.DataFrame, own: bool = False) -> pd.DataFrame:
    """Figure 3. What crosses the network is nothing for local, which is at the server."""
    table = _of(scores, COMPARISON)
    table.loc[table.method == "local", "bytes_per_client"] = 0
    values = {(name,): value for name, value in paper.ARTISTSTYLE.items()}
    return with_paper(table, values, ["method"], "paper_accuracy") if own else table


def scalability(scores: pd.DataFrame, own: bool = False) -> pd.DataFrame:
    table = _of(scores, "scalability").drop(columns="bytes_per_client")
    for index, metric in enumerate(METRICS if own else ()):
        values = {(n, name): pair[index] for n, by in paper.SCALABILITY.items() for name, pair in by.items()}
        table = with_paper(table, values, ["artists", "method"], f"paper_{metric}")
    return table


def ablation(scores: pd.DataFrame) -> pd.DataFrame:
    """Figure 4; the whole method first, on the seeds of the others."""
    table = _of(scores, "ablation", "variant")
    if not len(table):
        return table
    whole = _of(scores, COMPARISON)
    whole = whole[whole.method == "fedstyle"].assign(variant="all losses")
    return pd.concat([whole, table], ignore_index=True)[table.columns].drop(columns="bytes_per_client")


def heterogeneity(scores: pd.DataFrame, compared: str) -> pd.DataFrame:
    """Figure 1(b); the setting of one artist each from the comparison, which is called `compared`."""
    table = _of(scores, "heterogeneity", "variant")
    if not len(table):
        return table
    single = _of(scores, COMPARISON)
    single = single[single.method.isin(set(table.method))].assign(variant=compared)
    table = pd.concat([table, single], ignore_index=True)[table.columns]
    return table.rename(columns={"variant": "dealt"}).drop(columns="bytes_per_client")


def cloaking(scores: pd.DataFrame) -> pd.DataFrame:
    """Figure 1(a)"""
    table = _of(scores, "cloaking", "variant").rename(columns={"variant": "cloaked"})
    return table.drop(columns="bytes_per_client")


def queries(answers: Answers) -> pd.DataFrame:
    """One row for each test picture: where the right artist came, and who came first."""
    by = {how: answers.right_ranks(how) for how in RANKINGS}
    order = answers.ranking()
    rows = []
    for row, path in enumerate(answers.paths):
        line: dict[str, Any] = {"picture": pathlib.Path(path).name, "artist": answers.known[row]}
        line |= {f"rank_by_{how}": ranks[row] for how, ranks in by.items()}
        for rank, index in enumerate(order[row][:_TOP], start=1):
            line |= {
                f"artist{rank}": answers.model.artists[index],
                f"probability{rank}": answers.probabilities[row, index],
                f"cosine{rank}": answers.cosines[row, index],
            }
        rows.append(line)
    return pd.DataFrame(rows).assign(chance_first=1 / len(answers.model.artists))


def _of(scores: pd.DataFrame, study: str, *more: str) -> pd.DataFrame:
    table = scores[scores.study == study].drop(columns="study")
    return (table if more else table.drop(columns="variant")).reset_index(drop=True).replace({None: np.nan})
