"""What stands at a site's gate, put together: policy, log, count of rounds, what clients keep, the guards."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tffapps.site import log as logs
from tffapps.site.gate import Gate
from tffapps.site.keeper import Keeper
from tffapps.site.permits import Permits
from tffapps.site.policy import Policy
from tffapps.site.relay import Guard
from tffapps.site.state_store import StateStore
from tffapps.site.state_store import folder_of as state_folder


class Gatehouse(contextlib.AbstractContextManager["Gatehouse"]):
    """Of the site that publishes this `description` and whose worker works in `folder`; closed at its end."""

    def __init__(
        self,
        policy: Policy,
        folder: Path,
        description: Mapping[str, Any],
        *,
        log: Path | None = None,
        states: Path | None = None,
    ) -> None:
        """`log` and `states` are folders: of the log, and of what clients keep, if they are not the usual ones."""
        place = log or logs.folder_of(description["name"])
        images = sum(count for split in description["images"].values() for count in split.values())
        self.log = logs.Log(place)
        self.permits = Permits(policy, logs.read(place), lambda: self.log.head)
        store = StateStore(states or state_folder(description["name"]), policy.states, policy.state_days)
        self.keeper = Keeper(store, willing=not policy.hides_updates)
        gate = Gate(policy, folder, images, len(description["classes"]), self.permits.compute)
        self.guards: list[Guard] = [self.keeper, gate]  # in this order, and the keeper's `taker` behind all others
        rules = hashlib.sha256(repr(policy).encode()).hexdigest()[:16]
        self.log.served(what=f"{images} images, policy {rules}")

    @property
    def methods(self) -> dict[str, Callable[[str, bytes], bytes]]:
        """What the site answers itself, by name."""
        return {**self.permits.methods, **self.keeper.methods}

    def __exit__(self, *_: object) -> None:
        self.log.close()
