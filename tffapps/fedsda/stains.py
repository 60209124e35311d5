"""The stains of patches: measured once, and exchanged for others; in stacks, so that memory does not grow with them."""

import collections
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd

from preprocessing import stain
from preprocessing.npz import DAMAGE
from preprocessing.stain import StainSettings
from tffapps import UserError, cache_folder, key_of, replacing, short, write_table
from tffapps.data import made
from tffapps.progress import track

UNMEASURED = "unmeasured.csv"
_BATCH = 256


@dataclasses.dataclass(frozen=True)
class Stains:
    """One row for each path: matrices (n, 3, 2), whether it could be measured, and why not."""

    paths: list[str]
    matrices: np.ndarray
    ok: np.ndarray
    reasons: np.ndarray

    def rows(self, table: pd.DataFrame) -> np.ndarray:
        """Where the table's patches are among the paths."""
        rows = {path: row for row, path in enumerate(self.paths)}
        return np.array([rows[path] for path in table.path], int)

    def of(self, table: pd.DataFrame) -> np.ndarray:
        """The matrices of those of the table's patches that could be measured."""
        rows = self.rows(table)
        return self.matrices[rows[self.ok[rows]]]

    def kinds(self, rows: np.ndarray) -> str:
        """Why patches among these rows could not be measured, and how many each."""
        kinds = collections.Counter(str(reason).partition(":")[0] for reason in self.reasons[rows] if reason)
        return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())

    def by_client(self, table: pd.DataFrame, clients: Sequence[str]) -> list[np.ndarray]:
        """Each client's matrices; a client of which nothing could be measured is refused."""
        by_client = [self.of(table[table.client == client]) for client in clients]
        for client, matrices in zip(clients, by_client):
            if not len(matrices):
                rows = self.rows(table[table.client == client])
                raise UserError(
                    f"{client}: the stains of none of its {len(rows)} training patches can be measured "
                    f"({self.paths[rows[0]]}: {self.reasons[rows[0]]}); leave it out, or use --sides none"
                )
        return by_client

    def announce(self, folder: pathlib.Path) -> None:
        """Lists the patches whose stains could not be measured, and says so on stderr: they stay as they are."""
        bad = np.flatnonzero(~self.ok)
        unmeasured = [(short(self.paths[row]), self.reasons[row]) for row in bad]
        write_table(folder / UNMEASURED, pd.DataFrame(unmeasured, columns=["path", "reason"]))
        if len(bad):
            print(
                f"{len(bad)} of {len(self.paths)} training patches keep their stains ({self.kinds(bad)}); "
                f"listed in {folder / UNMEASURED}",
                file=sys.stderr,
            )


def measure(paths: Sequence[str], settings: StainSettings, data_key: str, cache: pathlib.Path) -> Stains:
    """Of all paths, from the cache where the same patches were measured with the same settings before."""
    key = key_of({"data": data_key, "rows": len(paths), **dataclasses.asdict(settings)})
    file = cache / "stains" / f"{key}.npz"
    return _read(list(paths), file) or _measured(list(paths), settings, file)


def aligned(paths: Sequence[str], matrices: np.ndarray, settings: StainSettings) -> list[str]:
    """The path of each patch's densities under its matrix (n, 3, 2); its own path if its stains cannot be told apart.

    Algorithm 2 of FedSDA.
    """

    align = made.Apart(functools.partial(stain.in_stains, settings=settings))
    how = {"side": "fedsda", "version": 1, **dataclasses.asdict(settings)}
    parameters = matrices.reshape(len(paths), -1).tolist()
    return made.made_paths(list(paths), parameters, align, how, cache_folder() / "aligned", "stain alignment")


def _read(paths: list[str], file: pathlib.Path) -> Stains | None:
    """None where there is no such file, or a damaged one."""
    try:
        with np.load(file, allow_pickle=False) as content:
            stains = Stains(paths, content["matrices"], content["ok"], content["reasons"])
    except DAMAGE:
        return None
    kinds = [(array.shape, array.dtype.kind) for array in (stains.matrices, stains.ok, stains.reasons)]
    rows = len(paths)
    return stains if kinds == [((rows, 3, 2), "f"), ((rows,), "b"), ((rows,), "U")] else None


def _measured(paths: list[str], settings: StainSettings, file: pathlib.Path) -> Stains:
    matrices = np.tile(stain.REFERENCE, (len(paths), 1, 1))
    reasons = np.full(len(paths), "", object)
    rejects: dict[str, str] = {}
    rows = track(range(len(paths)), len(paths), "stain separation", len(paths) > _BATCH)
    for stack, images in made.stacks(paths, rows, batch=_BATCH, rejects=rejects):
        matrices[stack], _, reasons[stack] = stain.matrices_of(images, settings)
    for row, path in enumerate(paths):
        reasons[row] = rejects.get(path, reasons[row])
    with replacing(file, "wb") as out:
        np.savez(out, matrices=matrices, ok=reasons == "", reasons=reasons.astype(str))
    return Stains(paths, matrices, reasons == "", reasons.astype(str))
