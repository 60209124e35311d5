"""The stain matrices of all training patches, measured once: in stacks, so that memory does not grow with them."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from preprocessing import stain
from preprocessing.npz import DAMAGE
from preprocessing.stain import StainSettings
from tffapps.data.made import stacks
from tffapps.errors import UserError
from tffapps.files import replacing
from tffapps.progress import track
from tffapps.runs import key_of

_BATCH = 256


@dataclasses.dataclass(frozen=True)
class Stains:
    """One row for each path: matrices (n, 3, 2), whether it could be measured, and why not."""

    paths: list[str]
    matrices: np.ndarray
    ok: np.ndarray
    reasons: np.ndarray

    def rows(self, table: pd.DataFrame) -> np.ndarray:
        places = {path: row for row, path in enumerate(self.paths)}
        return np.array([places[path] for path in table.path], int)

    def of(self, table: pd.DataFrame) -> np.ndarray:
        """The matrices of those of the table's patches that could be measured."""
        rows = self.rows(table)
        return self.matrices[rows[self.ok[rows]]]

    def kinds(self, rows: np.ndarray) -> str:
        """Why patches among these rows could not be measured, and how many each."""
        found = collections.Counter(str(reason).partition(":")[0] for reason in self.reasons[rows] if reason)
        return ", ".join(f"{count} {kind}" for kind, count in found.most_common())

    def by_client(self, table: pd.DataFrame, clients: Sequence[str]) -> list[np.ndarray]:
        found = [self.of(table[table.client == client]) for client in clients]
        for client, matrices in zip(clients, found):
            if not len(matrices):
                rows = self.rows(table[table.client == client])
                raise UserError(
                    f"{client}: the stains of none of its {len(rows)} training patches can be measured "
                    f"({self.paths[rows[0]]}: {self.reasons[rows[0]]}); leave it out, or use --sides none"
                )
        return found


def measure(paths: Sequence[str], settings: StainSettings, data_key: str, cache: pathlib.Path) -> Stains:
    """Of all paths, from the cache where the same patches were measured with the same settings before."""
    paths = list(paths)
    file = cache / "stains" / f"{key_of({'data': data_key, 'rows': len(paths), **dataclasses.asdict(settings)})}.npz"
    found = _read(paths, file)
    if found is None:
        _measured(paths, settings, file)
        found = _read(paths, file)
    assert found is not None  # just written
    return found


def _read(paths: list[str], file: pathlib.Path) -> Stains | None:
    """None where there is no such file, or a damaged one."""
    try:
        with np.load(file, allow_pickle=False) as content:
            found = Stains(paths, content["matrices"], content["ok"], content["reasons"])
    except DAMAGE:
        return None
    kinds = [(array.shape, array.dtype.kind) for array in (found.matrices, found.ok, found.reasons)]
    rows = len(paths)
    return found if kinds == [((rows, 3, 2), "f"), ((rows,), "b"), ((rows,), "U")] else None


def _measured(paths: list[str], settings: StainSettings, file: pathlib.Path) -> None:
    matrices = np.tile(stain.REFERENCE, (len(paths), 1, 1))
    reasons = np.full(len(paths), "", object)
    rejects: dict[str, str] = {}
    rows = track(range(len(paths)), len(paths), "stain separation", len(paths) > _BATCH)
    for places, images in stacks(paths, rows, batch=_BATCH, rejects=rejects):
        matrices[places], _, why = stain.matrices_of(images, settings)
        reasons[places] = why
    for row, path in enumerate(paths):
        reasons[row] = rejects.get(path, reasons[row])
    with replacing(file, "wb") as out:
        np.savez(out, matrices=matrices, ok=reasons == "", reasons=reasons.astype(str))
