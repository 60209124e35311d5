"""When a classifier's answer is to be believed: a temperature, and the confidence below which it is called unsure.

Both are fitted on validation predictions, never on test images. A temperature only makes a model less sure: that it was
right on a few validation images, perhaps taken beside those it was trained on, is no ground to be surer. The threshold
is the lowest confidence from which on RIGHT of the answers were right there; a model that never is has no sure answer.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tffapps.evaluation import calibration
from tffapps.use.fields import Fields

RIGHT = 0.9  # share of sure answers that should be right
LEAST = 10  # validation images, for a temperature; and sure ones among them, for a threshold
NEVER = 1.01  # no confidence is as high


@dataclasses.dataclass(frozen=True)
class Decision:
    """Of one model. Without validation images nothing is fitted: temperature 1, and every answer counts as sure."""

    temperature: float = 1.0
    unsure_below: float = 0.0
    images: int = 0  # that they were fitted on; 0: not fitted

    @classmethod
    def fit(cls, labels: np.ndarray, probabilities: np.ndarray) -> Decision:
        """Of validation labels (n,) and probabilities (n, classes)."""
        if len(labels) < LEAST:
            return cls()
        temperature = max(1.0, calibration.fit_temperature(labels, probabilities))
        calibrated = calibration.with_temperature(probabilities, temperature)
        return cls(temperature, _threshold(labels, calibrated), len(labels))

    def calibrated(self, probabilities: np.ndarray) -> np.ndarray:
        """(n, classes)"""
        return calibration.with_temperature(probabilities, self.temperature) if self.images else probabilities

    def sure(self, calibrated: np.ndarray) -> np.ndarray:
        """bool (n,)"""
        return calibrated.max(axis=1) >= self.unsure_below

    @property
    def told(self) -> str:
        """In words."""
        if not self.images:
            return f"not calibrated, never unsure: fewer than {LEAST} validation images"
        fitted = f"temperature {self.temperature:.3g}, fitted on {self.images} validation images"
        if self.unsure_below >= NEVER:
            return f"{fitted}; always unsure: at no confidence {RIGHT:.0%} of the answers were right there"
        return f"{fitted}; unsure below {self.unsure_below:.3f}, above it at least {RIGHT:.0%} were right there"

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, fields: Fields) -> Decision:
        low, high = calibration.TEMPERATURES
        return cls(
            fields.number("temperature", low, high), fields.number("unsure_below", 0, NEVER),
            fields.whole("images", 0, 2**40),
        )  # fmt: skip


def _threshold(labels: np.ndarray, calibrated: np.ndarray) -> float:
    confidence = calibrated.max(axis=1)
    order = np.argsort(-confidence, kind="stable")
    hit = (calibrated.argmax(axis=1) == labels)[order]
    share = np.cumsum(hit) / np.arange(1, len(hit) + 1)  # right among those at least as confident
    confidence = confidence[order]
    last_of_equals = np.append(confidence[1:] < confidence[:-1], True)
    good = (share >= RIGHT) & last_of_equals & (np.arange(1, len(hit) + 1) >= LEAST)
    # Rounded down: what is read back is not above the confidence that it stands for.
    return float(np.floor(confidence[good].min() * 1e6) / 1e6) if good.any() else NEVER
