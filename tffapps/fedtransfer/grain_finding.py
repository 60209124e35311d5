"""How grains are found in a map of boundaries: the ways there are, and which a client's validation tiles choose.

A cut at 0.5, as published, joins two grains wherever the boundary between them has a gap. The watershed
(`tffapps.use.watershed`) closes gaps, and at a lower threshold finds boundaries of which a network is not sure. Which
is best depends on material and network, so that each client tries CANDIDATES on its own validation tiles; the classical
watershed, which no network precedes (`untrained.py`), is given the same ones.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tffapps.evaluation import grown, segmentation
from tffapps.fedtransfer import CUT, METRICS
from tffapps.use import watershed

WATERSHED = "watershed"
_LEAST = 1 / 2000  # of a tile's pixels: what is smaller is no grain
_MOST_TILES = 12  # that a client chooses with, spread over all it has
Mask = np.ndarray  # bool (height, width), true on boundaries


@dataclasses.dataclass(frozen=True)
class Way:
    method: str
    threshold: float  # from where on a pixel is boundary
    least: float = 0.0  # of a tile's pixels: a smaller grain goes to its neighbour

    def mask(self, boundary: np.ndarray) -> Mask:
        """Of a map, float (height, width)."""
        if self.method == CUT:
            return boundary > self.threshold
        least = max(round(self.least * boundary.size), 1)
        return watershed.grains_by_watershed(boundary.astype(np.float32), self.threshold, least) == 0

    def __str__(self) -> str:
        return f"{self.method} {self.threshold:g}" + (f", from 1/{1 / self.least:.0f}" if self.least else "")


PUBLISHED = Way(CUT, 0.5)
CANDIDATES = (
    PUBLISHED,
    *(Way(WATERSHED, threshold, least) for threshold in (0.15, 0.25, 0.35, 0.5, 0.65) for least in (0.0, _LEAST)),
)


def scores(truth: Mask, predicted: Mask) -> list[float]:
    """METRICS of one tile."""
    found = segmentation.scores(truth, predicted) | grown.scores(truth, predicted)
    return [found[name] for name in METRICS]


def best(pairs: Iterable[tuple[Mask, np.ndarray]], candidates: Sequence[Way] = CANDIDATES) -> Way:
    """The way with the highest mean grown MAP over pairs of a true mask and a map; the first of equal ones."""
    known = list(pairs)
    if not known:
        return candidates[0]
    known = [known[place] for place in spread(len(known))]
    means = [mean_grown_map(known, way.mask) for way in candidates]
    return candidates[int(np.argmax(means))]


def mean_grown_map(pairs: Sequence[tuple[Mask, np.ndarray]], mask: Callable[[np.ndarray], Mask]) -> float:
    return float(np.mean([grown.grown_map(truth, mask(boundary)) for truth, boundary in pairs]))


def spread(count: int) -> list[int]:
    """Positions of the tiles that a client chooses with."""
    return sorted(set(np.linspace(0, count - 1, min(count, _MOST_TILES)).astype(int).tolist()))
