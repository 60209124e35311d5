"""A bundle's network as a file for other programs, compared with the bundle before it is called done.

Inside the file: the scaling of pixels, grey to three channels where the network wants them, normalisation, calibration.
Not inside: decoding, resizing (bilinear, averaging where it shrinks) and the steps of the bundle that prepare an image;
what lies beside it as JSON says which.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from models.standalone import standalone
from models.stored import shown
from tffapps.errors import UserError
from tffapps.files import replacing
from tffapps.use.bundle import FILE, NOT_A_DEVICE, Bundle
from tffapps.use.folder import SUMS
from tffapps.use.formats import FORMATS, check_installed
from tffapps.use.images import Reader

LARGEST = 1e-4  # difference of a probability that is called the same
_BATCH = 8


class Exported(NamedTuple):
    """A file, and how far its answers are from the bundle's."""

    path: Path
    beside: Path  # the JSON
    difference: float  # the largest of a probability
    images: int  # that were compared


def export(bundle: Bundle, to: str, path: Path, *, which: str = "", images: Sequence[str] = ()) -> Exported:
    """Writes the file and its JSON, or neither.

    Args:
      bundle: whose network it is.
      to: one of FORMATS.
      path: of the file; of a folder for "savedmodel", which must not be there yet.
      which: "last", "chosen" or "" for the one that stands for the run.
      images: paths of images to compare with, beside made ones.
    """
    check_installed(to)
    if to == "savedmodel" and os.path.lexists(path):
        raise UserError(f"-o {path}: is there already; remove it, or choose another name")
    if to != "savedmodel" and path.is_dir():
        raise UserError(f"-o {path}: a folder; name a file for --to {to}")
    if not path.parent.is_dir():
        raise UserError(f"-o {path}: no folder {path.parent}; make it first")
    which = bundle.named(which)
    seen = np.concatenate([made_images(bundle), *_read(bundle, images)])
    model = bundle.model(which)
    wanted, temperature = _wanted(bundle, model, which, seen)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{path.suffix}")  # Keras looks at how a name ends
    try:
        try:
            FORMATS[to].write(standalone(model, temperature), temporary)
            answers = FORMATS[to].read(temporary)
            found = np.concatenate([answers(255 * part) for part in _parts(seen)])
        except Exception as error:  # of four libraries, which have no common one
            raise UserError(f"--to {to}: this network cannot be written so ({shown(error)}); choose another") from error
        difference = float(np.abs(found - wanted).max()) if found.shape == wanted.shape else np.inf
        if not difference <= LARGEST:
            raise UserError(
                f"--to {to}: its answers differ from the bundle's by {difference:.2g}, more than {LARGEST:g}; "
                "nothing was written, choose another format"
            )
        beside = path.with_name(f"{path.name}.json")
        with replacing(beside) as file:
            json.dump(_about(bundle, which, to, temperature, difference, len(seen)), file, indent=1)
            os.replace(temporary, path)  # first: the JSON is there when this block has ended
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if temporary.is_file():
            temporary.unlink()
    return Exported(path, beside, difference, len(seen))


def made_images(bundle: Bundle, seed: int = 0) -> np.ndarray:
    """Images that no bundle has to store: noise of four sizes of grain, black, white and two ramps."""
    (height, width), channels = bundle.preprocess.size, bundle.preprocess.channels
    generator, found = np.random.default_rng(seed), []
    for grain in (1, 2, 8, 32):
        coarse = generator.random((-(-height // grain), -(-width // grain), channels), np.float32)
        found.append(np.kron(coarse, np.ones((grain, grain, 1), np.float32))[:height, :width])
    down, right = np.linspace(0, 1, height)[:, None, None], np.linspace(0, 1, width)[None, :, None]
    found += [np.broadcast_to(value, (height, width, channels)) for value in (0 * down, 0 * down + 1, down, right)]
    return np.stack(found).astype(np.float32)


def _read(bundle: Bundle, images: Sequence[str]) -> list[np.ndarray]:
    found = []
    for batch in Reader(bundle.preprocess).batches(images) if images else ():
        for place, reason in batch.problems.items():
            raise UserError(f"--check {images[place]}: {reason}; leave it out")
        found.append(batch.pixels.numpy())
    return found


def _wanted(bundle: Bundle, model: tf.keras.Model, which: str, seen: np.ndarray) -> tuple[np.ndarray, float]:
    """What the bundle answers, as `tffapps predict` shows it, and the temperature in that."""
    decision = bundle.decisions[which]
    plain = np.concatenate([model(part, training=False).numpy() for part in _parts(seen)])
    if bundle.segments or not decision.images:
        return plain, 1.0
    return decision.calibrated(plain), decision.temperature


def _parts(seen: np.ndarray) -> list[np.ndarray]:
    return [seen[start : start + _BATCH] for start in range(0, len(seen), _BATCH)]


def _about(bundle: Bundle, which: str, to: str, temperature: float, difference: float, images: int) -> dict[str, Any]:
    (height, width), channels = bundle.preprocess.size, bundle.preprocess.channels
    return {
        "notice": NOT_A_DEVICE,
        "format": to,
        "classes": list(bundle.classes),
        "input": {
            "pixels": "float32, 0 to 255", "shape": [1 if to == "tflite" else "n", height, width, channels],
            "channels": "red, green, blue" if channels == 3 else "grey: 0.299 red + 0.587 green + 0.114 blue",
            "resize": "bilinear, with antialiasing where it shrinks, proportions not kept",
            "steps before": [step.as_json() for step in bundle.preprocess.steps],
        },
        "output": "probabilities of the classes" + (" of every pixel" if bundle.segments else ""),
        "temperature": temperature,
        "unsure below": bundle.decisions[which].unsure_below,
        "checked": {"images": images, "largest difference": difference},
        "bundle": {
            "system": bundle.system, "model": which, "network": bundle.network.as_json(),
            "sha256 of its SHA256SUMS": hashlib.sha256((bundle.path / SUMS).read_bytes()).hexdigest(),
            "described in": FILE,
        },
    }  # fmt: skip
