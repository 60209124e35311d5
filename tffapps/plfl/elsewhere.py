"""`python -m tffapps.plfl elsewhere RUN/bundle --data MANIFEST`: a trained model on other people's X-rays, by client.

--data is a manifest, or a folder of grades; its images of split `test` are shown to the model of a finished run, after
the preparation that its training images had. FOLDER/plfl/elsewhere.csv has the scores with intervals by subject, of all
and of each client. Labels are only held against the answers: nothing is trained, and no file of the run changes.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from preprocessing.parser import Parser
from tffapps import UserError, cli

NAME = "plfl elsewhere"
ALL = "all"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=f"python -m tffapps.{NAME}", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", metavar="BUNDLE", type=pathlib.Path, help="the folder `bundle` of a finished run")
    parser.add_argument("--data", required=True, metavar="FOLDER_OR_MANIFEST", help="with images of split test")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    return cli.guarded(NAME, lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    cli.quiet()
    from tffapps import write_table
    from tffapps.evaluation import evidence
    from tffapps.plfl import tables
    from tffapps.use import bundle
    from tffapps.use.predict import Predictor

    loaded = bundle.load(options.bundle)
    rows = tested(pathlib.Path(options.data), loaded.classes)
    answers = list(Predictor(loaded).of_files(list(rows.path)))
    for path, answer in zip(rows.path, answers):
        if answer.problem:
            print(UserError(f"left out: {path}: {answer.problem}"), file=sys.stderr)
    used = [answer.probabilities is not None for answer in answers]
    if not any(used):
        raise UserError(f"--data {options.data}: none of its {len(rows)} test images could be used")
    probabilities = [answer.probabilities for answer in answers if answer.probabilities is not None]
    whole = _entry(rows[used], probabilities, loaded.classes)
    parts = [evidence.of_client(whole, client) for client in sorted(set(whole.clients))]
    entries = [_named(whole, ALL), *(_named(part, part.clients[0]) for part in parts if part is not None)]
    scores = evidence.table(entries, ["client"], tables.metrics_of(loaded.classes))
    scores = scores[[name for name in scores.columns if not str(name).endswith("_std")]].drop(columns="seeds")
    data = pathlib.Path(options.data).resolve().stem
    write_table(options.results / "plfl" / "elsewhere.csv", scores, data=data, bundle=str(options.bundle))
    print(scores[["client", "accuracy", "macro_f1", "quadratic_kappa", "images"]].to_string(index=False))


def tested(source: pathlib.Path, classes: Sequence[str]) -> Any:
    """The rows of split test, of classes that the model has."""
    from tffapps.data import layouts, manifest
    from tffapps.plfl import PlflImages

    layout = layouts.recognise(source, ("manifest", "oai"))
    notes = list[str]()
    graded = {"grades": PlflImages().grades} if layout == "oai" else {}
    table = layouts.read(source, (layout,), notes, **graded)
    rows = table[table.split == "test"].reset_index(drop=True)
    if rows.empty:
        raise UserError(f"--data {source}: no image of split test; say in its column split which are to be tested")
    unknown = sorted(set(rows.label) - set(classes), key=manifest.natural_key)
    if unknown:
        raise UserError(
            f"--data {source}: has the class {unknown[0]}, and the model knows {', '.join(classes)}; give the classes"
            " the same names"
        )
    if "subject" not in rows.columns:
        rows = rows.assign(subject="")
    nameless = rows.subject == ""
    rows.loc[nameless, "subject"] = rows.path[nameless]
    return rows


def _entry(rows: Any, probabilities: Sequence[Any], classes: Sequence[str]) -> Any:
    import numpy as np

    from tffapps.evaluation import evidence
    from tffapps.evaluation.subjects import Run

    codes = np.array([list(classes).index(label) for label in rows.label])
    run = Run(codes, np.stack(probabilities), rows.subject.to_numpy(str), rows.path.to_numpy(str), "test", 0, 0)
    return evidence.Entry({"client": ALL, "seed": 0}, run, rows.client.to_numpy(str), tuple(classes))


def _named(entry: Any, client: str) -> Any:
    import dataclasses

    return dataclasses.replace(entry, labels={**entry.labels, "client": client})
