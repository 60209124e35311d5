"""Do a classifier's probabilities mean what they say? Reliability, expected calibration error, Brier, temperature."""

import numpy as np
import pandas as pd
from scipy import optimize, special

BINS = 15  # as Guo et al., On calibration of modern neural networks (ICML 2017)
SPACINGS = ("mass", "width")
SMALLEST_PROBABILITY = 1e-7  # keeps the logarithm of a confident mistake finite, as in `classification.scores`
TEMPERATURES = (0.05, 20.0)  # searched between these


def reliability(
    labels: np.ndarray, probabilities: np.ndarray, *, bins: int = BINS, spacing: str = "mass"
) -> pd.DataFrame:
    """low, high, images, confidence and accuracy of every bin of the largest probability.

    Bins of equal "mass" hold about as many images each (equal confidences stay together, so there can be fewer bins);
    those of equal "width" divide 0 to 1, and an empty one has NaN for confidence and accuracy. A bin includes its high.
    """
    if spacing not in SPACINGS:
        raise ValueError(f"bins of equal {spacing!r}: expected one of {', '.join(SPACINGS)}")
    if bins < 1 or not len(labels):
        raise ValueError(f"{bins} bins of {len(labels)} images: expected 1 or more of both")
    confidence = probabilities.max(axis=1)
    hit = probabilities.argmax(axis=1) == labels
    if spacing == "width":
        edges = np.linspace(0, 1, bins + 1)
    else:
        # Edges are confidences that occur: one between two would move with the interpolation.
        inner = np.quantile(confidence, np.arange(1, bins) / bins, method="inverted_cdf")
        edges = np.concatenate([[0], np.unique(np.append(inner, confidence.max()))])
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, len(edges) - 2)
    images = np.bincount(place, minlength=len(edges) - 1)
    with np.errstate(invalid="ignore"):
        mean_confidence = np.bincount(place, confidence, minlength=len(images)) / images
        accuracy = np.bincount(place, hit, minlength=len(images)) / images
    return pd.DataFrame(
        {
            "low": edges[:-1],
            "high": edges[1:],
            "images": images,
            "confidence": mean_confidence,
            "accuracy": accuracy,
        }
    )


def expected_calibration_error(
    labels: np.ndarray, probabilities: np.ndarray, *, bins: int = BINS, spacing: str = "mass"
) -> float:
    """Mean over the images of their bin's |accuracy - confidence|."""
    table = reliability(labels, probabilities, bins=bins, spacing=spacing)
    gaps = (table["accuracy"] - table["confidence"]).abs()
    return float((gaps * table["images"]).sum() / table["images"].sum())


def brier(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Mean squared distance to the one-hot label, summed over the classes: 0 to 2 (Brier, 1950), also for two."""
    return float(((probabilities - np.eye(probabilities.shape[1])[labels]) ** 2).sum(axis=1).mean())


def fit_temperature(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """The temperature under which validation labels are likeliest; above 1 for an over-confident model."""
    logits = _logits(probabilities)

    def loss(log_temperature: float) -> float:
        scaled = special.log_softmax(logits / np.exp(log_temperature), axis=1)
        return -float(scaled[np.arange(len(labels)), labels].mean())

    found = optimize.minimize_scalar(loss, bounds=np.log(TEMPERATURES), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


def with_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities (n, classes) of the same logits divided by the temperature; the predicted classes stay."""
    return special.softmax(_logits(probabilities) / temperature, axis=1)


def _logits(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.clip(np.asarray(probabilities, np.float64), SMALLEST_PROBABILITY, 1.0))
