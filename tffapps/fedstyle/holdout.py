"""`python -m tffapps.fedstyle holdout --data ART --pairs 10 …`: how well artists are found who joined after training.

Two artists at a time are left out of the federation, which trains on the others, and join its catalogue with
`--enrolled` pictures. All other flags are those of `python -m tffapps.fedstyle`; --methods says whose encoders are
tried. Which embedding and which measure are served is chosen on validation pictures, for each pair by the pairs that
share no artist with it. FOLDER/fedstyle/holdout.csv has the scores, holdout_claims.csv the paired tests against the
nearest pictures in the frozen network, holdout_chosen.csv what was chosen, holdout_pairs.csv the scores of each pair.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from preprocessing.parser import Parser
from tffapps import VALIDATION, Common, UserError, cli
from tffapps.settings import Flags

NAME = "fedstyle holdout"
LEAST = 6  # artists: of four members a catalogue without one is still centred


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=f"python -m tffapps.{NAME}", description=__doc__.splitlines()[0], add_help=False)
    parser.add_argument("--pairs", type=int, default=10, metavar="N")
    parser.add_argument("--enrolled", type=int, default=20, metavar="N")
    options, others = parser.parse_known_args(arguments)
    return cli.guarded(NAME, lambda: _run(options, others), module="tffapps.fedstyle holdout")


def _run(options: argparse.Namespace, others: Sequence[str]) -> None:
    from tffapps.fedstyle import APP, METHODS

    flags = cli.parse(APP, others)
    if options.pairs < 3 or options.enrolled < 2:
        raise UserError("--pairs, --enrolled: 3 pairs and 2 pictures at least")
    if flags[Common].across_sites:
        raise UserError("--engine: whoever is left out must be here; leave it out")
    if flags[Common].select != VALIDATION:
        raise UserError("--select: what is served is chosen on validation pictures; give --select validation")
    if flags[Common].methods == METHODS:
        flags = flags.replaced(methods=("fedstyle",))
    cli.quiet()
    _play(flags.replaced(studies=("none",)), options)


def _play(flags: Flags, options: argparse.Namespace) -> None:
    from tffapps import write_table
    from tffapps.fedstyle import APP, choosing, leaving

    played = list(leaving.played(flags, options.pairs, options.enrolled))
    tables = choosing.tables(played)
    for name, table in tables.items():
        write_table(APP.folder(flags) / f"{name}.csv", table, **played[0].what_ran)
    shown = ["encoder", "measure", "top_1", "top_1_low", "top_1_high", "map_10", "open_set_auroc", "open_set_auroc_low"]
    print(tables["holdout"][shown].to_string(index=False, float_format="{:.3f}".format))
    told = ["metric", "method", "baseline", "gain", "gain_low", "gain_high", "p_holm", "verdict"]
    print(tables["holdout_claims"][told].to_string(index=False, float_format="{:.3f}".format))
