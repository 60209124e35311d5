"""What a side does to pictures (Table 3): SSIM to the original, and how far apart the clients' images are after it.

FID, KID and WD are means over every two clients: without alignment they are not zero, and alignment should lower them.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd

from models import inception
from models.weights import WeightsError
from tffapps.data.made import stacks
from tffapps.errors import UserError
from tffapps.evaluation.distances import frechet_distance, kernel_distance
from tffapps.evaluation.image_quality import ColourHistogram, colour_distance, ssim
from tffapps.fedsda import LEARNING_SEED
from tffapps.fedsda.alignments import Aligned

_BATCH = 32


class Quality:
    def __init__(self, values: dict[str, Any]) -> None:
        self._count, size = values["quality_images"], values["inception_size"]
        try:
            self._network, label, _ = inception.build(values["inception"], size, LEARNING_SEED)
        except WeightsError as error:
            raise UserError(f"--inception: {error}") from error
        self.label = f"InceptionV3 {label}, {size} px"

    def measure(self, aligned: Aligned, clients: list[str]) -> dict[str, float]:
        similar: list[float] = []
        histograms, features = [], []
        for client in clients:
            rows = aligned.train[aligned.train.client == client]
            rows = rows.sample(min(self._count, len(rows)), random_state=LEARNING_SEED)
            histogram, found = ColourHistogram(), []
            for now, before in self._pairs(rows):
                histogram.add(now)
                similar += ssim(before, now).tolist()
                found.append(self._network(now.astype(np.float32) / 255, training=False).numpy())
            histograms.append(histogram)
            features.append(np.concatenate(found))

        def mean(distance: Any, sets: list) -> float:
            return (
                float(np.mean([distance(a, b) for a, b in itertools.combinations(sets, 2)])) if len(sets) > 1 else 0.0
            )

        return {
            "ssim": float(np.mean(similar)),
            "fid": mean(frechet_distance, features),
            "kid": mean(kernel_distance, features),
            "wd": mean(colour_distance, histograms),
        }

    def _pairs(self, rows: pd.DataFrame) -> Any:
        """(images, originals), the same patches in both."""
        paths, sources = list(rows.path), list(rows.source)
        for places, now in stacks(paths, batch=_BATCH, rejects={}):
            for again, before in stacks([sources[place] for place in places], batch=_BATCH, rejects={}):
                yield now[again], before
