"""What every application's command line has in common. No TensorFlow is imported before the flags are checked.

A value comes from, last wins: the settings' own default, the profile, `--settings FILE`, the flag.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import platform
import signal
import sys
import types
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from preprocessing.parser import Parser
from tffapps import engine, files
from tffapps.engine.doorway import Certificates
from tffapps.errors import RunStopped, UserError
from tffapps.settings import check, item_kind, setting

if TYPE_CHECKING:
    from tffapps.runs import Run


@dataclasses.dataclass(frozen=True)
class Common:
    """Flags of every application."""

    data: str = setting("", "folder or manifest CSV; without it a stand-in is made", metavar="FOLDER_OR_MANIFEST")
    methods: tuple[str, ...] = setting((), "which methods to run, comma-separated", metavar="A,B")
    seeds: tuple[int, ...] = setting((0, 1, 2), "seeds, comma-separated", metavar="0,1,2", least=0)
    weights: str = setting("random", "imagenet, random or a file", metavar="imagenet|random|FILE")
    engine: str = setting(
        "in-process",
        f"where rounds run: {', '.join(engine.NAMES)}, or the sites' HOST:PORT,HOST:PORT",
        metavar="ENGINE",
    )
    cert: str = setting("", "sites: the coordinator's certificate", metavar="FILE")
    key: str = setting("", "sites: its key", metavar="FILE")
    ca: str = setting("", "sites: the authority of the sites' certificates", metavar="FILE")
    results: str = setting("results", "folder for tables and runs", metavar="FOLDER")
    min_clients: int = setting(1, "a round with fewer good updates is played once more, then the run stops", least=1)
    tensorboard: bool = setting(False, "write TensorBoard logs into the run folders")


@dataclasses.dataclass(frozen=True)
class App:
    """One application: its settings classes, its profiles, and the function that does the work."""

    name: str
    description: str
    settings: tuple[type, ...]  # dataclasses whose fields become flags, beside those of Common
    profiles: dict[str, dict[str, Any]]
    methods: tuple[str, ...]
    work: Callable[[dict[str, Any]], None]
    default_profile: str = "demo"
    narrowed: tuple[tuple[str, str], ...] = ()  # settings that tell runs apart, and the lists of values they are from
    not_across_sites: dict[str, str] | None = None  # methods that cannot, and why; None: the application cannot at all
    server_has_data: bool = False  # across sites --data is then the server's own

    def folder(self, values: dict[str, Any]) -> pathlib.Path:
        """Where its tables and runs are."""
        return pathlib.Path(values["results"]) / self.name

    def fields(self) -> dict[str, tuple[dataclasses.Field, type]]:
        found: dict[str, tuple[dataclasses.Field, type]] = {}
        for owner in (Common, *self.settings):
            for field in dataclasses.fields(owner):
                if not field.metadata.get("flag", True):
                    continue
                earlier = found.setdefault(field.name, (field, owner))[0]
                if earlier.default != field.default:  # one flag cannot mean two defaults
                    raise ValueError(
                        f"{owner.__name__}.{field.name}: another setting has this name and another default"
                    )
        return found


def main(app: App, arguments: Sequence[str] | None = None) -> int:
    """Runs an application; returns its exit status."""

    def work() -> None:
        values = parse(app, arguments)
        quiet()
        app.work(values)

    return guarded(app.name, work, "stopped by Ctrl-C; the same command goes on from the last finished round")


def guarded(name: str, work: Callable[[], None], interrupted: str = "stopped by Ctrl-C") -> int:
    """Does the work of a command; what a user can do something about becomes one line and an exit status."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        work()
    except UserError as error:
        return _say(name, f"error: {error}", 2)
    except RunStopped as error:
        return _say(name, f"stopped: {error}", 3)
    except KeyboardInterrupt:
        return _say(name, interrupted, 130)
    except OSError as error:
        if files.is_full(error):
            return _say(name, f"stopped: {files.no_space(error.filename)}", 3)
        if error.filename is None:  # not about a file: something to look into
            raise
        return _say(name, f"error: {UserError(f'{error.filename!s:.200}: {error.strerror}')}", 2)
    return 0


def parse(app: App, arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Every setting by name, checked as far as that is possible without TensorFlow."""
    parser = _parser(app)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    stored = _stored(app, given.pop("settings", None))
    stored_profile = stored.pop("profile", app.default_profile)
    known = [*app.profiles]  # a list: what a file holds need not be hashable
    profile = given.pop("profile", None) or (stored_profile if stored_profile in known else app.default_profile)
    fields = app.fields()
    values: dict[str, Any] = {name: field.default for name, (field, _) in fields.items()}
    values.update(app.profiles[profile])
    values.update(stored)
    values["fresh"] = given.pop("fresh", False)
    values.update(given)
    values["profile"] = profile
    for name, (field, _) in fields.items():
        values[name] = check(field, values[name])
    _check_engine(app, values, given)
    values["methods"] = values["methods"] or tuple(name for name in app.methods if name not in _refused(app, values))
    unknown = [name for name in values["methods"] if name not in app.methods]
    if unknown:
        raise UserError(f"--methods {unknown[0]}: unknown; choose from {', '.join(app.methods)}")
    for name in values["methods"]:
        if name in _refused(app, values):
            raise UserError(f"--methods {name}: cannot run across sites: {_refused(app, values)[name]}; leave it out")
    return values


def certificates(values: dict[str, Any]) -> Certificates | None:
    """What the coordinator shows to sites, if there are any."""
    return Certificates(values["cert"], values["key"], values["ca"]) if engine.addresses(values["engine"]) else None


def _check_engine(app: App, values: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuses what does not go together with the engine; what came from a stored run only is left out instead."""
    name = values["engine"]
    engine.check_name(name, certificates(values))
    unused: tuple[str, ...]
    if not engine.addresses(name):
        unused, why = ("cert", "key", "ca"), f"only sites ask for it, and --engine {name} has none"
    elif app.not_across_sites is None:
        raise UserError(f"--engine {name}: tffapps.{app.name} cannot run across sites; use {' or '.join(engine.NAMES)}")
    elif app.server_has_data:
        unused, why = (), ""
        if not values["data"] or ("engine" in given and "data" not in given):  # what a stored run had was everybody's
            raise UserError(f"--data: give the server's own images; with --engine {name} the sites have the others'")
    else:
        unused, why = ("data",), f"with --engine {name} every site has its own, which it gave to `site serve`"
    for flag in unused:
        if given.get(flag):
            raise UserError(f"--{flag} {values[flag]}: {why}; leave it out")
        values[flag] = ""


def _refused(app: App, values: dict[str, Any]) -> dict[str, str]:
    return (app.not_across_sites or {}) if engine.addresses(values["engine"]) else {}


def context(app_name: str, values: dict[str, Any]) -> dict[str, Any]:
    """What `settings.json` holds beside the settings: the versions, and the flags as they were resolved."""
    from importlib import metadata

    # Absolute, so that the settings can be run again from anywhere.
    named = ("data", "weights", "cert", "key", "ca")
    places = {name: str(pathlib.Path(values[name]).resolve()) for name in named if _is_path(values[name])}
    packages = ("tensorflow", "tensorflow-federated", "keras", "numpy")
    versions = {name: metadata.version(name) for name in packages}
    return {
        "app": app_name,
        "flags": {name: value for name, value in {**values, **places}.items() if name != "fresh"},
        "versions": {"python": platform.python_version(), **versions},
    }


def open_run(app: App, values: dict[str, Any], name: str, settings: dict[str, Any], fresh: bool | None = None) -> Run:
    """A run of this command, with what is written down beside it; `fresh` takes the flag's place."""
    from tffapps.runs import Run

    fresh = values["fresh"] if fresh is None else fresh
    return Run(app.folder(values), name, settings, context(app.name, values), fresh)


def _stored(app: App, file: pathlib.Path | None) -> dict[str, Any]:
    """The flags in a run's settings.json, narrowed to its method, its seed and what else the application names."""
    if file is None:
        return {}
    try:
        content = json.loads(file.read_text())
        flags, name = dict(content["flags"]), content["app"]
        method, seed = content["settings"]["method"], content["settings"]["seed"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"--settings {file}: not a settings.json of a run ({error})") from None
    if name != app.name:
        raise UserError(f"--settings {file}: made by tffapps.{name}, not tffapps.{app.name}")
    flags = {key: tuple(value) if isinstance(value, list) else value for key, value in flags.items()}
    # Beside the first run, which would only say that it is finished.
    flags.update(methods=(method,), seeds=(seed,), results=f"{flags.get('results', 'results')}-again")
    for one, many in app.narrowed:
        if one in content["settings"]:
            flags[many] = (content["settings"][one],)
    known = {*app.fields(), "profile"}
    return {key: value for key, value in flags.items() if key in known}


def _is_path(value: str) -> bool:
    return value != "" and pathlib.Path(value).exists()


def _parser(app: App) -> Parser:
    parser = Parser(prog=f"python -m tffapps.{app.name}", description=app.description, allow_abbrev=False)
    profiles = ", ".join(app.profiles)
    parser.add_argument("--profile", choices=list(app.profiles), help=f"{profiles} (default {app.default_profile})")
    parser.add_argument(
        "--settings", type=pathlib.Path, metavar="FILE", help="run a stored settings.json again, into <results>-again"
    )
    parser.add_argument("--fresh", action="store_true", help="start over instead of going on")
    groups: dict[type, Any] = {}
    for field, owner in app.fields().values():
        group = groups.setdefault(owner, parser.add_argument_group(_title(owner)))
        _add(group, field, app)
    return parser


def _title(owner: type) -> str:
    return "common" if owner is Common else f"settings of {owner.__name__}"


def _add(group: Any, field: dataclasses.Field, app: App) -> None:
    flag = "--" + field.name.replace("_", "-")
    meaning = field.metadata.get("help", "").replace("%", "%%")
    options: dict[str, Any] = {"default": None, "help": f"{meaning} ({_defaults(field, app)})"}
    if isinstance(field.default, bool):
        options["action"] = argparse.BooleanOptionalAction
    else:
        options["type"] = _reader(field)
        if not isinstance(field.default, tuple):  # of a list argparse would look for the whole; `check` does each
            options["choices"] = field.metadata.get("choices")
        options["metavar"] = field.metadata.get("metavar")
    group.add_argument(flag, **options)


def _defaults(field: dataclasses.Field, app: App) -> str:
    """What holds if the flag is not given: it may depend on the profile."""
    values = {profile: _shown(known.get(field.name, field.default)) for profile, known in app.profiles.items()}
    if len(set(values.values())) == 1:
        return f"default {next(iter(values.values()))}"
    return ", ".join(f"{profile} {value}" for profile, value in values.items()).replace("%", "%%")


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "all"
    return str(value) if value != "" else "none"


def _reader(field: dataclasses.Field) -> Callable[[str], Any]:
    if isinstance(field.default, tuple):
        item = item_kind(field)

        def values(text: str) -> tuple:
            return tuple(item(part.strip()) for part in text.split(",") if part.strip())

        values.__name__ = f"list of {item.__name__}"
        return values
    return type(field.default)


def quiet() -> None:
    """TensorFlow and its parts write pages to stderr that tell a user nothing."""
    import logging
    import os
    import warnings

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    warnings.filterwarnings("ignore")
    logging.getLogger("tensorflow").setLevel(logging.CRITICAL)
    logging.getLogger("absl").setLevel(logging.CRITICAL)


def _say(name: str, message: str, status: int) -> int:
    print(f"tffapps.{name}: {message}", file=sys.stderr)
    return status


def _terminate(number: int, frame: types.FrameType | None) -> typing.NoReturn:
    # As an exception, so that every `with` on the way out does its work (the worker, locks, half-written files).
    raise SystemExit(128 + number)
