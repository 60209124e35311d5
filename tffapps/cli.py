"""The command line of an application. No TensorFlow is imported before the flags are checked.

A value comes from, last wins: the settings' own default, the profile, `--settings FILE`, the flag.
"""

import argparse
import contextlib
import functools
import json
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from models.names import FLOAT32
from preprocessing import guard
from preprocessing.parser import Parser
from tffapps import cache_lock, engine, estimate, grids, pretrained, protection
from tffapps.app import PAPER, SMALL, App, Common
from tffapps.engine import devices
from tffapps.errors import RunStopped, UserError
from tffapps.settings import Flags, Setting, check, names_own_code

_GONE = re.compile(r"^(?:\{\{.*\}\} )?(.*); No such file or directory", re.MULTILINE)


def main(app: App, arguments: Sequence[str] | None = None) -> int:
    """Runs an application, or the command of its own that the first argument names; returns its exit status.

    Args:
      app: the application.
      arguments: what follows its name on the command line; None: the arguments of this process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in app.commands:
        return app.part(given[0]).main(given[1:])

    def work() -> None:
        parsed = _parsed(app, given)
        parsed.flags[Common].check_mlflow()
        program = called_as(app.name, app.package).removeprefix("python -m ")
        small = functools.partial(parse, app, [*given, "--profile", SMALL])
        flags = pretrained.ready(app, parsed.flags, parsed.given, small, program)
        quiet()
        if parsed.estimate:
            print(estimate.line(app, flags))
            return
        if flags.profile == PAPER and app.has("cost") and not flags[Common].across_sites:
            print(estimate.from_another_process(app, given), file=sys.stderr)
        devices.set_up(flags[Common].devices)  # before anything is computed
        with cache_lock.used(), _one_line_if_gone():
            app.part("trials").run(flags)

    interrupted = "stopped by Ctrl-C; the same command goes on from the last finished round"
    return guarded(app.name, work, interrupted, app.package)


@contextlib.contextmanager
def _one_line_if_gone() -> Iterator[None]:
    """Somebody may remove a file of the cache after a pipeline of it was made. TensorFlow says so in many lines."""
    try:
        yield
    except Exception as error:
        # By its name: an error of a run that has not loaded TensorFlow yet is none of its.
        gone = _GONE.search(str(error)) if type(error).__name__ == "NotFoundError" else None
        if gone is None:
            raise
        raise RunStopped(
            f"{gone[1]} is gone; run the same command again: what lies in the cache is made anew"
        ) from error


def guarded(name: str, work: Callable[[], int | None], interrupted: str = "stopped by Ctrl-C", module: str = "") -> int:
    """Does the work of a command, whose name its messages begin with; returns its exit status."""
    return guard.guarded(called_as(name, module).removeprefix("python -m "), work, interrupted)


def called_as(name: str, module: str = "") -> str:
    """How the user called a command, for its usage line: `tffapps plfl` or `python -m tffapps.plfl`.

    Args:
      name: the command.
      module: what Python is given to run it; "": the module of that name in this package.
    """
    program = pathlib.Path(sys.argv[0])
    if program.name == "tffapps":
        return f"tffapps {name}"
    if program.parts[-2:] == ("tffapps", "__main__.py"):
        return f"python -m tffapps {name}"
    return f"python -m {module or f'tffapps.{name}'}"


class Parsed(NamedTuple):
    """A command line."""

    flags: Flags
    given: frozenset[str]  # the names of the settings that it or --settings gave
    estimate: bool  # nothing is to be run


def parse(app: App, arguments: Sequence[str] | None = None) -> Flags:
    """Every setting, checked as far as that is possible without TensorFlow and without looking for anything."""
    return _parsed(app, arguments).flags


def _parsed(app: App, arguments: Sequence[str] | None) -> Parsed:
    given = {name: value for name, value in vars(_parser(app).parse_args(arguments)).items() if value is not None}
    stored = _stored(app, given.pop("settings", None))
    stored_profile = stored.pop("profile", app.default_profile)
    known = [*app.profiles]  # a list: what a file holds need not be hashable
    profile = given.pop("profile", None) or (stored_profile if stored_profile in known else app.default_profile)
    fresh, estimated = given.pop("fresh", False), given.pop("estimate", False)
    settings = app.flags()
    values: dict[str, Any] = {name: each.default for name, each in settings.items()}
    values |= app.profiles[profile] | stored | given
    _refuse_code(settings, {name: value for name, value in stored.items() if name not in given})
    flags = Flags({name: check(each, values[name]) for name, each in settings.items()}, profile, fresh)
    flags = _with_methods(app, _for_engine(app, flags, given))
    flags = _with_splits(app, _with_rules(app, flags), "seeds" in given or "seeds" in stored)
    protection.check(app, flags)
    return Parsed(flags, frozenset((*stored, *given)), estimated)


def _for_engine(app: App, flags: Flags, given: dict[str, Any]) -> Flags:
    """Refuses what does not go together with the engine; what came from a stored run only is left out instead."""
    common = flags[Common]
    name = common.engine
    engine.check_name(name, common.certificates())
    if name != "in-process" and "devices" not in given:
        flags = flags.replaced(devices=devices.ONE)
    engine.check_devices(name, flags[Common].devices)
    if not common.across_sites:
        unused: tuple[str, ...] = ("cert", "key", "ca", "revoked")
        why = f"only sites ask for it, and --engine {name} has none"
    elif app.not_across_sites is None:
        raise UserError(f"--engine {name}: tffapps.{app.name} cannot run across sites; use {' or '.join(engine.NAMES)}")
    elif app.server_has_data:
        unused, why = (), ""
        if not common.data or ("engine" in given and "data" not in given):  # what a stored run had was everybody's
            raise UserError(f"--data: give the server's own images; with --engine {name} the sites have the others'")
    else:
        unused, why = ("data",), f"with --engine {name} every site has its own, which it gave to `site serve`"
    for flag in unused:
        if given.get(flag):
            raise UserError(f"--{flag} {given[flag]}: {why}; leave it out")
    return flags.replaced(**dict.fromkeys(unused, ""))


def _with_methods(app: App, flags: Flags) -> Flags:
    """The methods that are asked for, or all that the engine allows and that do not wait to be asked for."""
    common = flags[Common]
    refused = (app.not_across_sites or {}) if common.across_sites else {}
    methods = common.methods or tuple(name for name in app.methods if name not in {*refused, *app.on_request})
    for name in [part for method in methods for part in (method.split("+") if app.composes else [method])]:
        if name not in app.methods:
            raise UserError(f"--methods {name}: unknown; choose from {', '.join(app.methods)}")
        if name in refused:
            raise UserError(f"--methods {name}: cannot run across sites: {refused[name]}; leave it out")
    return flags.replaced(methods=methods)


def _with_splits(app: App, flags: Flags, seeds_given: bool) -> Flags:
    """Refuses what cannot be divided; with several splits one seed is enough, unless more are asked for."""
    common = flags[Common]
    for name, needs in (("repeats", common.repeats > 1), ("only_splits", bool(common.only_splits))):
        if needs and not common.splits:
            raise UserError(f"--{name.replace('_', '-')}: there is one split, the data's own; give --splits 2 or more")
    if not common.splits:
        return flags
    if common.splits == 1:
        raise UserError("--splits 1: a cross-validation has 2 folds or more; 0: as the data says")
    if not app.divides:
        instead = "use --folds" if "folds" in app.flags() else "leave it out"
        raise UserError(f"--splits {common.splits}: tffapps.{app.name} divides its images in its own way; {instead}")
    if common.across_sites:
        raise UserError(
            f"--splits {common.splits}: whose images are whose is known at the sites alone; leave it out, and give the"
            " sites other splits in their manifests"
        )
    return flags if seeds_given else flags.replaced(seeds=common.seeds[:1])


def _with_rules(app: App, flags: Flags) -> Flags:
    """How a round is chosen, by the system's own rule if none is asked for, and whether anything can be tuned."""
    common = flags[Common]
    select = app.selects[0] if common.select == "auto" else common.select
    if select not in app.selects:
        raise UserError(f"--select {select}: tffapps.{app.name} has {', '.join(app.selects)}; choose one of these")
    if common.tune:
        if not app.tunes:
            raise UserError(f"--tune: tffapps.{app.name} cannot; give the settings as flags")
        if common.across_sites:
            raise UserError("--tune: not across sites; tune where the images of one of them are, then give flags")
        grids.parse(common.tune, app)
    if common.precision != FLOAT32 and not app.mixes:
        raise UserError(f"--precision {common.precision}: tffapps.{app.name} computes in {FLOAT32} only; leave it out")
    return flags.replaced(select=select)


def _stored(app: App, file: pathlib.Path | None) -> dict[str, Any]:
    """The flags in a run's settings.json, narrowed to its method, its seed and what else the application names."""
    if file is None:
        return {}
    try:
        content = json.loads(file.read_text())
        flags, name, labels = dict(content["flags"]), content["app"], dict(content["labels"])
        method, seed = labels["method"], labels["seed"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"--settings {file}: not a settings.json of a run ({error})") from None
    if name != app.name:
        raise UserError(f"--settings {file}: made by tffapps.{name}, not tffapps.{app.name}")
    flags = {key: tuple(value) if isinstance(value, list) else value for key, value in flags.items()}
    # Beside the first run, which would only say that it is finished.
    flags.update(methods=(method,), seeds=(seed,), results=f"{flags.get('results', 'results')}-again")
    divided = (("split", "only_splits"),) if app.divides else ()
    for label, flag in (*divided, *app.narrowed):
        if labels.get(label):
            flags[flag] = (labels[label],)
    known = {*app.flags(), "profile"}
    return {key: value for key, value in flags.items() if key in known}


def _refuse_code(settings: Mapping[str, Setting], stored: Mapping[str, Any]) -> None:
    """What a file names is never run: who wants it says so on the command line."""
    for name, value in stored.items():
        for each in value if isinstance(value, tuple) else (value,):
            if name in settings and names_own_code(settings[name], each):
                flag = settings[name].flag
                raise UserError(f"--settings: it names {each}, code of your own; to run it give {flag} {each} as well")


def _parser(app: App) -> Parser:
    parser = Parser(prog=called_as(app.name, app.package), description=app.description, allow_abbrev=False)
    profiles = ", ".join(app.profiles)
    parser.add_argument("--profile", choices=list(app.profiles), help=f"{profiles} (default {app.default_profile})")
    parser.add_argument(
        "--settings", type=pathlib.Path, metavar="FILE", help="run a stored settings.json again, into <results>-again"
    )
    parser.add_argument("--fresh", action="store_true", help="start over instead of going on")
    parser.add_argument("--estimate", action="store_true", help="say how long it would take here, and end")
    groups: dict[type, Any] = {}
    for each in app.flags().values():
        title = "common" if each.owner is Common else f"settings of {each.owner.__name__}"
        if each.owner not in groups:
            groups[each.owner] = parser.add_argument_group(title)
        _add(groups[each.owner], each, app)
    return parser


def _add(group: Any, setting: Setting, app: App) -> None:
    meaning = setting.limits.get("help", "").replace("%", "%%")
    options: dict[str, Any] = {"default": None, "help": f"{meaning} ({_defaults(setting, app)})"}
    if setting.kind is bool:
        options["action"] = argparse.BooleanOptionalAction
    else:
        options["type"] = _reader(setting)
        if not setting.several and not setting.limits.get("own"):  # else `check` does each
            options["choices"] = setting.limits.get("choices")
        options["metavar"] = setting.limits.get("metavar")
        if setting.limits.get("repeated"):
            options["action"] = _Joined
    group.add_argument(setting.flag, **options)
    if setting.limits.get("alias"):
        hidden = {**options, "help": argparse.SUPPRESS, "dest": setting.name}
        if setting.limits.get("alias_values"):
            hidden["type"] = lambda text: setting.limits["alias_values"].get(text, text)
        group.add_argument("--" + setting.limits["alias"].replace("_", "-"), **hidden)


class _Joined(argparse.Action):
    """A flag that may be given several times: its values become one text."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        earlier = getattr(namespace, self.dest)
        setattr(namespace, self.dest, f"{earlier};{values}" if earlier else values)


def _defaults(setting: Setting, app: App) -> str:
    """What holds if the flag is not given: it may depend on the profile."""
    values = {profile: _shown(known.get(setting.name, setting.default)) for profile, known in app.profiles.items()}
    if len(set(values.values())) == 1:
        return f"default {next(iter(values.values()))}"
    return ", ".join(f"{profile} {value}" for profile, value in values.items()).replace("%", "%%")


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "all"
    return str(value) if value != "" else "none"


def _reader(setting: Setting) -> Callable[[str], Any]:
    if not setting.several:
        return setting.kind

    def values(text: str) -> tuple:
        return tuple(setting.kind(part.strip()) for part in text.split(",") if part.strip())

    values.__name__ = f"list of {setting.kind.__name__}"
    return values


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
