"""What a side does to pictures (Table 3): SSIM to the original, and how far apart the clients' images are after it.

FID, KID and WD are means over every two clients: without alignment they are not zero, and alignment should lower them.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from models import inception
from models.weights import WeightsError
from tffapps import UserError
from tffapps.data.made import stacks
from tffapps.evaluation.distances import frechet_distance, kernel_distance
from tffapps.evaluation.image_quality import ColourHistogram, colour_distance, ssim
from tffapps.fedsda import LEARNING_SEED, QualitySettings
from tffapps.fedsda.alignments import Aligned

_BATCH = 32


@dataclasses.dataclass(frozen=True)
class PictureQuality:
    """By side: what was measured, and the images."""

    features: str  # what FID and KID were measured with
    scores: Mapping[str, Mapping[str, float]]
    aligned: Mapping[str, Aligned]


class PictureEvaluator:
    def __init__(self, settings: QualitySettings) -> None:
        self._count, size = settings.quality_images, settings.inception_size
        try:
            self._network, label, _ = inception.build(settings.inception, size, LEARNING_SEED)
        except WeightsError as error:
            raise UserError(f"--inception: {error}") from error
        self._features = f"InceptionV3 {label}, {size} px"

    def measure(self, aligned: Mapping[str, Aligned], clients: Sequence[str]) -> PictureQuality:
        """Of each side's images."""
        scores = {side: self._scores(images.train, clients) for side, images in aligned.items()}
        return PictureQuality(self._features, scores, aligned)

    def _scores(self, train: pd.DataFrame, clients: Sequence[str]) -> dict[str, float]:
        similarities: list[float] = []
        histograms, features = [], []
        for client in clients:
            rows = train[train.client == client]
            rows = rows.sample(min(self._count, len(rows)), random_state=LEARNING_SEED)
            histogram, batches = ColourHistogram(), []
            for now, before in _pairs(rows):
                histogram.add(now)
                similarities += ssim(before, now).tolist()
                batches.append(self._network(now.astype(np.float32) / 255, training=False).numpy())
            histograms.append(histogram)
            features.append(np.concatenate(batches))
        return {
            "ssim": float(np.mean(similarities)),
            "fid": _mean(frechet_distance, features),
            "kid": _mean(kernel_distance, features),
            "wd": _mean(colour_distance, histograms),
        }


def _mean(distance: Callable[[Any, Any], float], sets: Sequence[Any]) -> float:
    """Over every two; 0 where there is one."""
    return float(np.mean([distance(a, b) for a, b in itertools.combinations(sets, 2)])) if len(sets) > 1 else 0.0


def _pairs(rows: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(images, originals), the same patches in both."""
    paths, sources = list(rows.path), list(rows.source)
    for positions, now in stacks(paths, batch=_BATCH, rejects={}):
        for again, before in stacks([sources[position] for position in positions], batch=_BATCH, rejects={}):
            yield now[again], before
