"""`python -m tffapps.plfl search --try "keep=0.8" --try "keep=0.8 soft_labels=yes" …`: settings tried on validation.

Every --try is a set of settings; the frameworks of --methods are played with it, and with the flags as they are, on
the training images of each split (best one of them: --splits 5 --only-splits r0f0), whose validation people take the
place of the tested ones. FOLDER/plfl/search.csv has what was tried, in its order, and the validation scores; rows of
earlier commands stay. Nothing is chosen here: a test image is never seen.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from preprocessing.parser import Parser
from tffapps import UserError, cli
from tffapps.settings import Flags
from tffapps.settings import settings_of as settings_in

NAME = "plfl search"
FILE = "search.csv"
METRICS = ("accuracy", "macro_f1", "loss")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=f"python -m tffapps.{NAME}", description=__doc__.splitlines()[0], add_help=False)
    parser.add_argument("--try", dest="tried", action="append", default=[], metavar='"keep=0.8 soft_labels=yes"')
    options, others = parser.parse_known_args(arguments)
    return cli.guarded(NAME, lambda: _run(options, others))


def settings_of(text: str) -> dict[str, Any]:
    """`keep=0.8 soft_labels=yes`, checked as --tune checks its values."""
    from tffapps import grids
    from tffapps.plfl import APP

    return {name: grids.value_of(name, written, APP, "--try") for name, written in map(_parts, text.split())}


def networks_of(tried: dict[str, dict[str, Any]]) -> dict[tuple[tuple[str, Any], ...], list[str]]:
    """What is tried by the settings of networks and of what they see, for which all that is built is built anew."""
    from tffapps.plfl import PlflNetwork

    theirs = {each.name for each in settings_in(PlflNetwork)} - {"schedule", "logit_adjust", "average_weights"}
    theirs |= {"views", "plus_views"}
    found = dict[tuple[tuple[str, Any], ...], list[str]]()
    for text, values in tried.items():
        found.setdefault(tuple((name, values[name]) for name in sorted(theirs & set(values))), []).append(text)
    return found


def _parts(part: str) -> tuple[str, str]:
    name, equals, written = part.partition("=")
    if not equals or not written:
        raise UserError(f"--try {part}: write a setting and its value as keep=0.8")
    return name, written


def _run(options: argparse.Namespace, others: Sequence[str]) -> None:
    from tffapps.plfl import APP

    flags = cli.parse(APP, others).replaced(poison=())
    tried = {"as the flags are": dict[str, Any]()} | {text: settings_of(text) for text in options.tried}
    cli.quiet()
    _play(flags, tried)


def _play(flags: Flags, tried: dict[str, dict[str, Any]]) -> None:
    import pandas as pd

    from tffapps import write_table
    from tffapps.evaluation import evidence
    from tffapps.evaluation.metrics import NAMED
    from tffapps.plfl import APP, playing, tables

    by_settings = dict[str, list[evidence.Entry]]()
    for network, texts in networks_of(tried).items():
        with playing.opened(flags.replaced(**dict(network))) as played:
            for text in texts:
                records = played.records(flags.replaced(**tried[text]), tuning=True)
                by_settings[text] = [record.entry(framework=record["method"], settings=text) for record in records]
            what_ran = played.what_ran()
    entries = [entry for text in tried for entry in by_settings[text]]
    metrics = {**{name: NAMED[name] for name in METRICS}, "quadratic_kappa": tables.KAPPA}
    scores = evidence.table(entries, ["settings", "framework", "model"], metrics)
    shown = [name for name in scores.columns if not str(name).endswith("_std")]  # of one split and seed
    scores = scores[shown].assign(images_are="validation", **what_ran)
    file = APP.folder(flags) / FILE
    if file.exists():
        # Rows of other folds stay beside these.
        both, same = pd.concat([pd.read_csv(file), scores]), ["settings", "framework", "model", "images"]
        scores = both.drop_duplicates(same, keep="last")
    write_table(file, scores)
    print(scores[["settings", "framework", *METRICS, "quadratic_kappa"]].to_string(index=False))
