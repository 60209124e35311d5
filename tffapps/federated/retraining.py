"""Re-training the classifying layer after the last round: the settings, and what they do not go together with."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tffapps.errors import UserError
from tffapps.federated.aggregation import AGAINST_BAD
from tffapps.settings import CHANGED, setting

if TYPE_CHECKING:
    from tffapps.federated.aggregation import Aggregation
    from tffapps.federated.method import Method

LAST = "last"  # --select
_UNCOVERED = {
    "secure": "would not hide what clients send for it",
    "dp": "would neither noise nor count what clients send for it",
    **dict.fromkeys(AGAINST_BAD, "would not protect what clients send for it"),
}


@dataclasses.dataclass(frozen=True)
class Retraining:
    """The defaults are what every run does without it: a trial lists it where they are not what is asked for."""

    retrain: str = setting(
        "none", "after the last round: the classifying layer anew (docs/methods.md)", choices=("none", "ccvr"),
        in_key=CHANGED,
    )  # fmt: skip
    virtual_features: int = setting(
        500, "ccvr: virtual features drawn for each class (our choice)", least=1, most=100_000, in_key=CHANGED
    )
    virtual_shrinkage: float = setting(
        10.0,
        "ccvr: images that the covariance of all classes counts for beside a class's own (ours; 0: the paper)",
        least=0,
        in_key=CHANGED,
    )
    virtual_penalty: float = setting(
        1e-3, "ccvr: half of this times the squared kernel is added to the loss (ours)", least=0, in_key=CHANGED
    )

    @property
    def used(self) -> bool:
        return self.retrain != "none"

    @property
    def where_used(self) -> list[Retraining]:
        """For a trial's settings: none where all is as it is without them, so that its key is, too."""
        return [self] if self.used else []

    def described(self) -> dict[str, Any]:
        """A column of tables, where it is used."""
        return {"retrain": self.retrain} if self.used else {}

    def check(self, method: Method, aggregation: Aggregation, select: str) -> None:
        """Refuses what it would break a promise of, or what it cannot be done after."""
        if not self.used:
            return
        flag, aggregator = f"--retrain {self.retrain}", aggregation.aggregator
        if aggregator in _UNCOVERED:
            raise UserError(f"{flag}: --aggregator {aggregator} {_UNCOVERED[aggregator]}; leave out one of the two")
        if method.personal or not method.sends_weights:
            raise UserError(f"{flag}: after {method.name} clients have models of their own; leave out one of the two")
        if not method.all_labelled:
            raise UserError(f"{flag}: {method.name} trains on images without labels; leave out one of the two")
        if select != LAST:
            raise UserError(f"{flag}: it is the last round's model that is re-trained; use --select {LAST}")


NONE = Retraining()
