"""One run of one method: its folder, its record, its checkpoints.

    results/<app>/runs/<name>-<key>/
        settings.json     everything needed to run it again
        rounds.csv        one row a round
        clients.csv       one row a round and client: its report
        checkpoint-R.npz  the state after round R; the last two are kept
        kept-R-C.npz      what client C keeps for itself after round R, where the method has clients keep anything;
                          kept as long as a checkpoint may need it. Instead of a client, "best": the best weights
        predictions.csv   one row an image, of the models that the run ends with (`evaluation.stored`)
        ledger.jsonl      what was released under differential privacy (`tffapps.privacy`); it outlives --fresh
        finished.json     there when the run is complete; of the checkpoints only the last is left then
        bundle/           the trained model for use elsewhere (`tffapps.use`), of a run that trains one

A row, and what clients keep, is written before the checkpoint of its round. On reopening, the newest checkpoint that
is readable with all that belongs to it says where to go on, and what is later is dropped, so a run that was killed ends
like one that was not.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from preprocessing.npz import DAMAGE
from tffapps.errors import UserError
from tffapps.files import replacing
from tffapps.privacy.ledger import Ledger

KEPT_CHECKPOINTS = 2
RECORDS = ("settings.json", "rounds.csv", "clients.csv", "predictions.csv")  # have checksums in finished.json
FILES, CHECKSUM = "_files", "_sha256"  # in finished.json
LEDGER = "ledger.jsonl"
BEST = "best"  # in place of a client: the weights of the round that validation chose


def key_of(key: dict[str, Any]) -> str:
    """Eight characters that change with any part of a key."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:8]


_DASHES = str.maketrans(" /:", "---")


def name_of(*parts: str) -> str:
    """The readable part of a folder's name; empty parts are left out."""
    return "-".join(part for part in parts if part).translate(_DASHES)


class Run:
    """`key` decides which run it is; what is `about` it (labels, flags, versions) is only written down beside it."""

    # Client → (round, file): a thousand clients that ask for theirs must not each look through the folder.
    _kept_index: dict[str, list[tuple[int, pathlib.Path]]] | None = None

    def __init__(
        self,
        root: pathlib.Path,
        name: str,
        key: dict[str, Any],
        about: dict[str, Any] | None = None,
        fresh: bool = False,
    ) -> None:
        self.name = name
        self.folder = root / "runs" / f"{name}-{key_of(key)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.folder / ".lock", "w")  # noqa: SIM115  held as long as the run is open
        except OSError as error:
            raise UserError(f"--results: cannot write to {self.folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise UserError(f"another process is working on {self.folder}; wait for it or end it") from error
        self._tidy(everything=fresh)
        if not (self.folder / "settings.json").exists():
            self._write_json("settings.json", {**(about or {}), "key": key})

    @classmethod
    def finished_in(cls, folder: pathlib.Path) -> Run:
        """A finished run, to be read: nobody writes to it any more, and it is not locked."""
        run = cls.__new__(cls)
        run.folder = folder
        return run

    def _tidy(self, everything: bool) -> None:
        """Removes what a killed process left half-written; with `everything`, the whole run but for its lock and its
        ledger: what was released once stays released.
        """
        for path in list(self.folder.iterdir()):
            if path.suffix == ".tmp" or (everything and path.name not in (".lock", LEDGER)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    @property
    def finished(self) -> bool:
        return (self.folder / "finished.json").exists()

    def finish(self, summary: dict[str, Any]) -> None:
        """Marks the run as complete. The checksums of its records go with it: a table is not made of damaged ones."""
        files = {name: _checksum(self.folder / name) for name in RECORDS if (self.folder / name).exists()}
        self._write_json("finished.json", {**summary, FILES: files, CHECKSUM: _checksum_of(summary, files)})
        self._thin(1)

    def note_logs(self, heads: dict[str, str]) -> None:
        """Where the sites' logs ended when the run did: `tffapps site log` compares a log with it."""
        if heads:
            self._write_json("site_logs.json", heads)

    def summary(self) -> dict[str, Any]:
        path, content = self.folder / "finished.json", self._object("finished.json")
        self._verify(path, content)
        return {name: value for name, value in content.items() if name not in (FILES, CHECKSUM)}

    def settings(self) -> dict[str, Any]:
        """Its key, and what is written down beside it."""
        return self._object("settings.json")

    def _object(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise _damaged(path)
        return content

    def _verify(self, path: pathlib.Path, content: dict[str, Any]) -> None:
        """A UserError names the first record that is not as it was when the run ended."""
        files = content.get(FILES)
        summary = {name: value for name, value in content.items() if name not in (FILES, CHECKSUM)}
        if not isinstance(files, dict) or content.get(CHECKSUM) != _checksum_of(summary, files):
            raise _damaged(path)
        for name, checksum in files.items():
            if name in RECORDS and _checksum(self.folder / name) != checksum:
                raise _damaged(self.folder / name)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / LEDGER)

    def rounds(self) -> pd.DataFrame:
        return self._table("rounds.csv")

    def clients(self) -> pd.DataFrame:
        return self._table("clients.csv")

    def add_round(self, row: dict[str, Any], clients: Sequence[dict[str, Any]] = ()) -> None:
        """Adds a round's row, and a row for each client; what is there of this or a later round is replaced."""
        number = row["round"]
        self._add("clients.csv", number, [{"round": number, **client} for client in clients])
        self._add("rounds.csv", number, [row])

    def _add(self, name: str, number: int, rows: list[dict[str, Any]]) -> None:
        earlier = self._table(name)
        if len(earlier):
            earlier = earlier[earlier["round"] < number]
        tables = [table for table in (earlier, pd.DataFrame(rows)) if len(table)]
        if tables:
            with replacing(self.folder / name) as file:
                pd.concat(tables, ignore_index=True).to_csv(file, index=False)

    def _table(self, name: str) -> pd.DataFrame:
        path = self.folder / name
        if not path.exists():
            return pd.DataFrame()
        try:
            # Exactly: the file is written again with every round, and a digit lost each time would show.
            table = pd.read_csv(path, float_precision="round_trip")
        except (OSError, ValueError):  # pandas' own are ValueErrors
            raise _damaged(path) from None
        if "round" not in table or (len(table) and table["round"].dtype != np.int64):
            raise _damaged(path)
        return table

    def save(self, number: int, arrays: list[np.ndarray]) -> None:
        self._write_arrays(f"checkpoint-{number}.npz", arrays)
        self._thin(KEPT_CHECKPOINTS)

    def keep(self, number: int, client: int | str, arrays: Sequence[np.ndarray]) -> None:
        """Writes what a client (or something else with a name) keeps after a round, before `save`."""
        self._write_arrays(f"kept-{number}-{client}.npz", arrays)
        self._kept_index = None

    def kept(self, client: int | str) -> list[np.ndarray] | None:
        """What a client kept last; None if it has never taken part. After a kill, `latest` has to be called first."""
        paths = self._kept_files().get(str(client))
        if not paths:
            return None
        arrays = _read(paths[-1][1])
        if arrays is None:
            raise UserError(f"{paths[-1][1]} cannot be read; remove the file and its checkpoint, or use --fresh")
        return arrays

    def has_kept(self, client: int | str) -> bool:
        """Whether it has kept anything so far."""
        return str(client) in self._kept_files()

    def all_kept(self) -> list[list[np.ndarray]]:
        """What each client kept last, as far as it can be read."""
        found = [_read(files[-1][1]) for client, files in self._kept_files().items() if client != BEST]
        return [arrays for arrays in found if arrays is not None]

    def _kept_files(self, until: int | None = None) -> dict[str, list[tuple[int, pathlib.Path]]]:
        """Client → (round, file), in order, up to a round."""
        if self._kept_index is None:
            files: dict[str, list[tuple[int, pathlib.Path]]] = {}
            for path in self.folder.glob("kept-*.npz"):
                _, number, client = path.stem.split("-", 2)
                files.setdefault(client, []).append((int(number), path))
            self._kept_index = {client: sorted(found) for client, found in files.items()}
        if until is None:
            return self._kept_index
        upto = {client: [file for file in files if file[0] <= until] for client, files in self._kept_index.items()}
        return {client: files for client, files in upto.items() if files}

    def _remove_kept(self, path: pathlib.Path) -> None:
        path.unlink()
        self._kept_index = None

    def _thin(self, kept: int) -> None:
        checkpoints = self._checkpoints()
        for _, path in checkpoints[:-kept]:
            path.unlink()
        if checkpoints:
            oldest = checkpoints[-kept:][0][0]
            for files in self._kept_files(oldest).values():
                for _, path in files[:-1]:  # the last of them is what the client has at that checkpoint
                    self._remove_kept(path)

    def latest(self) -> tuple[int, list[np.ndarray]] | None:
        """The newest checkpoint that can be read, and its round; what came after it is dropped from the record."""
        for number, path in reversed(self._checkpoints()):
            arrays = _read(path)
            if arrays is not None and all(
                _read(files[-1][1]) is not None for files in self._kept_files(number).values()
            ):
                self._drop_after(number)
                return number, arrays
            path.unlink()
        self._drop_kept_after(0)
        return None

    def _drop_kept_after(self, number: int) -> None:
        for files in self._kept_files().values():
            for round_, path in files:
                if round_ > number:
                    self._remove_kept(path)

    def _drop_after(self, number: int) -> None:
        self._drop_kept_after(number)
        for name in ("rounds.csv", "clients.csv"):
            table = self._table(name)
            if len(table) and (table["round"] > number).any():
                with replacing(self.folder / name) as file:
                    table[table["round"] <= number].to_csv(file, index=False)

    def _checkpoints(self) -> list[tuple[int, pathlib.Path]]:
        paths = self.folder.glob("checkpoint-*.npz")
        return sorted((int(path.stem.rpartition("-")[2]), path) for path in paths)

    def _write_arrays(self, name: str, arrays: Sequence[np.ndarray]) -> None:
        with replacing(self.folder / name, "wb") as file:
            np.savez(file, **{f"a{index}": array for index, array in enumerate(arrays)})

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        with replacing(self.folder / name) as file:
            json.dump(content, file, indent=1, sort_keys=True, default=str)


def _checksum(path: pathlib.Path) -> str:
    """ "": it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _checksum_of(summary: dict[str, Any], files: dict[str, str]) -> str:
    text = json.dumps([summary, files], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _damaged(path: pathlib.Path) -> UserError:
    return UserError(f"{path} cannot be understood; remove its folder to run it again, or use --fresh for all")


def _read(path: pathlib.Path) -> list[np.ndarray] | None:
    try:
        with np.load(path, allow_pickle=False) as content:  # the zip's checksums are verified on reading
            return [content[f"a{index}"] for index in range(len(content.files))]
    except DAMAGE:
        return None
