"""What a site allows: read from a file that its owner writes, `site serve --policy FILE`.

The file `policy.ini` beside this one, which `tffapps site policy` prints, says what each key means; it is the default,
and the only place that has the values.
"""

from __future__ import annotations

import configparser
import dataclasses
import re
from pathlib import Path

from tffapps.errors import UserError

_DEFAULT = Path(__file__).with_name("policy.ini")
_ANY, _NONE = "any", "none"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_YES = {"yes": True, "no": False}


@dataclasses.dataclass(frozen=True)
class Policy:
    """None stands for any."""

    applications: frozenset[str] | None
    methods: frozenset[str] | None
    jobs: frozenset[str] | None
    of_a_run: int
    a_day: int
    least_images: int
    largest: int
    predictions: bool
    widest_prediction: int
    more_operations: frozenset[str]
    states: int
    state_days: int
    epsilon: float | None
    delta: float | None
    only_masked: bool
    longest_update: float | None

    @property
    def hides_updates(self) -> bool:
        """Whether what is computed of training images leaves masked or noised, or not at all."""
        return self.only_masked or self.epsilon is not None


def default_text() -> str:
    return _DEFAULT.read_text()


def default() -> Policy:
    return read(_DEFAULT)


def read(file: Path) -> Policy:
    """A UserError that names the file, the key and what it takes."""
    given = _parsed(file)
    for section in given.sections():
        known = _parsed(_DEFAULT)
        if section not in known:
            raise UserError(f"--policy {file}: [{section}] is no section; there are {', '.join(known.sections())}")
        for key in given[section]:
            if key not in known[section]:
                keys = ", ".join(known[section])
                raise UserError(f"--policy {file}: [{section}] {key}: no such key; there are {keys}")
    values = _Values(file, given)
    policy = Policy(
        applications=values.names("work", "applications"),
        methods=values.names("work", "methods"),
        jobs=values.names("work", "jobs"),
        of_a_run=values.whole("rounds", "of_a_run"),
        a_day=values.whole("rounds", "a_day"),
        least_images=values.whole("answers", "least_images"),
        largest=values.size("answers", "largest"),
        predictions=values.yes("answers", "predictions"),
        widest_prediction=values.whole("answers", "widest_prediction"),
        more_operations=values.names("graphs", "more_operations") or frozenset(),
        states=values.size("states", "largest"),
        state_days=values.whole("states", "days"),
        epsilon=values.above_zero("privacy", "epsilon"),
        delta=values.above_zero("privacy", "delta"),
        only_masked=values.yes("privacy", "only_masked"),
        longest_update=values.above_zero("privacy", "longest_update"),
    )
    if (policy.epsilon is None) != (policy.delta is None):
        raise UserError(f"--policy {file}: [privacy]: give both epsilon and delta, or neither")
    if policy.delta is not None and policy.delta >= 1:
        raise UserError(f"--policy {file}: [privacy] delta: give a number below 1")
    return policy


def _parsed(file: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, empty_lines_in_values=False, default_section="\0")
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--policy {file}: cannot be read ({error.strerror})") from None
    except (configparser.Error, UnicodeDecodeError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"--policy {file}: not a policy ({why:.150}); `tffapps site policy` prints one") from None
    return parser


class _Values:
    def __init__(self, file: Path, given: configparser.ConfigParser) -> None:
        self._file, self._given, self._default = file, given, _parsed(_DEFAULT)

    def _text(self, section: str, key: str) -> str:
        return self._given.get(section, key, fallback=self._default[section][key]).strip()

    def _wrong(self, section: str, key: str, wanted: str) -> UserError:
        return UserError(f"--policy {self._file}: [{section}] {key} = {self._text(section, key):.60}: give {wanted}")

    def names(self, section: str, key: str) -> frozenset[str] | None:
        words = [word.strip() for word in self._text(section, key).split(",") if word.strip()]
        if words == [_ANY]:
            return None
        if not all(re.fullmatch(r"[\w./+-]+", word) for word in words) or (len(words) > 1 and _ANY in words):
            raise self._wrong(section, key, f"names with commas, {_ANY} or {_NONE}")
        return frozenset(words) - {_NONE}

    def whole(self, section: str, key: str) -> int:
        text = self._text(section, key)
        if not re.fullmatch(r"\d{1,12}", text):
            raise self._wrong(section, key, "a whole number, 0 or more")
        return int(text)

    def size(self, section: str, key: str) -> int:
        found = re.fullmatch(r"(\d{1,12}) ?([KMG]?)", self._text(section, key))
        if found is None:
            raise self._wrong(section, key, "a number of bytes, such as 500K or 20M")
        return int(found[1]) * _UNITS[found[2]]

    def yes(self, section: str, key: str) -> bool:
        if self._text(section, key) not in _YES:
            raise self._wrong(section, key, "yes or no")
        return _YES[self._text(section, key)]

    def above_zero(self, section: str, key: str) -> float | None:
        text = self._text(section, key)
        if not text:
            return None
        if not re.fullmatch(r"\d+(\.\d+)?([eE]-?\d+)?", text) or not 0 < float(text) < float("inf"):
            raise self._wrong(section, key, "a number above 0, or nothing")
        return float(text)
