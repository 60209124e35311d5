"""A finished run as it was declared: its command is gone through again, and nothing of it is trained."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

from tffapps import cli, systems
from tffapps.app import SMALL
from tffapps.engine import addresses
from tffapps.errors import UserError
from tffapps.study import Study, Trial


class _Done(Exception):
    pass


def with_trial(folder: pathlib.Path, data: str, work: Callable[[Study, Trial], None]) -> None:
    """Calls `work` with the trial of a run, and with the study that it belongs to, while its engine is open.

    Args:
      folder: the run's.
      data: where its images are now; "": where they were.
      work: is done once.
    """
    folder = folder.resolve()
    try:
        settings = json.loads((folder / "settings.json").read_text())
        name, flags = str(settings["app"]), dict(settings["flags"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{folder}: not the folder of a run; give results/<system>/runs/<name>") from None
    if not (folder / "finished.json").exists():
        raise UserError(f"{folder}: this run is not finished; run its command again")
    if addresses(str(flags.get("engine", ""))):
        raise UserError(f"{folder}: its images are at sites; audit where a copy of them is, or a bundle with --data")
    app = systems.find(name)
    root = folder.parents[3 if flags.get("profile") == SMALL else 2]
    given = ["--settings", str(folder / "settings.json"), "--results", str(root), *(["--data", data] if data else [])]
    resolved = cli.parse(app, given)

    def instead(study: Study, trial: Trial, run: str) -> None:
        if run == folder.name:
            work(study, trial)
            raise _Done
        if not (study.folder / "runs" / run / "finished.json").exists():
            raise UserError(
                f"{folder.name}: its command would train {run} now, so its images, its weights or the version are not"
                " what they were; give the images with --data"
            )

    Study.instead = instead
    try:
        app.part("trials").run(resolved)
    except _Done:
        return
    finally:
        Study.instead = None
    raise UserError(f"{folder}: its command does not play it any more; run the command again")
