"""Pretrained weights are looked for before a command's work begins: a missing file is not found out after an hour.

    profile demo, weights not given    they cannot be had: profile small, whose network starts from random weights
    profile demo, --weights random     and no network given: profile small as well
    else                               they cannot be had: an error that names the files and the ways out

No TensorFlow here: it takes longer to import than the cache takes to look into.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from models.names import is_own
from tffapps.app import DEMO, SMALL, App, Common
from tffapps.errors import UserError
from tffapps.settings import Flags

IMAGENET, RANDOM = "imagenet", "random"
_NETWORK_FLAGS = {"model", "models"}
_LONGEST = 160  # characters of a reason


def ready(app: App, flags: Flags, given: Collection[str], small: Callable[[], Flags], program: str) -> Flags:
    """The flags to run with, their weights in the cache.

    Args:
      app: the application.
      flags: as the command line has them.
      given: the names of those that the user gave, by flag or --settings.
      small: the same command line under the profile small.
      program: what a line on stderr begins with.
    """
    _refuse_own(app, flags)
    reason = _for_small(app, flags, given)
    if reason:
        flags = small()
        folder = app.folder(flags)
        print(f"{program}: {reason}: profile small is run, from random weights, tables in {folder}", file=sys.stderr)
    for flag, names in app.networks(flags).items():
        if flags.as_dict()[flag] == IMAGENET:
            lacking = _lacking(flag, names)
            if lacking:
                raise UserError(_refusal(flags, flag, names, lacking))
    return flags


def _refuse_own(app: App, flags: Flags) -> None:
    for flag, names in app.networks(flags).items():
        own = [name for name in names if is_own(name)]
        if own and flags.as_dict()[flag] == IMAGENET:
            option = _option(flag)
            raise UserError(
                f"{option} {IMAGENET} (profile {flags.profile}): {own[0]} is a network of your own and has none; give "
                f"{option} {RANDOM} or {option} FILE"
            )


class Lacking(NamedTuple):
    """A network whose weights are not here and cannot be fetched."""

    name: str
    why: str
    file: str  # that the cache would have to hold; "": no source is known


def _for_small(app: App, flags: Flags, given: Collection[str]) -> str:
    """Why the profile small takes demo's place; "": it does not."""
    if flags.profile != DEMO or SMALL not in app.profiles:
        return ""
    pretrained = {flag for flag, value in app.profiles[DEMO].items() if value == IMAGENET}
    if "weights" in pretrained.intersection(given):
        with_network = _NETWORK_FLAGS.intersection(given)
        return "--weights random" if flags[Common].weights == RANDOM and not with_network else ""
    for flag, names in app.networks(flags).items():
        for lacking in _lacking(flag, names) if flag in pretrained.difference(given) else ():
            how = f"`python -m tffapps weights {lacking.name}` fetches them where there is a network"
            return f"no ImageNet weights of {lacking.name} can be had ({lacking.why}; {how})"
    return ""


def _lacking(flag: str, names: Sequence[str]) -> list[Lacking]:
    from models import weight_sources
    from models.stored import WeightsError

    lacking = []
    for name in names:
        try:
            weight_sources.imagenet_file(name)
        except weight_sources.Unavailable as error:
            lacking.append(Lacking(name, error.why[:_LONGEST], error.file))
        except WeightsError as error:  # it is here and damaged, or the disk is full
            raise UserError(f"{_option(flag)}: {error}") from error
    return lacking


def _refusal(flags: Flags, flag: str, names: Sequence[str], lacking: Sequence[Lacking]) -> str:
    from models.weight_sources import cache_folder

    option, files = _option(flag), [each.file for each in lacking if each.file]
    ways = [f"place {' and '.join(files)} in {cache_folder()}"] if files else []
    others = [name for name in names if name not in {each.name for each in lacking}]
    if others:
        ways.append(f"choose --models {','.join(others)}")
    ways.append(f"give {option} FILE or {option} {RANDOM}")
    short = " and ".join(each.name for each in lacking)
    profile = f" (profile {flags.profile})"
    return f"{option} {IMAGENET}{profile}: no weights of {short} can be had ({lacking[0].why}); {', or '.join(ways)}"


def _option(flag: str) -> str:
    return f"--{flag.replace('_', '-')}"
