"""`python -m tffapps.plfl shares --shares 0.02,0.05,0.1,0 …`: how few labels are enough, and do clients help then?

The frameworks are played once for every share of the images that the server has labelled (0: a third, the thesis's),
with all other flags those of `python -m tffapps.plfl`. FOLDER/plfl/label_shares.csv has the scores,
label_share_claims.csv each framework against gold continued at every share, all corrected together, and
label_shares.png the curves.
"""

import argparse
import dataclasses
from collections.abc import Sequence

from preprocessing.parser import Parser
from tffapps import UserError, cli
from tffapps.settings import Flags

NAME = "plfl shares"
FRAMEWORKS = ("gold", "gold+", "plfl", "plfl+", "semifl", "labels")
_A_THIRD = 1 / 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=f"python -m tffapps.{NAME}", description=__doc__.splitlines()[0], add_help=False)
    parser.add_argument("--shares", default="0.02,0.05,0.1,0", metavar="A,B")
    options, others = parser.parse_known_args(arguments)
    return cli.guarded(NAME, lambda: _run(options, others))


def shares_of(text: str) -> tuple[float, ...]:
    """Of the images, from the fewest; a third is 0, as the flag --gold-share has it."""
    try:
        shares = tuple(dict.fromkeys(float(part) for part in text.split(",") if part.strip()))
    except ValueError:
        raise UserError(f"--shares {text}: give shares of the images such as 0.02,0.1,0") from None
    if not shares or not all(0 <= share < 1 for share in shares):
        raise UserError(f"--shares {text}: each must be 0 (a third) or more, and less than 1")
    return tuple(sorted(shares, key=lambda share: share or _A_THIRD))


def _run(options: argparse.Namespace, others: Sequence[str]) -> None:
    from tffapps.plfl import APP, METHODS

    shares, flags = shares_of(options.shares), cli.parse(APP, others)
    methods = flags.as_dict()["methods"]
    flags = flags.replaced(methods=FRAMEWORKS if methods == METHODS else methods, poison=())
    cli.quiet()
    _play(flags, shares)


def _play(flags: Flags, shares: Sequence[float]) -> None:
    from tffapps import write_table
    from tffapps.evaluation import evidence
    from tffapps.plfl import APP, figures, playing, tables

    entries = list[evidence.Entry]()
    with playing.opened(flags) as played:
        for share in shares:
            for record in played.records(flags.replaced(gold_share=share)):
                entries.append(record.entry(framework=record["method"], share=round(share or _A_THIRD, 3)))
        what_ran = played.what_ran()
    scores = evidence.table(entries, ["framework", "model", "share"], tables.metrics_of(entries[0].classes))
    claims = tables.claims_of(entries, claims_of(entries))
    folder = APP.folder(flags)
    write_table(folder / "label_shares.csv", scores, **what_ran)
    write_table(folder / "label_share_claims.csv", claims, **what_ran)
    figures.label_shares(folder / "label_shares.png", scores, f"{what_ran['data']}, {what_ran['weights']}")
    shown = ["framework", "share", "accuracy", "macro_f1", "macro_f1_low", "macro_f1_high", "quadratic_kappa"]
    print(scores[shown].to_string(index=False, float_format="{:.3f}".format))


def claims_of(entries: Sequence) -> list:  # type: ignore[type-arg]
    """Of every share: what has unlabelled images, or all labels, against gold continued."""
    from tffapps.plfl.claims import against_continued

    shares = dict.fromkeys(entry.labels["share"] for entry in entries)
    return [
        dataclasses.replace(
            claim,
            method=(claim.method[0], {**claim.method[1], "share": share}),
            baseline=(claim.baseline[0], {**claim.baseline[1], "share": share}),
            title=f"{claim.title}, {share:.0%} labelled",
        )
        for share in shares
        for claim in against_continued(("plfl", "plfl+", "semifl", "labels"))
    ]
