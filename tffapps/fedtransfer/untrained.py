"""What no network is needed for: an empty prediction, and a watershed on the image itself, as every table has them.

    empty        no boundary anywhere: what a network that has learnt nothing scores
    watershed    the textbook's: a map of boundaries is made of the image by one of PREFILTERS, and grains are found in
                 it by one of the ways that networks have (`grain_finding`); both are chosen by each client's validation
                 tiles, with more tries than a network has

Nothing is sent and nothing trained. Scores are kept below `data/cache`, as tiles of a fold have them.
"""

import dataclasses
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from scipy import ndimage

from tffapps import cache_folder
from tffapps.evaluation import stored
from tffapps.evaluation.identities import identified
from tffapps.fedtransfer import EMPTY, METRICS, grain_finding
from tffapps.fedtransfer.data import Tiles, images_of, masks_of
from tffapps.fedtransfer.grain_finding import CANDIDATES, Way
from tffapps.files import replacing

_VERSION = 1  # raise when the same tiles would have other scores
_STRONG = 99.0  # percentile of a map that counts as a sure boundary


@dataclasses.dataclass(frozen=True)
class Prefilter:
    """A map of boundaries made of an image: 0 … 1, where 1 is its strongest percentile."""

    kind: str
    sigma: float  # pixels of the Gaussian before it

    def map(self, image: np.ndarray) -> np.ndarray:
        """Of uint8 (height, width, channels)."""
        planes = [image[..., channel].astype(np.float32) for channel in range(image.shape[2])]
        found = np.max([self._strength(plane) for plane in planes], axis=0)
        top = float(np.percentile(found, _STRONG))
        return np.clip(found / top, 0, 1).astype(np.float32) if top > 0 else np.zeros(found.shape, np.float32)

    def _strength(self, plane: np.ndarray) -> np.ndarray:
        if self.kind == "gradient":
            return ndimage.gaussian_gradient_magnitude(plane, self.sigma)
        wide = ndimage.gaussian_filter(plane, 6 * self.sigma)
        line = wide - ndimage.gaussian_filter(plane, self.sigma)  # above 0 where it is darker than around it
        return np.maximum(line if self.kind == "dark" else -line, 0)


PREFILTERS = tuple(Prefilter(kind, sigma) for kind in ("gradient", "dark", "bright") for sigma in (1.0, 2.0, 3.0))


def measured(tiles: Tiles, kind: str) -> pd.DataFrame:
    """What a run's predictions have, of a client's test tiles each: `stored.KEYS` and METRICS."""
    about = (_VERSION, kind, tiles.pool.key, tiles.fold, repr(PREFILTERS), repr(CANDIDATES), METRICS)
    file = cache_folder() / "untrained" / f"{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}.csv"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = pd.concat([_of_client(tiles, kind, client) for client in tiles.clients], ignore_index=True)
        with replacing(file) as out:
            rows.to_csv(out, index=False, float_format="%.9g")
    return pd.read_csv(file, dtype=dict.fromkeys(stored.KEYS, str), keep_default_na=False)


def _of_client(tiles: Tiles, kind: str, client: str) -> pd.DataFrame:
    rows = tiles.part("test", client)
    truths = masks_of(rows).astype(bool)
    if kind == EMPTY:
        found = list(np.zeros_like(truths))
    else:
        prefilter, way = _tuned(tiles.part("val", client))
        found = [way.mask(prefilter.map(image)) for image in images_of(rows, 3)]
    scores = np.array([grain_finding.scores(*pair) for pair in zip(truths, found)])
    columns = dict(zip(METRICS, scores.T))
    return identified(rows).assign(part=stored.TEST, judge="", model=stored.LAST, **columns)


def _tuned(held_back: pd.DataFrame) -> tuple[Prefilter, Way]:
    """The best of all pairs, by grown MAP of the tiles held back."""
    if not len(held_back):
        return PREFILTERS[0], CANDIDATES[0]
    rows = held_back.iloc[grain_finding.spread(len(held_back))]
    truths, images = list(masks_of(rows).astype(bool)), list(images_of(rows, 3))

    def score(prefilter: Prefilter) -> Iterator[float]:
        pairs = [(truth, prefilter.map(image)) for truth, image in zip(truths, images)]
        return (grain_finding.mean_grown_map(pairs, way.mask) for way in CANDIDATES)

    with ThreadPoolExecutor() as pool:  # SciPy and scikit-image work outside of Python's lock for the most part
        means = np.array(list(pool.map(lambda prefilter: list(score(prefilter)), PREFILTERS)))
    first, second = np.unravel_index(int(np.argmax(means)), means.shape)
    return PREFILTERS[first], CANDIDATES[second]
