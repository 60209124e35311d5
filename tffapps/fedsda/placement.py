"""Stains are measured and patches aligned where the patches are: on this machine, or each site's at that site."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd

from preprocessing.stain import StainSettings
from tffapps.engine import Engine
from tffapps.errors import UserError
from tffapps.fedsda import aligning, separation
from tffapps.fedsda.data import CACHE, PLACE, Fold
from tffapps.fedsda.stain_source import AtItsSite, Held, StainSource
from tffapps.fedsda.stains import Stains
from tffapps.wire import jobs
from tffapps.wire.messages import Message, understood


class Place(Protocol):
    def sources(self, fold: Fold) -> list[StainSource]:
        """The stains of each client's training patches."""

    def separation(self, fold: Fold) -> list[dict[str, Any]]:
        """The rows of `separation.csv`."""

    def align(self, rows: pd.DataFrame, matrices: np.ndarray) -> tuple[list[str], int]:
        """The path of each row's patch under its matrix (n, 3, 2), and how many patches are as they were."""


class OneMachine:
    """With everybody's patches, whose stains are measured."""

    def __init__(self, measured: Stains, settings: StainSettings, truth: pd.DataFrame | None = None) -> None:
        self._measured, self._settings, self._truth = measured, settings, truth

    def sources(self, fold: Fold) -> list[StainSource]:
        return [Held(matrices) for matrices in self._measured.by_client(fold.train, fold.clients)]

    def separation(self, fold: Fold) -> list[dict[str, Any]]:
        tables = {client: fold.train[fold.train.client == client] for client in fold.clients}
        return [
            {"client": client, **separation.row(table, self._measured, self._settings, self._truth)}
            for client, table in tables.items()
        ]

    def align(self, rows: pd.DataFrame, matrices: np.ndarray) -> tuple[list[str], int]:
        paths = aligning.aligned(list(rows.source), matrices, self._settings, CACHE)
        return paths, sum(path == source for path, source in zip(paths, rows.source))


class AtSites:
    """Each site measures and aligns its own patches when asked; see `tffapps.fedsda.jobs`."""

    def __init__(self, engine: Engine, settings: StainSettings) -> None:
        self._engine, self._settings = engine, settings
        self._sources: dict[str, list[AtItsSite]] = {}

    def sources(self, fold: Fold) -> list[StainSource]:
        found = self._measured(fold)
        for source in found:
            if not source.count:
                raise UserError(
                    f"{source.site}: the stains of none of its training patches can be measured "
                    f"({source.row['not_separated']}); "
                    "leave the site out, or use --sides none"
                )
        return list(found)

    def separation(self, fold: Fold) -> list[dict[str, Any]]:
        return [{"client": source.site, **source.row} for source in self._measured(fold)]

    def align(self, rows: pd.DataFrame, matrices: np.ndarray) -> tuple[list[str], int]:
        clients = rows.client.to_numpy()
        places = {site: np.flatnonzero(clients == site) for site in dict.fromkeys(clients)}
        requests = {
            site: self._request("alignment", site, rows.iloc[own], {"matrices": matrices[own]})
            for site, own in places.items()
        }
        answers = self._engine.ask(requests)
        paths = np.empty(len(rows), object)
        for site, own in places.items():
            paths[own] = [jobs.made_path(requests[site].identity, number) for number in range(len(own))]
        with understood("alignment"):
            return list(paths), sum(int(answer.fields["kept"]) for answer in answers.values())

    def _measured(self, fold: Fold) -> list[AtItsSite]:
        if fold.name not in self._sources:
            requests = {
                site: self._request("stains", site, fold.train[fold.train.client == site]) for site in fold.clients
            }
            answers = self._engine.ask(requests)
            with understood("stains"):
                found = [AtItsSite.of(self._engine, site, requests[site], answers[site]) for site in fold.clients]
            self._sources[fold.name] = found
            for source in found:
                row = source.row
                if row["not_separated"]:
                    print(
                        f"{source.site}: {row['patches'] - row['separated']} of {row['patches']} training patches keep "
                        f"their stains ({row['not_separated']})",
                        file=sys.stderr,
                    )
        return self._sources[fold.name]

    def _request(
        self, job: str, site: str, rows: pd.DataFrame, arrays: Mapping[str, np.ndarray] | None = None
    ) -> Message:
        words = {
            jobs.JOB: job,
            "separation": dataclasses.asdict(self._settings),
            "data": self._engine.sites[site]["fingerprint"],
        }
        return Message(words, {"rows": rows[PLACE].to_numpy(np.int64), **(arrays or {})})
