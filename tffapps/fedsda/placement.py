"""Stains are measured and patches aligned where the patches are: on this machine, or each site's at that site."""

import dataclasses
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from preprocessing.stain import StainSettings
from tffapps import Engine, Message, UserError, cache_folder, understood
from tffapps.fedsda import SIDES_OF_SITES, data, separation, stains
from tffapps.fedsda.data import ROW, Fold, PatchPool
from tffapps.fedsda.stain_source import LocalStains, SiteStains, StainSource
from tffapps.wire import jobs


class Placement(Protocol):
    """Where the patches are."""

    pool: PatchPool

    def announce(self, folder: pathlib.Path) -> None:
        """Says on stderr what a user should know of the patches, and lists in `folder` what cannot be used."""

    def sides(self, asked: Sequence[str]) -> tuple[str, ...]:
        """Those of the sides asked for that can be had."""

    def matrices(self, fold: Fold) -> list[np.ndarray] | None:
        """Each client's stain matrices (n, 3, 2), where they may be seen here."""

    def sources(self, fold: Fold) -> Sequence[StainSource]:
        """The stains of each client's training patches, to learn from."""

    def separation(self, fold: Fold) -> list[dict[str, Any]]:
        """The rows of `separation.csv`."""

    def align(self, rows: pd.DataFrame, matrices: np.ndarray) -> list[str]:
        """The path of each row's patch under its matrix (n, 3, 2)."""


class Here:
    """All patches are on this machine; the stains of those to train with are measured at once."""

    def __init__(self, pool: PatchPool, settings: StainSettings, divided: bool = False) -> None:
        """`divided`: there are other splits than the pool's own, and any patch is for training in one of them."""
        self.pool, self._settings = pool, settings
        measured = pool.table if divided else pool.part("train")
        self.measured = stains.measure(list(measured.path), settings, pool.key, cache_folder())

    def announce(self, folder: pathlib.Path) -> None:
        self.pool.announce(folder)
        self.measured.announce(folder)

    def sides(self, asked: Sequence[str]) -> tuple[str, ...]:
        return tuple(asked)

    def matrices(self, fold: Fold) -> list[np.ndarray]:
        return self.measured.by_client(fold.train, fold.clients)

    def sources(self, fold: Fold) -> list[LocalStains]:
        return [LocalStains(client, matrices) for client, matrices in zip(fold.clients, self.matrices(fold))]

    def separation(self, fold: Fold) -> list[dict[str, Any]]:
        truth = self.pool.truth
        return [
            {"client": client, **separation.row(fold.of_client(client), self.measured, self._settings, truth)}
            for client in fold.clients
        ]

    def align(self, rows: pd.DataFrame, matrices: np.ndarray) -> list[str]:
        return stains.aligned(list(rows.path), matrices, self._settings)


class AtSites:
    """Each site measures and aligns its own patches when asked; see `tffapps.fedsda.jobs`."""

    def __init__(self, engine: Engine, settings: StainSettings) -> None:
        self.pool, self._engine, self._settings = data.of_sites(engine.sites), engine, settings
        self._stains: dict[str, list[SiteStains]] = {}  # by fold

    def announce(self, folder: pathlib.Path) -> None:
        self.pool.announce(folder)

    def sides(self, asked: Sequence[str]) -> tuple[str, ...]:
        """Without what would need the sites' images here."""
        sides = tuple(side for side in asked if side in SIDES_OF_SITES)
        left_out = [side for side in asked if side not in sides]
        if not sides:
            choice = ", ".join(SIDES_OF_SITES)
            raise UserError(f"--sides {','.join(left_out)}: cannot be had across sites; choose from {choice}")
        if left_out:
            names = " and ".join(left_out)
            print(f"across sites {names} are left out, and so are measures of pictures", file=sys.stderr)
        return sides

    def matrices(self, fold: Fold) -> None:
        return None

    def sources(self, fold: Fold) -> list[SiteStains]:
        for source in self._measured(fold):
            if not source.count:
                raise UserError(
                    f"{source.client}: the stains of none of its training patches can be measured "
                    f"({source.row['not_separated']}); leave the site out, or use --sides none"
                )
        return self._measured(fold)

    def separation(self, fold: Fold) -> list[dict[str, Any]]:
        return [{"client": source.client, **source.row} for source in self._measured(fold)]

    def align(self, rows: pd.DataFrame, matrices: np.ndarray) -> list[str]:
        clients = rows.client.to_numpy()
        positions = {site: np.flatnonzero(clients == site) for site in dict.fromkeys(clients)}
        requests = {
            site: self._request("fedsda/alignment", rows.iloc[chosen], {"matrices": matrices[chosen]})
            for site, chosen in positions.items()
        }
        self._engine.ask(requests)
        paths = np.empty(len(rows), object)
        for site, chosen in positions.items():
            paths[chosen] = [jobs.made_path(requests[site].identity, number) for number in range(len(chosen))]
        return list(paths)

    def _measured(self, fold: Fold) -> list[SiteStains]:
        if fold.identity not in self._stains:
            requests = {site: self._request("fedsda/stains", fold.of_client(site)) for site in fold.clients}
            answers = self._engine.ask(requests)
            with understood("fedsda/stains"):
                measured = [SiteStains.of(self._engine, site, requests[site], answers[site]) for site in requests]
            self._stains[fold.identity] = measured
            for client, row in ((each.client, each.row) for each in measured):
                if row["not_separated"]:
                    unmeasured = f"{row['patches'] - row['separated']} of {row['patches']} training patches"
                    print(f"{client}: {unmeasured} keep their stains ({row['not_separated']})", file=sys.stderr)
        return self._stains[fold.identity]

    def _request(self, job: str, rows: pd.DataFrame, arrays: Mapping[str, np.ndarray] | None = None) -> Message:
        """About rows of one site."""
        fields = {
            jobs.JOB: job,
            "separation": dataclasses.asdict(self._settings),
            "data": self._engine.sites[rows.client.iloc[0]]["fingerprint"],
        }
        return Message(fields, {"rows": rows[ROW].to_numpy(np.int64), **(arrays or {})})
