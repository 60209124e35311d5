"""The images that a command is given, listed and read: what a bundle's network sees of each, in batches.

Files are read and decoded on all cores while the network works, and a few batches are in memory however many there are.
A file that cannot be used is told with its reason, in its place.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from preprocessing import formats, headers
from preprocessing.suffixes import SUFFIXES
from tffapps.data import images
from tffapps.data.manifest import natural_key
from tffapps.data.unreadable import find_unreadable
from tffapps.errors import Rejected, UserError
from tffapps.use.bundle import Preprocess

BATCH = 32
_DECODED = (headers.PNG, headers.JPEG, headers.BMP)  # by the pipeline itself; other formats become PNG first


def listed(given: Sequence[Path]) -> list[str]:
    """Paths of images: files, folders of them, and CSV files with a column `path`; each once."""
    paths: list[str] = []
    for one in given:
        if one.is_dir():
            paths += _in_folder(one)
        elif one.suffix.lower() == ".csv":
            paths += _in_table(one)
        elif one.exists():
            paths.append(str(one))
        else:
            raise UserError(f"{one}: no such file or folder; give images, folders of images or a CSV of paths")
    return list(dict.fromkeys(paths))


def _in_folder(folder: Path) -> list[str]:
    inside = [str(path) for path in folder.rglob("*") if path.is_file() and formats.is_image(path)]
    if not inside:
        raise UserError(f"{folder}: no images ({', '.join(SUFFIXES)}) in it")
    return sorted(inside, key=natural_key)


def _in_table(file: Path) -> list[str]:
    """Relative paths start at the table's folder. Files that are not there are told when their turn comes."""
    try:
        with open(file, newline="", encoding="utf-8-sig") as lines:
            rows = csv.DictReader(lines, skipinitialspace=True)
            if "path" not in (rows.fieldnames or []):
                raise UserError(f"{file}: no column path; its first line must name one")
            found = [row["path"] for row in rows]
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); give a CSV of paths") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{file}: not a CSV table ({error}); save it as comma-separated UTF-8") from None
    if not all(found):
        raise UserError(f"{file}: a row with an empty path; fill it in or remove it")
    return [str(file.parent / path) for path in found]


class Batch(NamedTuple):
    """Images that could be read, and why others could not; together they are the next paths in order."""

    places: np.ndarray  # (n,) in the list of paths
    pixels: tf.Tensor  # float32 (n, height, width, channels)
    problems: dict[int, str]  # place → reason


class Reader:
    """Reads image files for one bundle's network."""

    def __init__(self, preprocess: Preprocess) -> None:
        self._preprocess = preprocess
        self._reasons: dict[str, str] = {}

    def batches(self, paths: Sequence[str], batch: int = BATCH) -> Iterator[Batch]:
        """All paths, in order."""
        dataset = tf.data.Dataset.from_tensor_slices(
            (tf.range(len(paths), dtype=tf.int64), tf.constant([os.fsencode(path) for path in paths], tf.string))
        )
        dataset = dataset.map(self._example, tf.data.AUTOTUNE, deterministic=True).ignore_errors()
        following = 0
        for places, pixels in dataset.batch(batch).prefetch(2):
            numbers = places.numpy()
            missing = sorted(set(range(following, numbers[-1] + 1)) - set(numbers.tolist()))
            yield Batch(numbers, pixels, self._problems(paths, missing))
            following = int(numbers[-1]) + 1
        if following < len(paths):
            none = np.zeros(0, np.int64)
            shape = (0, *self._preprocess.size, self._preprocess.channels)
            yield Batch(none, tf.zeros(shape), self._problems(paths, range(following, len(paths))))

    def _example(self, place: tf.Tensor, path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        contents = tf.ensure_shape(tf.numpy_function(self._contents, [path], tf.string), ())
        image = images.decode(contents, self._preprocess.channels)
        return place, images.fit(image, self._preprocess.size)

    def _contents(self, path: bytes) -> bytes:
        """The one place where a file is read: as PNG, JPEG or BMP, prepared. Of what cannot be used, nothing."""
        name = os.fsdecode(path)
        try:
            kind = formats.header(name).kind  # first: an image may be larger than memory
            contents = Path(name).read_bytes()
            return self._preprocess(contents if kind in _DECODED else formats.to_png(contents))
        except Rejected as rejected:
            self._reasons[name] = str(rejected)
        except OSError as error:
            self._reasons[name] = "missing" if isinstance(error, FileNotFoundError) else str(error.strerror)
        return b""

    def _problems(self, paths: Sequence[str], places: Sequence[int]) -> dict[int, str]:
        known = {place: self._reasons.pop(paths[place], "") for place in places}
        unknown = find_unreadable([paths[place] for place, reason in known.items() if not reason], 3)
        return {place: reason or unknown.get(paths[place], "cannot be decoded") for place, reason in known.items()}
