"""What the network of a bundle makes of pictures, for a catalogue: one vector of length 1 each."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from models.embedding import embedding_of
from models.style_statistics import style_statistics
from preprocessing import headers, image_bytes
from tffapps import UserError
from tffapps.data import images
from tffapps.errors import Rejected
from tffapps.fedstyle.catalogue import EMBEDDINGS
from tffapps.use.bundle import Bundle
from tffapps.use.folder import SUMS
from tffapps.use.images import Reader

_KINDS = (headers.PNG, headers.JPEG)  # of what comes over the network
MOST_PIXELS = 2**24  # of what comes over the network: 4096 × 4096


class Encoder:
    """A bundle's network up to an embedding; `kind` is one of `catalogue.EMBEDDINGS`."""

    def __init__(self, bundle: Bundle, kind: str) -> None:
        if bundle.segments:
            raise UserError(f"{bundle.path}: gives classes to pixels, it has no embeddings; give a bundle of fedstyle")
        if kind not in EMBEDDINGS:
            raise UserError(f"--embedding {kind}: choose from {', '.join(EMBEDDINGS)}")
        self.kind, self._preprocess = kind, bundle.preprocess
        parts = bundle.parts()
        networks = {
            "penultimate": lambda: [embedding_of(parts.whole)],
            "style": lambda: [style_statistics(parts.whole)],
            "both": lambda: [embedding_of(parts.whole), style_statistics(parts.whole)],
            "frozen": lambda: [tf.keras.Model(parts.whole.input, parts.located().output[0])],
        }[kind]()
        shape = (None, *bundle.preprocess.size, bundle.preprocess.channels)
        self._run: Any = tf.function(
            lambda x: [network(x, training=False) for network in networks], input_signature=[tf.TensorSpec(shape)]
        )
        self.width = sum(network.output_shape[-1] for network in networks)
        # Of all that a vector depends on: prototypes of another network are not to be compared with.
        self.fingerprint = hashlib.sha256((bundle.path / SUMS).read_bytes() + kind.encode()).hexdigest()
        self._lock = threading.Lock()

    def of_files(self, paths: Sequence[str]) -> tuple[np.ndarray, dict[str, str]]:
        """(n, width) of the pictures that can be read, in order, and why others cannot."""
        vectors, problems = [np.zeros((0, self.width), np.float32)], dict[str, str]()
        for batch in Reader(self._preprocess).batches(paths):
            problems |= {paths[place]: why for place, why in batch.problems.items()}
            if len(batch.places):
                vectors.append(self._vectors(batch.pixels))
        return np.concatenate(vectors), problems

    def of_bytes(self, contents: bytes) -> np.ndarray:
        """(width,) of a PNG or JPEG from a stranger. Raises `Rejected`."""
        image_bytes_checked(contents)
        try:
            image = images.decode(tf.constant(self._preprocess(contents)), self._preprocess.channels)
        except tf.errors.InvalidArgumentError:
            raise Rejected("damaged: it cannot be decoded") from None
        return self._vectors(images.fit(image, self._preprocess.size)[tf.newaxis])[0]

    def warm(self) -> None:
        """Traces the network, so that the first who asks waits no longer than others."""
        self._run(tf.zeros((1, *self._run.input_signature[0].shape[1:])))

    def _vectors(self, pixels: Any) -> np.ndarray:
        with self._lock:  # one picture at a time, however many ask
            parts = [unit(part.numpy()) for part in self._run(pixels)]
        found = unit(np.concatenate(parts, axis=1))
        if not np.isfinite(found).all():
            raise Rejected("the network has no finite embedding of it")
        return found


def image_bytes_checked(contents: bytes) -> np.ndarray:
    """The pixels of a PNG or JPEG from a stranger, as OpenCV has them. Raises `Rejected`; sizes are asked first."""
    import cv2

    kind = headers.kind_of(contents[: headers.FIRST])
    if kind not in _KINDS:
        raise Rejected(f"not a {' or '.join(_KINDS)} picture")
    size = headers.size_of(contents, kind)
    if size is None:
        raise Rejected("damaged: it does not say how large it is")
    if size[0] * size[1] > MOST_PIXELS:
        raise Rejected(f"too large: {size[0]} × {size[1]} pixels, {MOST_PIXELS} allowed; make it smaller")
    return image_bytes.decode(contents, cv2.IMREAD_COLOR)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
