"""`python -m tffapps.fedstyle query PICTURE… [--top 5]`: which artists may have made these pictures.

Prints a table; writes OUT/queries.csv and contact sheets OUT/sheet-1.png, …
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from preprocessing.parser import Parser
from tffapps import UserError, cli

NAME = "fedstyle query"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return cli.guarded(NAME, lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=f"python -m tffapps.{NAME}", description="Ranks artists for pictures, with the model trained by fedstyle."
    )
    parser.add_argument(
        "pictures", metavar="PICTURE", nargs="+", type=pathlib.Path, help="pictures, or folders of them"
    )
    parser.add_argument("--top", type=int, default=5, metavar="N", help="artists shown (default %(default)s)")
    parser.add_argument("--by", choices=("probability", "style"), default="probability", help="order of artists")
    parser.add_argument(
        "--results", type=pathlib.Path, default=pathlib.Path("results"), metavar="FOLDER", help="as when training"
    )
    parser.add_argument("--model", type=pathlib.Path, metavar="FILE", help="default: FOLDER/fedstyle/model.npz")
    parser.add_argument("-o", dest="out", type=pathlib.Path, metavar="OUT", help="default: FOLDER/fedstyle/query")
    return parser


def _run(options: argparse.Namespace) -> None:
    cli.quiet()
    if options.top < 1:
        raise UserError(f"--top {options.top}: must be 1 or more")
    given = _listed(options.pictures)
    folder = options.results / "fedstyle"

    from tffapps.data.conversion import converted_paths
    from tffapps.data.unreadable import find_unreadable
    from tffapps.fedstyle import asked, global_model, sheet
    from tffapps.files import original
    from tffapps.results import write_table

    model = global_model.load(options.model or folder / global_model.FILE)
    paths = list(dict.fromkeys(converted_paths(given)))
    reasons = find_unreadable(paths, 3)
    for path, reason in reasons.items():
        print(f"left out: {original(path)}: {reason}", file=sys.stderr)
    readable = [path for path in paths if path not in reasons]
    if not readable:
        raise UserError(f"none of {len(paths)} pictures can be read")
    known = [pathlib.Path(original(path)).parent.name for path in readable]  # in a folder named after the artist
    known = [name if name in model.artists else "" for name in known]
    answers = asked.ask(model, readable, known)
    top = min(options.top, len(model.artists))
    out = options.out or folder / "query"
    table = answers.table(top, options.by)
    table = table.assign(picture=table.picture.map(original))
    try:
        write_table(out / "queries.csv", table)
        sheets = sheet.draw(out, answers, top, options.by)
    except OSError as error:
        raise UserError(f"-o {out}: cannot be written ({error.strerror})") from None
    shown = table.assign(picture=[pathlib.Path(path).name for path in table.picture])
    print(shown.to_string(index=False, float_format="{:.3f}".format))
    ranks = answers.right_ranks(options.by)
    if len(ranks):
        chance = 1 / len(model.artists)
        print(f"the right artist was first for {(ranks == 1).sum()} of {len(ranks)}; by chance {chance:.0%}")
    print(f"table: {out / 'queries.csv'}, sheets: {', '.join(map(str, sheets))}")


def _listed(given: Sequence[pathlib.Path]) -> list[str]:
    from preprocessing.formats import is_image
    from preprocessing.suffixes import SUFFIXES
    from tffapps.data.manifest import natural_key

    paths: list[str] = []
    for one in given:
        if one.is_dir():
            inside = [str(path) for path in one.rglob("*") if path.is_file() and is_image(path)]
            if not inside:
                raise UserError(f"{one}: no pictures ({', '.join(SUFFIXES)}) in it")
            paths += sorted(inside, key=natural_key)
        elif one.is_file():
            paths.append(str(one))
        else:
            raise UserError(f"{one}: no such picture or folder")
    return list(dict.fromkeys(paths))
