"""The test images of a run, wherever they are: in this process, or each site's at that site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from tffapps.engine import Engine
from tffapps.errors import RunStopped
from tffapps.evaluation import at_sites, classification

Answers = tuple[np.ndarray, np.ndarray]  # labels (n), probabilities (n, classes)


class Exam:
    """`batches` makes datasets, in order, of rows; `rows` are those to test with, and their `client` is their site."""

    def __init__(
        self,
        engine: Engine,
        model: tf.keras.Model,
        element_spec: Any,
        rows: pd.DataFrame,
        batches: Callable[[pd.DataFrame], tf.data.Dataset],
    ) -> None:
        self._engine, self._model = engine, model
        parts = dict(list(rows.groupby("client", sort=True))) if engine.sites else {"": rows}
        self._batches = {str(site): batches(part) for site, part in parts.items()}
        self._predictor = at_sites.predictor(model, element_spec) if engine.sites else None

    def answers(self, weights: Sequence[np.ndarray], *, last: bool) -> Answers | None:
        """Labels and finite predictions, in the order of sites and rows.

        None in a round in which a site is away; in the `last` round it is needed, and the run stops.
        """
        if self._predictor is None:
            self._model.set_weights(weights)
            return classification.finite_predictions(self._model, self._batches[""])
        found = at_sites.predict(self._engine, self._predictor, weights, self._batches)
        for site, why in found.missing.items():
            if last:
                raise RunStopped(
                    f"the test images of {site} are needed at the end ({why})."
                    " Run the same command again when it is back."
                )
            return None
        classification.check_finite(found.probabilities)
        return found.labels, found.probabilities
