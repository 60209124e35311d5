"""`python -m tffapps audit RUN`: what a finished run gives away of its training images, by attacks on it.

RUN is a run's folder (results/<system>/runs/<name>), whose images are where they were or at --data. Or RUN is a bundle
and --data a folder or manifest whose training images it was trained on; then only membership is attacked.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from preprocessing.parser import Parser
from tffapps import cli
from tffapps.errors import UserError

_MODULE = "tffapps.audit.command"
FILE = "audit.csv"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=cli.called_as("audit", _MODULE), description=__doc__, allow_abbrev=False)
    parser.add_argument("run", type=pathlib.Path, metavar="RUN", help="a run's folder, or a bundle")
    parser.add_argument("--data", default="", metavar="FOLDER_OR_MANIFEST", help="where the images are now")
    parser.add_argument("--client", default="", metavar="NAME", help="whose update is inverted (default: the first)")
    parser.add_argument(
        "--images", type=int, default=1, metavar="N",
        help="also invert a round of N images and one step, the worst case; 0: only the real one (default 1)",
    )  # fmt: skip
    parser.add_argument("--steps", type=int, default=300, metavar="N", help="of gradient matching (default 300)")
    options = parser.parse_args(arguments)
    return cli.guarded("audit", lambda: _work(options), module=_MODULE)


def _work(options: Any) -> None:
    if options.images < 0 or options.images > 64:
        raise UserError(f"--images {options.images}: must be from 0 to 64")
    if options.steps < 1:
        raise UserError(f"--steps {options.steps}: must be 1 or more")
    if not options.run.is_dir():
        raise UserError(f"{options.run}: no such folder; give a run's folder, or a bundle")
    cli.quiet()
    from tffapps.audit import of_bundle, of_run, stored_run, table

    if (options.run / "bundle.json").exists():
        if not options.data:
            raise UserError(f"{options.run}: a bundle has no images; give those that it was trained on with --data")
        found = of_bundle.audit(options.run, options.data)
    else:
        audits: list[of_run.Audit] = []
        stored_run.with_trial(
            options.run, options.data,
            lambda study, trial: audits.append(
                of_run.audit(
                    study, trial, options.run.resolve(), images=options.images, steps=options.steps,
                    client=options.client,
                )
            ),
        )  # fmt: skip
        (found,) = audits
    print(table.verdict(found))
    where = options.run / FILE if not (options.run / "bundle.json").exists() else pathlib.Path(FILE)
    rows = table.write(where, found)
    print(rows.to_string(index=False, na_rep="", float_format="{:.3f}".format))
    print(f"table: {where}")


if __name__ == "__main__":
    raise SystemExit(main())
