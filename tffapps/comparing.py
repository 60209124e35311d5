"""The work behind `tffapps compare`: finished runs beside each other, from their stored predictions."""

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps.errors import UserError
from tffapps.evaluation import calibration, evidence, metrics, stored
from tffapps.evaluation.evidence import Entry
from tffapps.results import write_table


def compare(options: Any) -> None:
    """`options` as the command line has them (`tffapps.compare_command`)."""
    names = tuple(dict.fromkeys([*filter(None, options.metrics.split(",")), options.primary]))
    for name in names:
        if name not in metrics.NAMED:
            raise UserError(f"--metrics {name}: unknown; choose from {', '.join(metrics.NAMED)}")
    entries = [entry for given in options.runs for entry in _entries(given, options.model)]
    _check(entries)
    chosen: dict[str, Any] = {name: metrics.NAMED[name] for name in names}
    if options.ordered:
        chosen["quadratic_kappa"] = metrics.kappa()
    scores = evidence.table(entries, ["run"], chosen, worst=options.primary)
    scores = scores.assign(ece=[_error(entries, name) for name in scores["run"]])
    first = entries[0].labels["run"]
    others = list(dict.fromkeys(entry.labels["run"] for entry in entries if entry.labels["run"] != first))
    claims = [
        evidence.Claim((name, {"run": name}), (first, {"run": first}), options.primary, options.primary)
        for name in others
    ]
    compared = evidence.claims(entries, claims)
    _print(scores, compared, names)
    if options.output:
        write_table(options.output / "scores.csv", scores)
        if len(compared):
            write_table(options.output / "claims.csv", compared)
        _draw(options.output / "compare.png", entries, scores, options.primary)
        print(f"tables and figure: {options.output}")


def _entries(given: str, model: str) -> list[Entry]:
    """Of one argument, all called the same."""
    name, equals, listed = given.partition("=")
    if not equals or "/" in name:
        name, listed = "", given
    entries = []
    for path in map(pathlib.Path, filter(None, listed.split(","))):
        if not (path / "finished.json").exists():
            raise UserError(f"{path}: not a finished run's folder; name one of results/<system>/runs/")
        try:
            labels = json.loads((path / "settings.json").read_text())["labels"]
            trained = int(json.loads((path / "finished.json").read_text()).get("trained_subjects", 0))
            seed = int(labels["seed"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise stored.damaged(path / "settings.json") from None
        called = name or path.name.rpartition("-")[0] or path.name
        entries.append(evidence.classifier_entry({"run": called, "seed": seed}, path, trained=trained, model=model))
    if not entries:
        raise UserError(f"{given}: no folder; give a run's folder, or NAME=FOLDER,FOLDER")
    return entries


def _check(entries: Sequence[Entry]) -> None:
    """What cannot be compared is said in one line."""
    first, seen = entries[0], set[tuple[str, str, int]]()
    for entry in entries:
        if entry.classes != first.classes:
            ours, theirs = ", ".join(first.classes), ", ".join(entry.classes)
            raise UserError(f"{entry.labels['run']}: its classes are {theirs}; those of the first are {ours}")
        key = (entry.labels["run"], entry.run.split, entry.run.seed)
        if key in seen:
            raise UserError(f"{key[0]}: two runs of the same images and seed; give them names: NAME=FOLDER NAME=FOLDER")
        seen.add(key)


def _error(entries: Sequence[Entry], name: str) -> float:
    """Expected calibration error, a mean over runs."""
    runs = [entry.run for entry in entries if entry.labels["run"] == name]
    return float(np.mean([calibration.expected_calibration_error(run.labels, run.probabilities) for run in runs]))


def _print(scores: pd.DataFrame, compared: pd.DataFrame, names: Sequence[str]) -> None:
    rows = []
    for row in scores.to_dict("records"):
        shown = {name: f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]" for name in names}
        rows.append({"run": row["run"], **shown, **{name: row[name] for name in ("images", "subjects", "seeds")}})
    print(pd.DataFrame(rows).to_string(index=False))
    for row in compared.to_dict("records"):
        gain = f"{row['gain']:+.3f} [{row['gain_low']:+.3f}, {row['gain_high']:+.3f}], p {row['p_holm']:.3f} corrected"
        decided = row["test"] if row["verdict"] == "not comparable" else f"{gain}, {row['verdict']} ({row['test']})"
        print(f"{row['method']} against {row['baseline']}, {row['metric']}: {decided}")
    if not len(compared):
        print("one run: nothing to compare it with", file=sys.stderr)


def _draw(path: pathlib.Path, entries: Sequence[Entry], scores: pd.DataFrame, primary: str) -> None:
    """The primary metric with intervals, and reliability: does a confidence mean what it says?"""
    from tffapps.figures import Canvas

    names = list(scores["run"])
    with Canvas(path, 1, 2, width=5, height=max(3.2, 0.4 * len(names) + 1.6), title="") as canvas:
        left, right = canvas.axes[0]
        around = np.array([scores[primary] - scores[f"{primary}_low"], scores[f"{primary}_high"] - scores[primary]])
        left.errorbar(scores[primary], range(len(names)), xerr=np.nan_to_num(around).clip(0), fmt="o", capsize=3)
        left.set_yticks(range(len(names)), names, fontsize=8)
        left.set_ylim(len(names) - 0.5, -0.5)
        left.set_xlabel(f"{primary.replace('_', ' ')}, 95 % interval")
        left.grid(axis="x", alpha=0.3)
        right.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for name in names:
            runs = [entry.run for entry in entries if entry.labels["run"] == name]
            labels = np.concatenate([run.labels for run in runs])
            probabilities = np.concatenate([run.probabilities for run in runs])
            table = calibration.reliability(labels, probabilities, bins=10)
            right.plot(table["confidence"], table["accuracy"], marker="o", markersize=3, label=name)
        right.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
        right.legend(fontsize=7, frameon=False)
        right.grid(alpha=0.3)
