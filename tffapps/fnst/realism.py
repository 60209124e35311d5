"""Do styled images look like real ones of their class? `realism.csv`, made with --realism.

Every answer is given by images that no style and no content was taken from: those that the split tests and validates
with. They teach a classifier (logistic regression on Inception's features), and distances are to them:

    called_right         share of the images that it calls by their label; interval over contents, drawn with all images
    fid, kid             to such real images of the same class, mean over classes
    structure            SSIM to the content, both grey, of one mean and one deviation: stain does not count
    nearest_own          share whose nearest real image, in the same features, is their own content
    nearest_right        share whose nearest real image but for that is of their class

Beside what each method made stand the contents themselves, and as many real training images of other clients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import cv2
import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from models import inception
from models.weights import WeightsError
from tffapps import Pool, UserError
from tffapps.data.made import stacks
from tffapps.evaluation.distances import frechet_distance, kernel_distance
from tffapps.evaluation.image_quality import ssim
from tffapps.fnst import RealismSettings
from tffapps.fnst.exchange import Made
from tffapps.fnst.styler import resized

_BATCH = 32
_DRAWS = 1000
_GREY, _SPREAD = 128.0, 40.0  # mean and deviation that both of a pair are given
Features = Callable[[Sequence[str]], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Judge:
    """What real images say, which nothing was made of."""

    classifier: Any
    features: np.ndarray  # (n, d)
    labels: np.ndarray  # (n,)

    @classmethod
    def of(cls, rows: pd.DataFrame, features: Features) -> Judge:
        found, labels = features(list(rows.path)), rows.label.to_numpy(str)
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000, class_weight="balanced"))
        return cls(classifier.fit(found, labels), found, labels)


def encoder_of(settings: RealismSettings) -> tuple[Features, str]:
    """Inception's features of files, each computed once, and how tables call the network."""
    try:
        network, label, _ = inception.build(settings.inception, settings.inception_size)
    except WeightsError as error:
        raise UserError(f"--inception: {error}") from error
    kept: dict[str, np.ndarray] = {}

    def features(paths: Sequence[str]) -> np.ndarray:
        missing = [path for path in dict.fromkeys(paths) if path not in kept]
        for rows, images in stacks(missing, batch=_BATCH, rejects={}):
            values = network(images.astype(np.float32) / 255, training=False).numpy()
            kept.update(zip([missing[row] for row in rows], values))
        return np.stack([kept[path] for path in paths])

    return features, f"Inception {label}, {settings.inception_size} px"


def table(federation: Pool, made: Mapping[tuple[str, str], Made], features: Features) -> pd.DataFrame:
    """A row for each method and augmentation, after what real images come to.

    Args:
      federation: of the first split and seed, whose images of other splits than "train" judge.
      made: by part of a method and augmentation.
      features: of files.
    """
    judge = Judge.of(federation.table[federation.table.split != "train"], features)
    rows: list[dict[str, Any]] = []
    for (part, augmentation), images in made.items():
        contents = images.table.drop_duplicates("content").assign(path=lambda found: found.content)
        if not any(row["augmentation"] == augmentation for row in rows):
            rows.append({"method": "real: contents", "augmentation": augmentation, **_row(contents, judge, features)})
            others = _others(federation, contents)
            rows.append({"method": "real: others", "augmentation": augmentation, **_row(others, judge, features)})
        rows.append({"method": part, "augmentation": augmentation, **_row(images.table, judge, features)})
    return pd.DataFrame(rows)


def structure(images: np.ndarray, contents: np.ndarray) -> np.ndarray:
    """SSIM of each image to its content, without what stain and light do to it."""
    return ssim(_plain(contents), _plain(images))


def _plain(images: np.ndarray) -> np.ndarray:
    result = np.empty_like(images)
    for row, image in enumerate(images):
        grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)
        grey = _GREY + _SPREAD * (grey - grey.mean()) / max(float(grey.std()), 1e-6)
        result[row] = np.rint(grey.clip(0, 255))[..., None]
    return result


def _row(rows: pd.DataFrame, judge: Judge, features: Features) -> dict[str, Any]:
    own, labels = features(list(rows.path)), rows.label.to_numpy(str)
    right = judge.classifier.predict(own) == labels
    low, high = _interval(right, rows.content.to_numpy(str))
    result = {"images": len(rows), "called_right": right.mean(), "called_right_low": low, "called_right_high": high}
    classes = sorted(set(labels))
    result |= {f"called_{label}": right[labels == label].mean() for label in classes}
    pairs_of_sets = [(own[labels == label], judge.features[judge.labels == label]) for label in classes]
    result["fid"] = np.mean([frechet_distance(*pair) for pair in pairs_of_sets])
    result["kid"] = np.mean([kernel_distance(*pair) for pair in pairs_of_sets])
    result |= {"structure": np.nan, "nearest_own": np.nan}
    if (rows.content != rows.path).any():
        pairs = list(_pairs(list(rows.path), list(rows.content)))
        result["structure"] = np.mean(np.concatenate([structure(*pair) for pair in pairs]))
        contents = sorted(set(rows.content))
        nearest = cdist(own, features(contents)).min(axis=1)
        of_own = np.linalg.norm(own - features(list(rows.content)), axis=1)
        others = cdist(own, judge.features).min(axis=1)
        result["nearest_own"] = float(((of_own <= nearest + 1e-9) & (of_own < others)).mean())
    found = judge.labels[cdist(own, judge.features).argmin(axis=1)]
    return {**result, "nearest_right": float((found == labels).mean())}


def _others(federation: Pool, contents: pd.DataFrame) -> pd.DataFrame:
    """As many real training images of each class, of other clients than have it as a rare one."""
    train = federation.part("train")
    train = train[~train.path.isin(contents.content)]
    parts = [
        train[train.label == label].sample(min(count, int((train.label == label).sum())), random_state=0)
        for label, count in contents.label.value_counts().sort_index().items()
    ]
    return pd.concat(parts).assign(content=lambda found: found.path)


def _interval(right: np.ndarray, contents: np.ndarray) -> tuple[float, float]:
    """95 %, by the bootstrap over contents."""
    _, numbers = np.unique(contents, return_inverse=True)
    sums, counts = np.bincount(numbers, right), np.bincount(numbers)
    drawn = np.random.default_rng(0).integers(len(counts), size=(_DRAWS, len(counts)))
    shares = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.percentile(shares, [2.5, 97.5])
    return float(low), float(high)


def _pairs(paths: Sequence[str], contents: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(images, contents) of one size."""
    for rows, images in stacks(paths, batch=_BATCH, rejects={}):
        size, before = images.shape[1], np.empty_like(images)
        for places, originals in stacks([contents[row] for row in rows], batch=_BATCH, rejects={}):
            before[places] = [resized(image, size) for image in originals]
        yield images, before
