"""Finished runs of earlier commands that belong in the same tables: same data and settings, other methods or seeds."""

import json
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tffapps.app import App
from tffapps.errors import UserError
from tffapps.runs import Run, key_of
from tffapps.settings import Flags
from tffapps.study import Record, paths_of

# What two commands of one table may differ in: what is played, and where.
_FREE = {
    "methods", "seeds", "data", "engine", "cert", "key", "ca", "results", "min_clients", "tensorboard", "mlflow",
    "repeats", "only_splits", "poison", "poison_seeds",
}  # fmt: skip


def with_earlier(app: App, flags: Flags, records: Sequence[Record], images: str | Collection[str]) -> list[Record]:
    """This command's records and those of earlier commands, in the order of the system's methods.

    A run is in them once: of several with the same labels, which began with other weights of the same name, say, this
    command's, or else the one that ended last.

    Args:
      app: the system.
      flags: of this command.
      records: what it has played.
      images: the fingerprint of its data, or those of its splits.
    """
    folder = app.folder(flags)
    own = {record.folder for record in records}
    wanted, data = _compared(flags.as_dict()), {images} if isinstance(images, str) else set(images)
    begun = {_weights(_about(path)) for path in own}
    known, earlier = [dict(record.labels) for record in records], []
    for path in sorted((folder / "runs").glob("*/finished.json"), key=_ended, reverse=True):
        if path.parent not in own:
            record = _record(path.parent, data, wanted, begun)
            if record is not None and record.labels not in known:
                known.append(dict(record.labels))
                earlier.append(record)
    earlier.sort(key=lambda record: record.folder.name)
    order = {method: position for position, method in enumerate(app.methods)}
    return sorted([*records, *earlier], key=lambda record: order.get(str(record.labels.get("method")), len(order)))


def _ended(path: pathlib.Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _about(folder: pathlib.Path) -> dict[str, Any]:
    return json.loads((folder / "settings.json").read_text())


def _weights(about: Mapping[str, Any]) -> str | None:
    """The checksum of the file that a run began with; None where there was none, or where it began with another run."""
    return about["key"]["initial"].get("weights_sha256")


def _compared(values: Mapping[str, Any]) -> str:
    resolved = {**values, **paths_of(values)}
    return json.dumps(
        {name: value for name, value in resolved.items() if name not in _FREE}, sort_keys=True, default=str
    )


def _record(folder: pathlib.Path, images: set[str], wanted: str, begun: Collection[str | None]) -> Record | None:
    """Of a run that belongs; None for another one, or one that cannot be read: nobody has asked for it."""
    try:
        about = _about(folder)
        belongs = about["key"]["data"].get("images") in images and _compared(about["flags"]) == wanted
        if not belongs or _weights(about) not in {*begun, None} or not folder.name.endswith(key_of(about["key"])):
            return None
        run = Run.finished_in(folder)
        return Record(about["labels"], run.rounds(), run.clients(), run.summary(), folder, _no_weights)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UserError):
        return None


def _no_weights() -> list[np.ndarray]:
    raise UserError("weights of a run of an earlier command are not read; name its method in --methods")
