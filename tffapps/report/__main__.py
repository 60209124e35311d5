"""`python -m tffapps.report [--results FOLDER] [--summary]`"""

import pathlib
import sys
from collections.abc import Sequence

from preprocessing.parser import Parser
from tffapps import cli
from tffapps.errors import UserError
from tffapps.files import replacing, short
from tffapps.report.collect import collect
from tffapps.report.page import page
from tffapps.report.summary import in_text


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(
        prog=cli.called_as("report"),
        description="Writes the page of all results: index.html in their folder, one file that needs no other.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--results", type=pathlib.Path, default=pathlib.Path("results"), metavar="FOLDER",
        help="where the applications wrote their tables (default results)",
    )  # fmt: skip
    parser.add_argument("--summary", action="store_true", help="print the summary table as well")
    options = parser.parse_args(arguments)
    return cli.guarded("report", lambda: _work(options.results, options.summary))


def _work(folder: pathlib.Path, summary: bool) -> None:
    if not folder.is_dir():
        raise UserError(f"--results {folder}: no such folder; `bash run_all.sh` makes results/")
    found = collect(folder)
    written = folder / "index.html"
    text = page(found)
    with replacing(written, "wb") as file:
        file.write(text.encode())
    for line in found.problems:
        print(f"tffapps.report: {line}", file=sys.stderr)
    if summary:
        print(in_text(found))
    print(f"page: {short(str(written))}")


if __name__ == "__main__":
    raise SystemExit(main())
