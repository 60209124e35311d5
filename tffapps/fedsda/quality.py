"""What a side does to pictures (Table 3): SSIM to the original, and how far apart the clients' images are after it.

FID, KID and WD are means over every two clients: without alignment they are not zero, and alignment should lower them.
Whether it does so at the cost of tissue or of variety is said by three more: `density_ssim`, that of the density maps
to the original's, each stain in units of its strength; `grey_ssim`, that of grey levels of the same mean and deviation,
which no colour changes and no stain has to be told for; and `spread`, the deviation of patches' mean colours on [0,1]
within a client, which a side that makes everything alike brings down.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from skimage.metrics import structural_similarity

from models import inception
from models.weights import WeightsError
from preprocessing import stain
from preprocessing.stain import StainSettings
from tffapps import UserError
from tffapps.data.made import stacks
from tffapps.evaluation.distances import frechet_distance, kernel_distance
from tffapps.evaluation.image_quality import WINDOW, ColourHistogram, colour_distance, ssim
from tffapps.fedsda import LEARNING_SEED, QualitySettings
from tffapps.fedsda.alignments import Aligned

_BATCH = 32
_LEAST = 1e-6  # a strength


@dataclasses.dataclass(frozen=True)
class PictureQuality:
    """By side: what was measured, and the images."""

    features: str  # what FID and KID were measured with
    scores: Mapping[str, Mapping[str, float]]
    aligned: Mapping[str, Aligned]
    points: Mapping[str, Sequence[np.ndarray]] = dataclasses.field(default_factory=dict)  # each client's features


class PictureEvaluator:
    def __init__(self, settings: QualitySettings, separation: StainSettings) -> None:
        self._separation, self._points = separation, dict[str, list[np.ndarray]]()
        self._count, size = settings.quality_images, settings.inception_size
        try:
            self._network, label, _ = inception.build(settings.inception, size, LEARNING_SEED)
        except WeightsError as error:
            raise UserError(f"--inception: {error}") from error
        self._features = f"InceptionV3 {label}, {size} px"

    def measure(self, aligned: Mapping[str, Aligned], clients: Sequence[str]) -> PictureQuality:
        """Of each side's images."""
        scores = {side: self._scores(side, images.train, clients) for side, images in aligned.items()}
        return PictureQuality(self._features, scores, aligned, self._points)

    def _scores(self, side: str, train: pd.DataFrame, clients: Sequence[str]) -> dict[str, float]:
        similarities: list[float] = []
        densities: list[float] = []
        greys: list[float] = []
        spreads: list[float] = []
        histograms, features = [], []
        for client in clients:
            rows = train[train.client == client]
            rows = rows.sample(min(self._count, len(rows)), random_state=LEARNING_SEED)
            histogram, batches, means = ColourHistogram(), [], []
            for now, before in _pairs(rows):
                histogram.add(now)
                similarities += ssim(before, now).tolist()
                densities += density_ssim(before, now, self._separation)
                greys += grey_ssim(before, now)
                means.append(now.mean(axis=(1, 2)) / 255)
                batches.append(self._network(now.astype(np.float32) / 255, training=False).numpy())
            histograms.append(histogram)
            features.append(np.concatenate(batches))
            spreads.append(float(np.concatenate(means).std(axis=0).mean()))
        self._points[side] = features
        return {
            "ssim": float(np.mean(similarities)),
            "fid": _mean(frechet_distance, features),
            "kid": _mean(kernel_distance, features),
            "wd": _mean(colour_distance, histograms),
            "density_ssim": float(np.mean(densities)) if densities else float("nan"),
            "grey_ssim": float(np.mean(greys)),
            "spread": float(np.mean(spreads)),
        }


def density_ssim(originals: np.ndarray, images: np.ndarray, settings: StainSettings) -> list[float]:
    """Of the patches whose stains can be told in both: mean over the two stains."""
    before, after = (stain.separate(patches, settings) for patches in (originals, images))
    both = np.flatnonzero(before.ok & after.ok)
    maps = []
    for separated in (before, after):
        strong = np.maximum(stain.strength(separated.densities[both]), _LEAST)
        maps.append(np.clip(separated.densities[both] / strong[:, :, None, None], 0, 1))
    window = min(WINDOW, min(maps[0].shape[2:]) - 1 | 1) if len(both) else WINDOW
    return [
        float(np.mean([structural_similarity(*pair, win_size=window, data_range=1.0) for pair in zip(*patch)]))
        for patch in zip(*maps)
    ]


def grey_ssim(originals: np.ndarray, images: np.ndarray) -> list[float]:
    """Of each pair's grey levels, brought to the original's mean and deviation."""
    found = []
    for before, after in zip(originals.mean(axis=3), images.mean(axis=3)):
        alike = (after - after.mean()) / max(after.std(), _LEAST) * before.std() + before.mean()
        window = min(WINDOW, min(before.shape) - 1 | 1)
        found.append(float(structural_similarity(before, alike, win_size=window, data_range=255)))
    return found


def _mean(distance: Callable[[Any, Any], float], sets: Sequence[Any]) -> float:
    """Over every two; 0 where there is one."""
    return float(np.mean([distance(a, b) for a, b in itertools.combinations(sets, 2)])) if len(sets) > 1 else 0.0


def _pairs(rows: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(images, originals), the same patches in both."""
    paths, sources = list(rows.path), list(rows.source)
    for positions, now in stacks(paths, batch=_BATCH, rejects={}):
        for again, before in stacks([sources[position] for position in positions], batch=_BATCH, rejects={}):
            yield now[again], before
