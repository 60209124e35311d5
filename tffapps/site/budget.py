"""What a site has given away of its patients in differential privacy, counted by itself, over all runs.

The ledger lies in data/sites/<name>/ and only grows. A line is on the disk before the noised numbers leave.
"""

from __future__ import annotations

import pathlib
import threading

from tffapps.errors import RunStopped, UserError
from tffapps.privacy import accounting
from tffapps.privacy.ledger import Ledger
from tffapps.privacy.release import GAUSSIAN, Release
from tffapps.secure_sums.form import Noise
from tffapps.site.relay import Refused

FILE = "privacy.jsonl"
DELTA = 1e-5


class Budget:
    """Without an `epsilon` everything that is noised is counted, and nothing refused."""

    def __init__(
        self, folder: pathlib.Path, name: str, epsilon: float | None = None, delta: float | None = None
    ) -> None:
        self._ledger, self._name, self._epsilon, self._delta = Ledger(folder / FILE), name, epsilon, delta or DELTA
        self._lock = threading.Lock()

    @property
    def ends(self) -> bool:
        return self._epsilon is not None

    @property
    def epsilon(self) -> float:
        """Spent so far."""
        return accounting.spent(self._ledger.releases(), self._delta).pld

    def check(self, noise: Noise) -> None:
        """Refuses what would go beyond the budget, before anything is computed."""
        self._release(noise)

    def spend(self, noise: Noise) -> None:
        """Refuses it, or writes it down."""
        with self._lock:
            release = self._release(noise)
            try:
                self._ledger.append([release])
            except (UserError, RunStopped):  # nothing leaves uncounted
                raise Refused("this site cannot write down what it gives away") from None

    def _release(self, noise: Noise) -> Release:
        release = Release("update of a round", GAUSSIAN, noise=noise.multiplier, by=(self._name,))
        if self._epsilon is None:
            return release
        try:
            then = accounting.spent([*self._ledger.releases(), release], self._delta).pld
        except UserError:
            raise Refused("this site cannot read what it gave away so far") from None
        if then > self._epsilon:
            raise Refused(
                f"with this round it would have spent epsilon {then:.4g} at delta {self._delta:g}, and its budget is"
                f" {self._epsilon:g}"
            )
        return release
