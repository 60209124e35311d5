"""Finding the files that cannot be read as images before a run trips over them."""

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import tensorflow as tf

from preprocessing import budget, formats, headers
from tffapps.data import images
from tffapps.data.manifest import named
from tffapps.errors import Rejected, UserError
from tffapps.files import short
from tffapps.progress import track

_SHOWN = 3
_MANY = 5000  # reading them takes long enough for a bar
_PLAIN = (headers.PNG, headers.JPEG, headers.BMP)
_ENDS = {b"\x89PNG": ("PNG", b"IEND\xaeB`\x82"), b"\xff\xd8\xff": ("JPEG", b"\xff\xd9")}


def find_unreadable(paths: Sequence[str], channels: int, progress: str | None = None) -> dict[str, str]:
    """The paths that cannot be decoded, each with a one-line reason; `progress` is the title of a bar."""
    shape = _shape_function(channels)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reasons = pool.map(lambda path: _reason(path, shape), paths)
        tracked = track(reasons, len(paths), progress or "", show=progress is not None)
        # The tracked ones first: zip then runs them to their end, which closes the bar.
        return {str(path): reason for reason, path in zip(tracked, paths) if reason}


def drop_unreadable(
    manifest: pd.DataFrame, channels: int, progress: str | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows whose image can be read, and a table (path, client, reason) of those left out."""
    reasons = find_unreadable(list(manifest.path), channels, progress)
    bad = manifest.path.isin(list(reasons))
    dropped = manifest.loc[bad, ["path", "client"]]
    dropped["reason"] = dropped.path.map(reasons).astype(str)
    dropped = dropped.assign(path=named(manifest)[bad]).reset_index(drop=True)
    return manifest[~bad].reset_index(drop=True), dropped


def readable(manifest: pd.DataFrame, noun: str, channels: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`drop_unreadable`, with a bar where there are many; a UserError with the first reasons where none is left."""
    table, rejected = drop_unreadable(manifest, channels, f"reading the {noun}" if len(manifest) > _MANY else None)
    if table.empty and len(rejected):
        shown = "; ".join(f"{short(path)}: {why}" for path, why in zip(rejected.path[:_SHOWN], rejected.reason))
        raise UserError(f"--data: none of its {len(rejected)} {noun} can be read; {shown}")
    return table, rejected


@functools.cache
def _shape_function(channels: int) -> Callable[[bytes], tf.Tensor]:
    @tf.function(input_signature=[tf.TensorSpec((), tf.string)])
    def shape(contents):
        return tf.shape(images.decode(contents, channels))

    return shape


def _reason(path: str, shape: Callable[[bytes], tf.Tensor]) -> str:
    """Why a file cannot be read, or nothing."""
    try:
        with open(path, "rb") as file:
            budget.check_bytes(os.fstat(file.fileno()).st_size)
            contents = file.read()
        kind = headers.kind_of(contents[: headers.FIRST])
        if kind in _PLAIN:
            budget.check_pixels(*(headers.size_of(contents, kind) or (0, 0)))
        elif contents:
            kind = formats.check(contents)
            return f"{kind} under the name of another format; give it the ending that {kind} files have"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    except Rejected as rejected:
        return str(rejected)
    if not contents:
        return "empty file"
    try:
        with tf.device("/CPU:0"):
            height, width, _ = shape(contents).numpy()
    except (tf.errors.OpError, UnicodeDecodeError):  # TensorFlow's message may quote bytes of the file
        return _damage(contents)
    return "" if height and width else "no pixels"


def _damage(contents: bytes) -> str:
    for magic, (name, end) in _ENDS.items():
        if contents.startswith(magic):
            # Some programs pad files, so the end mark need not be the last thing.
            return f"damaged {name}" if end in contents[-1024:] else f"truncated {name}"
    declared = int.from_bytes(contents[2:6], "little")
    return "truncated BMP" if len(contents) < max(declared, 54) else "damaged or unsupported BMP"
