"""Agreement on classes that have an order, such as grades."""

import numpy as np
from sklearn import metrics


def quadratic_weighted_kappa(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """1 for perfect agreement, 0 for that of chance; class indices must be in the grades' order.

    NaN if all labels and predictions are one class: chance agrees as well.
    """
    predicted = probabilities.argmax(axis=1)
    if len(np.union1d(labels, predicted)) < 2:
        return float("nan")
    classes = np.arange(probabilities.shape[1])
    return float(metrics.cohen_kappa_score(labels, predicted, labels=classes, weights="quadratic"))
