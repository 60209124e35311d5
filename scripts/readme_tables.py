"""Writes the tables of README.md from the CSV files in results/: no number there is typed in.

python scripts/readme_tables.py [--check]
"""

from __future__ import annotations

import pathlib
import re
import sys

import pandas as pd

ROOT = pathlib.Path(__file__).resolve().parents[1]


def classify() -> str:
    table = pd.read_csv(ROOT / "results" / "classify" / "comparison.csv")
    lines = ["| method | trained on | accuracy | macro F1 |", "| --- | --- | --- | --- |"]
    for row in table.itertuples():
        accuracy = f"{row.accuracy:.3f} ± {row.accuracy_std:.3f}"
        lines.append(f"| {row.method} | {row.site} | {accuracy} | {row.macro_f1:.3f} ± {row.macro_f1_std:.3f} |")
    return "\n".join(lines)


def rounds() -> str:
    table = pd.read_csv(ROOT / "results" / "benchmarks" / "rounds.csv")
    lines = [
        "| | clients | images/s | of `fit` | first round ends after | of `fit` | peak memory |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in table.itertuples():
        first = f"{row.seconds_to_end_of_first_round:.1f} s | {row.first_round_of_fit:.2f}"
        speed = f"{row.images_per_second:.0f} | {row.speed_of_fit:.2f}"
        lines.append(f"| {row.contender} | {row.clients} | {speed} | {first} | {row.peak_memory_mb / 1000:.2f} GB |")
    return "\n".join(lines)


def plfl() -> str:
    return _plfl(ROOT / "results" / "plfl")


def plfl_real() -> str:
    return _plfl(ROOT / "results" / "real" / "plfl")


def _plfl(folder: pathlib.Path) -> str:
    table = pd.read_csv(folder / "comparison.csv")
    last = table[table.site == "server"].groupby(["framework", "model"], sort=False).tail(1)
    names = {"gold": "gold only (initial server training)"}
    lines = [
        "| framework | accuracy | weighted F1 | macro F1 | AUROC | thesis: accuracy | F1 | macro F1 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in last.itertuples():
        ours = [
            f"{getattr(row, m):.3f} ± {getattr(row, m + '_std'):.3f}" for m in ("accuracy", "f1", "macro_f1", "auroc")
        ]
        theirs = [_blank(getattr(row, f"paper_{metric}")) for metric in ("accuracy", "f1", "macro_f1")]
        lines.append(f"| {names.get(row.framework, row.framework)} | {' | '.join([*ours, *theirs])} |")
    return "\n".join(lines)


def poisoning() -> str:
    table = pd.read_csv(ROOT / "results" / "real" / "plfl" / "poisoning.csv")
    shares = sorted(set(table.share))
    lines = [
        f"| framework | spoilt at client1 | {' | '.join(f'{share:.0%} of it' for share in shares)} |",
        f"| --- | --- |{' --- |' * len(shares)}",
    ]
    for (framework, what), rows in table.groupby(["framework", "what"], sort=False):
        cells = [f"{row.accuracy:.3f} / {row.macro_f1:.3f}" for row in rows.sort_values("share").itertuples()]
        lines.append(f"| {framework} | {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _blank(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.2f}"


TABLES = {"classify": classify, "rounds": rounds, "plfl": plfl, "plfl_real": plfl_real, "poisoning": poisoning}


def filled(text: str) -> str:
    for name, make in TABLES.items():
        pattern = rf"<!-- table: {name} -->\n.*?<!-- end -->"
        text = re.sub(pattern, f"<!-- table: {name} -->\n{make()}\n<!-- end -->", text, flags=re.DOTALL)
    return text


def main() -> int:
    path = ROOT / "README.md"
    old = path.read_text()
    new = filled(old)
    if "--check" in sys.argv[1:]:
        return int(old != new)
    path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
