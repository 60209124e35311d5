"""Predictions of images, wherever they are: in this process, or each site's at that site."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from tffapps.engine import Engine
from tffapps.errors import RunStopped
from tffapps.evaluation import at_sites, classification


@dataclasses.dataclass(frozen=True)
class Predictions:
    """One row an image."""

    labels: np.ndarray  # (n,)
    probabilities: np.ndarray  # (n, classes)
    images: pd.DataFrame  # (n rows) path, client, … in the same order


class TestImages:
    """Images that a model is tested with."""

    def __init__(
        self,
        engine: Engine,
        model: tf.keras.Model,
        element_spec: Any,
        rows: pd.DataFrame,
        batches: Callable[[pd.DataFrame], tf.data.Dataset],
        *,
        exact: Callable[[pd.DataFrame], tf.data.Dataset] | None = None,
        here: bool = False,
        codes: Callable[[pd.DataFrame], np.ndarray] | None = None,
    ) -> None:
        """`batches` makes a dataset of rows, in their order; the `client` of a row is its site.

        They are read when images are first predicted: a run that is finished reads none. `exact` is the same in single
        precision, where `batches` are of stored activations. `here`: the images are the coordinator's own, also where
        the clients are sites. `codes` gives the labels of rows as numbers: sites must answer with them.
        """
        self._exact, self._codes = exact, codes
        self._engine, self._model, self._element_spec = engine, model, element_spec
        self._at_sites = bool(engine.sites) and not here
        self._parts = dict(list(rows.groupby("client", sort=True))) if self._at_sites else {"": rows}
        self._images = pd.concat(list(self._parts.values())) if self._parts else rows
        self._make_batches = batches

    @functools.cached_property
    def _batches(self) -> dict[str, tf.data.Dataset]:
        return {str(site): self._make_batches(part) for site, part in self._parts.items()}

    def data(self) -> tf.data.Dataset:
        """Of images that are here: (images, labels), as `predict` shows them to the model."""
        return self._batches[""]

    @functools.cached_property
    def _predictor(self) -> Any:
        return at_sites.predictor(self._model, self._element_spec) if self._at_sites else None

    def predict(self, weights: Sequence[np.ndarray], *, last: bool) -> Predictions | None:
        """Finite predictions, in the order of sites and rows.

        None in a round in which a site is away; in the `last` round it is needed, and the run stops.
        """
        if self._predictor is None:
            self._model.set_weights(weights)
            labels, probabilities = classification.finite_predictions(self._model, self._batches[""])
            return Predictions(labels, probabilities, self._images)
        expected = {str(site): self._codes(part) for site, part in self._parts.items()} if self._codes else None
        answers = at_sites.predict(self._engine, self._predictor, weights, self._batches, expected)
        for site, why in answers.missing.items():
            if last:
                raise RunStopped(
                    f"the test images of {site} are needed at the end ({why})."
                    " Run the same command again when it is back."
                )
            return None
        classification.check_finite(answers.probabilities)
        return Predictions(answers.labels, answers.probabilities, self._images)

    def predict_exactly(self, weights: Sequence[np.ndarray]) -> Predictions:
        """As the whole network predicts them, in single precision: what a run stores in the end."""
        if self._predictor is not None or self._exact is None:
            predictions = self.predict(weights, last=True)
            assert predictions is not None  # a site that is away has stopped the run
            return predictions
        self._model.set_weights(weights)
        labels, probabilities = classification.finite_predictions(self._model, self._exact(self._images))
        return Predictions(labels, probabilities, self._images)
