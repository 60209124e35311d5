"""What a frozen base makes of the images, worked out once and kept on disk: features, or activations of a middle layer.

A frozen network is the same function in every epoch, so without augmentation its output can be stored: the rounds
then train what is above it alone. Where a method lives from augmented views (FixMatch), a fixed number of them is
stored for each image and every epoch draws one.

    <folder>/<network>-<key>/about.json        network, weights, cut, size of the images, shape, view; touched when used
    <folder>/<network>-<key>/3f/a2….f16        float16 (views, *shape), named by the SHA-256 of the image's content
    <folder>/digests.json                      see `tffapps.data.digests`

The key is made of the base and of how the views are made: a changed image, other weights or another augmentation is
worked out anew. A view's random numbers come from the image's content, so a run that was killed goes on to the same
files. A file that has not the right size is made anew. Half precision costs less than the input's 8 bits do.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tffapps.data import digests, images
from tffapps.data.unreadable import find_unreadable
from tffapps.errors import UserError
from tffapps.files import as_name, replacing
from tffapps.progress import track

BATCH = 32
_WRITERS = 8
ABOUT = "about.json"
MEMO = "digests.json"
SUFFIXES = {tf.float16: ".f16", tf.float32: ".f32"}  # single precision is for tests of exactness

Augment = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads stored features for `pipeline.of_files`; with several views, `pick_view` is the augmentation."""

    shape: tuple[int, ...]
    views: int = 1
    dtype: tf.DType = tf.float16

    required = True  # a file was there when its pipeline was made: without it an image would be missing, unsaid

    def __call__(self, path: tf.Tensor) -> tf.Tensor:
        values = tf.io.decode_raw(tf.io.read_file(path), self.dtype)
        values = tf.reshape(values, (self.views, *self.shape))
        return tf.cast(values[0], tf.float32) if self.views == 1 else values

    def fits(self, file: str | Path) -> bool:
        """Whether a file is there, and has the size that it must have."""
        try:
            return os.stat(file).st_size == self.views * math.prod(self.shape) * self.dtype.size
        except OSError:
            return False


def pick_view(views: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """One of an image's stored views."""
    return tf.cast(views[view_number(tf.shape(views)[0], seed)], tf.float32)


def view_number(views: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    return tf.random.stateless_uniform([], seed, maxval=views, dtype=tf.int32, alg="philox")


def stored_features(
    paths: Sequence[str],
    base: tf.keras.Model,
    base_name: str,
    read: images.Reader,
    folder: Path,
    *,
    augment: Augment | None = None,
    views: int = 1,
    title: str = "features",
    dtype: tf.DType = tf.float16,
    about: Mapping[str, Any] | None = None,
) -> list[str]:
    """The file with the features of each image.

    Args:
      paths: the images.
      base: what is stored of them.
      base_name: must change whenever the base's function does.
      read: how the base sees them.
      folder: for features of any base.
      augment: makes the views; None: one view, the image as it is.
      views: how many of each image.
      title: of the bar.
      dtype: one of SUFFIXES.
      about: what `python -m tffapps cache` says of the base: its `network`, `weights` and `cut`.
    """
    if augment is None and views != 1:
        raise ValueError(f"{views} views of images that are not augmented would all be the same")
    how = f"{base_name}|{read.size}|{read.channels}|{augment.__name__ if augment else 'none'}|{views}\0".encode()
    stored = Reader(tuple(base.output_shape[1:]), views, dtype)
    known = {"network": base.name, **(about or {})}
    key = hashlib.sha256(how + SUFFIXES[dtype].encode()).hexdigest()
    place = folder / f"{as_name(str(known['network']))}-{key[:12]}"
    view = augment.__name__ if augment else "plain"
    made = {"size": read.shape, "view": view, "views": views, "shape": stored.shape, "dtype": dtype.name}
    _describe(place / ABOUT, known | made)
    hashes = digests.sha256_of(paths, folder / MEMO)
    files = {path: place / sha[:2] / f"{sha[2:]}{SUFFIXES[dtype]}" for path, sha in hashes.items()}
    todo = {file: path for path, file in files.items() if not stored.fits(file)}  # equal images once
    if todo:
        seeds = _seeds(todo.values(), how) if augment else np.zeros((len(todo), 2), np.int32)
        batches = _views(list(todo.values()), seeds, read, augment, views)
        clipped = sum(track(_fill(todo, batches, base, read, stored), len(todo), title))
        if clipped:
            largest = np.finfo(np.float16).max
            print(
                f"{title}: {clipped} images with values beyond {largest:.0f}, stored as {largest:.0f}", file=sys.stderr
            )
    return [str(files[path]) for path in paths]


def _describe(file: Path, about: dict[str, Any]) -> None:
    """Says what the folder holds, and by its time that it is in use."""
    if not file.exists():
        with replacing(file) as out:
            json.dump(about, out, indent=1, sort_keys=True, default=str)
    with contextlib.suppress(OSError):  # a cache that may only be read
        os.utime(file)


def _fill(
    todo: Mapping[Path, str], batches: Iterable[tf.Tensor], base: tf.keras.Model, read: images.Reader, stored: Reader
) -> Iterator[bool]:
    """Writes the files; of each, in order, whether a value was too large for its type."""
    run = tf.function(lambda x: base(x, training=False), input_signature=[tf.TensorSpec((None, *read.shape))])
    left = iter(todo.items())
    writing: list[Future[bool]] = []
    # Until a file is surely on the disk takes as long as the base does: many wait for that at once, and the next batch
    # is worked out meanwhile.
    with ThreadPoolExecutor(_WRITERS) as pool:
        for batch in batches:
            features = run(tf.reshape(batch, (-1, *read.shape))).numpy().reshape(len(batch), -1)
            yield from (file.result() for file in writing)
            writing = []
            for values in features:
                file, path = next(left)
                if not np.isfinite(values).all():
                    text = "makes numbers of it that are not finite; choose other --weights"
                    raise UserError(f"{path}: {base.name} {text}")
                writing.append(pool.submit(_write, file, values, stored.dtype.as_numpy_dtype))
        yield from (file.result() for file in writing)


def _write(file: Path, values: np.ndarray, dtype: type[np.floating]) -> bool:
    """Whether a value was too large, and was brought to the largest that the type has."""
    limits = np.finfo(dtype)
    with replacing(file, "wb") as out:
        out.write(np.clip(values, limits.min, limits.max).astype(dtype).tobytes())
    return bool(np.abs(values).max(initial=0) > limits.max)


def _seeds(paths: Iterable[str], how: bytes) -> np.ndarray:
    """int32 (n, 2): of an image's content and of how it is seen."""
    hashes = (hashlib.sha256(how + Path(path).read_bytes()) for path in paths)
    return np.stack([np.frombuffer(each.digest()[:8], np.int32) for each in hashes])


def _views(
    paths: list[str], seeds: np.ndarray, read: images.Reader, augment: Augment | None, views: int
) -> Iterator[tf.Tensor]:
    """Batches of (batch, views, *image). A UserError names an image that cannot be read."""

    def load(path: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        image = read(path)
        if augment is None:
            return image[tf.newaxis]
        folds = (tf.random.experimental.stateless_fold_in(seed, number, alg="philox") for number in range(views))
        return tf.stack([augment(image, fold) for fold in folds])

    size = max(1, BATCH // views)
    dataset = tf.data.Dataset.from_tensor_slices((tf.constant(paths, tf.string), tf.constant(seeds)))
    batches = iter(dataset.map(load, tf.data.AUTOTUNE, deterministic=True).batch(size).prefetch(2))
    for first in range(0, len(paths), size):
        try:
            batch = next(batches)
        except tf.errors.OpError:
            for path, reason in find_unreadable(paths[first : first + size], read.channels).items():
                raise UserError(f"{path}: {reason}; it could be read before: run the command again") from None
            raise
        yield batch
