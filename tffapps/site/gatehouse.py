"""What stands at a site's gate: the policy, the log, the count of rounds, and the guards, put together."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tffapps.site import log as logs
from tffapps.site.gate import Gate
from tffapps.site.permits import Permits
from tffapps.site.policy import Policy
from tffapps.site.relay import Guard


class Gatehouse(contextlib.AbstractContextManager["Gatehouse"]):
    """Of the site that publishes this `description` and whose worker works in `folder`; closed at its end."""

    def __init__(
        self, policy: Policy, folder: Path, description: Mapping[str, Any], *, log: Path | None = None
    ) -> None:
        """`log` is the log's folder, if it is not the usual one."""
        place = log or logs.folder_of(description["name"])
        images = sum(count for split in description["images"].values() for count in split.values())
        self.log = logs.Log(place)
        self.permits = Permits(policy, logs.read(place), lambda: self.log.head)
        self.guards: list[Guard] = [Gate(policy, folder, images, len(description["classes"]), self.permits.compute)]
        rules = hashlib.sha256(repr(policy).encode()).hexdigest()[:16]
        self.log.served(what=f"{images} images, policy {rules}")

    def __exit__(self, *_: object) -> None:
        self.log.close()
