"""What a frozen base makes of the images, worked out once and kept on disk.

A frozen network is the same function in every epoch, so without augmentation its output can be stored: the rounds
then train the head alone. Where a method lives from augmented views (FixMatch), a fixed number of them is stored for
each image and every epoch draws one.

    <folder>/3f/a2/3fa2….f16        float16 (views, *shape of the features)

The key is made of the image's content, the base, and how the views are made: a changed image, other weights or
another augmentation is worked out anew. A view's random numbers come from the image's content, so a run that was
killed goes on to the same files. Half precision costs less than the input's 8 bits do.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tffapps.data import images
from tffapps.files import replacing
from tffapps.progress import track

BATCH = 32


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads stored features for `pipeline.of_files`; with several views, `pick_view` is the augmentation."""

    shape: tuple[int, ...]
    views: int = 1

    def __call__(self, path: tf.Tensor) -> tf.Tensor:
        values = tf.io.decode_raw(tf.io.read_file(path), tf.float16)
        values = tf.reshape(values, (self.views, *self.shape))
        return tf.cast(values[0], tf.float32) if self.views == 1 else values


def pick_view(views: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """One of an image's stored views."""
    number = tf.random.stateless_uniform([], seed, maxval=tf.shape(views)[0], dtype=tf.int32, alg="philox")
    return tf.cast(views[number], tf.float32)


def stored_features(
    paths: Sequence[str],
    base: tf.keras.Model,
    base_name: str,
    read: images.Reader,
    folder: Path,
    *,
    augment: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
    views: int = 1,
    title: str = "features",
) -> list[str]:
    """The file with the features of each image. `base_name` must change whenever the base's function does."""
    how = f"{base_name}|{read.size}|{read.channels}|{augment.__name__ if augment else 'none'}|{views}\0".encode()
    keys = {path: hashlib.sha256(how + Path(path).read_bytes()).hexdigest() for path in dict.fromkeys(paths)}
    files = {path: folder / key[:2] / key[2:4] / f"{key}.f16" for path, key in keys.items()}
    todo = {file: path for path, file in files.items() if not file.exists()}
    for _ in track(_fill(todo, keys, base, read, augment, views), len(todo), title, bool(todo)):
        pass
    return [str(files[path]) for path in paths]


def _fill(
    todo: dict[Path, str], keys: dict[str, str], base: tf.keras.Model, read: images.Reader, augment: Any, views: int
) -> Iterator[None]:
    batches = _views(list(todo.values()), [keys[path] for path in todo.values()], read, augment, views)
    run = tf.function(lambda x: base(x, training=False), input_signature=[tf.TensorSpec((None, *read.shape))])
    files = iter(todo)
    for batch in batches if todo else ():
        features = run(tf.reshape(batch, (-1, *read.shape))).numpy().astype(np.float16)
        for values in features.reshape(len(batch), -1):
            with replacing(next(files), "wb") as file:
                file.write(values.tobytes())
            yield


def _views(paths: list[str], keys: list[str], read: images.Reader, augment: Any, views: int) -> tf.data.Dataset:
    """Batches of (batch, views, *image)."""
    seeds = np.array([np.frombuffer(bytes.fromhex(key[:16]), np.int32) for key in keys], np.int32).reshape(-1, 2)

    def load(path: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        image = read(path)
        if augment is None:
            return image[tf.newaxis]
        folds = (tf.random.experimental.stateless_fold_in(seed, number, alg="philox") for number in range(views))
        return tf.stack([augment(image, fold) for fold in folds])

    dataset = tf.data.Dataset.from_tensor_slices((tf.constant(paths, tf.string), tf.constant(seeds)))
    return dataset.map(load, tf.data.AUTOTUNE, deterministic=True).batch(max(1, BATCH // views)).prefetch(2)
