"""What lies in the cache, and cleaning it: `python -m tffapps cache [--older DAYS] [--clean [KIND …]]`

Lists what can be made again, by kind: features by base, aligned images, generators and so on, with their files, bytes
and last use. `--clean` removes all of it, or the kinds that are named; with `--older` only what was not used for so
many days. While a run or a site uses the cache nothing is removed. Exit status 1 if something could not be removed.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from preprocessing.parser import Parser
from tffapps import cache_contents, cache_lock, cli
from tffapps.cache_contents import KINDS, Size, Unit
from tffapps.errors import UserError
from tffapps.home import cache_folder

_MODULE = "tffapps.cache_command"
_DAY = 24 * 60 * 60
_LOOSE = "(other files)"  # beside the kinds' folders


def main(arguments: Sequence[str] | None = None) -> int:
    """Lists or cleans the cache; returns the exit status."""
    parser = Parser(
        prog=cli.called_as("cache", _MODULE), description="What lies in the cache, and cleaning it", allow_abbrev=False
    )
    parser.add_argument("--clean", nargs="*", metavar="KIND", help="remove these kinds, as the list names them; or all")
    parser.add_argument(
        "--older", type=float, metavar="DAYS", help="only what was not used for so many days; the list too"
    )
    options = parser.parse_args(arguments)

    def work() -> int:
        if options.older is not None and not 0 <= options.older < math.inf:
            raise UserError(f"--older {options.older}: must be 0 or more days")
        return _list(options.older) if options.clean is None else _clean(options.clean, options.older)

    return cli.guarded("cache", work, module=_MODULE)


def _list(older: float | None) -> int:
    units = _of_age(cache_contents.found(cache_folder()), older)
    links = cache_contents.links(cache_folder())
    if not units and not links:
        print(f"nothing{' so old' if older is not None else ''} in {cache_folder()}")
        return 0
    rows = _rows(units)
    wide = max(len(name) for name in (*rows, *links, "total"))
    for name, size in rows.items():
        print(f"{name:{wide}}  {_shown(size)}  {_date(size.used)}  {_what(name)}".rstrip())
    for name in links:
        print(f"{_plain(name):{wide}}  a symbolic link: not followed")
    print(f"{'total':{wide}}  {_shown(_total(units.values()))}")
    print("`python -m tffapps cache --clean [KIND …] [--older DAYS]` removes what can be made again")
    return 0


def _clean(kinds: Sequence[str], older: float | None) -> int:
    root = cache_folder()
    known = {*KINDS, *_rows(cache_contents.found(root))} - {_LOOSE}
    for kind in kinds:
        if kind not in known:
            raise UserError(f"--clean {kind}: no such kind; choose from {', '.join(sorted(known))}")
    if not root.is_dir():
        print(f"nothing in {root}")
        return 0
    with cache_lock.alone():
        units = _of_age(cache_contents.found(root), older)
        chosen = {unit: size for unit, size in units.items() if not kinds or {_kind(unit), _name(unit)} & {*kinds}}
        removed = cache_contents.remove(root, chosen)
    for name, size in _rows(chosen, bases=False).items():
        print(f"{name}: {size.files} files, {_amount(size.bytes)}")
    for name in cache_contents.links(root):
        if not kinds or name in kinds:
            print(f"{_plain(name)}: a symbolic link, left as it is")
    for line in removed.problems:
        print(f"PROBLEM  {_plain(line)}")
    print(f"freed {_amount(removed.bytes)} of {removed.files} files in {root}")
    return 1 if removed.problems else 0


def _of_age(units: Mapping[Unit, Size], older: float | None) -> dict[Unit, Size]:
    latest = math.inf if older is None else time.time() - older * _DAY
    return {unit: size for unit, size in units.items() if size.used <= latest}


def _kind(unit: Unit) -> str:
    return unit[0] if len(unit) > 1 else _LOOSE


def _name(unit: Unit) -> str:
    """How a base's features are called; of other units it is a name that the list does not have."""
    return "/".join(unit)


def _rows(units: Mapping[Unit, Size], bases: bool = True) -> dict[str, Size]:
    """The lines of the list: every kind, and below features every base."""
    rows: dict[str, Size] = {}
    for unit, size in units.items():
        rows.setdefault(_plain(_kind(unit)), Size()).add(size)
        if bases and _is_base(unit):
            rows.setdefault(_plain(_name(unit)), Size()).add(size)
    return dict(sorted(rows.items()))


def _is_base(unit: Unit) -> bool:
    return cache_contents.about(cache_folder(), unit) is not None


def _what(name: str) -> str:
    known = cache_contents.about(cache_folder(), tuple(name.split("/")))
    return KINDS.get(name, "") if known is None else _plain(_described(known))


def _described(known: Mapping[str, Any]) -> str:
    """What about.json says of a base."""
    views = known.get("views", 1)
    seen = f"{known.get('view', '?')}{f', {views} views' if views != 1 else ''}"
    made = f"{_shape(known.get('shape'))} {known.get('dtype', '')}"
    cut, weights = known.get("cut", "?"), known.get("weights", "?")
    return f"cut {cut}, weights {weights}, images {_shape(known.get('size'))} {seen}: {made}"


def _shape(sides: Any) -> str:
    return "×".join(map(str, sides)) if isinstance(sides, list) else "?"


def _total(sizes: Iterable[Size]) -> Size:
    total = Size()
    for size in sizes:
        total.add(size)
    return total


def _shown(size: Size) -> str:
    return f"{size.files:8} files  {_amount(size.bytes):>10}"


def _amount(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))


def _plain(text: str) -> str:
    """Names of files come from anywhere: what steers a terminal is shown as escapes."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


if __name__ == "__main__":
    sys.exit(main())
