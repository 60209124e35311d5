"""`python -m tffapps compare RUN RUN …`: any finished runs beside each other, also of different commands.

A RUN is a run's folder (results/<system>/runs/<name>), or NAME=FOLDER,FOLDER for one method of several seeds or splits.
The first is what the others are compared with. Everything is computed from the runs' stored predictions.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from preprocessing.parser import Parser
from tffapps import cli

DEFAULT = "accuracy,macro_f1,auroc,loss,brier"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=cli.called_as("compare"), description=__doc__, allow_abbrev=False)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run's folder, or NAME=FOLDER,FOLDER")
    parser.add_argument("--metrics", default=DEFAULT, metavar="A,B", help=f"scores to show (default {DEFAULT})")
    parser.add_argument("--primary", default="macro_f1", metavar="METRIC", help="what is tested (default macro_f1)")
    parser.add_argument("--model", choices=("last", "chosen"), default="last", help="which model of a run")
    parser.add_argument("--ordered", action="store_true", help="classes are in their order: quadratic kappa as well")
    parser.add_argument("-o", "--output", type=pathlib.Path, metavar="FOLDER", help="write tables and a figure there")
    options = parser.parse_args(arguments)
    return cli.guarded("compare", lambda: _work(options))


def _work(options: Any) -> None:
    from tffapps.comparing import compare  # pandas and scikit-learn: --help does without

    compare(options)
