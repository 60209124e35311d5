"""What the global model says about pictures: artists ranked by probability, and how near their styles are."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tffapps.fedstyle.data import Federation
from tffapps.fedstyle.global_model import GlobalModel

RANKINGS = ("probability", "style")
_BATCH = 32


@dataclasses.dataclass(frozen=True)
class Answers:
    """One row a picture."""

    model: GlobalModel
    paths: list[str]
    probabilities: np.ndarray  # (pictures, artists)
    cosines: np.ndarray  # (pictures, artists): to the global styles; NaN where an artist has none
    known: list[str]  # the right artist of each picture, "" where nobody says

    def ranking(self, by: str = "probability") -> np.ndarray:
        """(pictures, artists): positions of artists in the model's list, the likeliest first."""
        scores = self.probabilities if by == "probability" else np.nan_to_num(self.cosines, nan=-2.0)
        return np.argsort(-scores, axis=1, kind="stable")

    def table(self, top: int, by: str = "probability") -> pd.DataFrame:
        """picture, rank, artist, probability, cosine, and where known the right artist; `top` rows for each picture."""
        rows = [
            {
                "picture": path, "rank": rank, "artist": self.model.artists[index],
                "probability": self.probabilities[row, index], "cosine": self.cosines[row, index],
                **({"right": self.known[row]} if any(self.known) else {}),
            }
            for (row, path), order in zip(enumerate(self.paths), self.ranking(by))
            for rank, index in enumerate(order[:top], start=1)
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def right_ranks(self, by: str = "probability") -> np.ndarray:
        """Where the right artist came, from 1, for pictures whose artist is known to the model."""
        ranks = np.argsort(self.ranking(by), axis=1) + 1  # (pictures, artists)
        artists = self.model.artists
        return np.array([ranks[row, artists.index(name)] for row, name in enumerate(self.known) if name in artists])


def ask(model: GlobalModel, paths: Sequence[str], known: Sequence[str] | None = None) -> Answers:
    """One pass over all pictures, which must be readable."""
    import tensorflow as tf

    from models.embedding import with_embedding
    from tffapps.data import images, pipeline

    paths = [str(path) for path in paths]
    reader = images.Reader((model.size, model.size), 3, images.formats_of(paths))
    batches = pipeline.of_files(paths, np.zeros(len(paths), np.int32), reader, batch=_BATCH, shuffle=False)
    run = tf.function(with_embedding(model.network), reduce_retracing=True)
    pairs = [run(pictures, training=False) for pictures, _ in batches]
    vectors = np.concatenate([embeddings.numpy() for embeddings, _ in pairs])
    probabilities = np.concatenate([outputs.numpy() for _, outputs in pairs])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True) * np.linalg.norm(model.styles, axis=1)
    cosines = np.divide(vectors @ model.styles.T, lengths, out=np.full_like(probabilities, np.nan), where=lengths > 0)
    cosines[:, model.there == 0] = np.nan
    return Answers(model, paths, probabilities, cosines, list(known) if known else [""] * len(paths))


def of_test_pictures(model: GlobalModel, federation: Federation) -> Answers:
    """A model asked about every test picture."""
    rows = federation.pool.part("test")
    return ask(model, list(rows.path), list(rows.label))
