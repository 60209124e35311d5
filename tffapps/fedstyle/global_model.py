"""The trained global model as one file that can be asked anywhere: no pickle, no code in it.

about      JSON: network, size, head, cut, norm, artists, …
w0 … wN    the network's weights
styles     float32 (artists, d): the global styles; zeros where there is none
there      float32 (artists): 1 where there is one
samples    uint8 (artists, k, 64, 64, 3): public pictures of each artist, small, to show
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from preprocessing.npz import DAMAGE
from tffapps import UserError, replacing
from tffapps.fedstyle.data import Federation, pictures_of

if TYPE_CHECKING:
    import tensorflow as tf

    from tffapps.federated.embeddings import Means

FILE = "model.npz"
_SAMPLES, _SIDE = 3, 64
_LARGEST = 4096  # pixels on a side: a file that claims more would fill the memory


@dataclasses.dataclass(frozen=True)
class GlobalModel:
    artists: list[str]
    network: tf.keras.Model
    size: int
    styles: np.ndarray
    there: np.ndarray
    samples: np.ndarray


def save(
    folder: pathlib.Path, network: tf.keras.Model, styles: Means, federation: Federation, about: dict[str, Any]
) -> None:
    """Writes it into a run's folder; `about` has the network, its size and its head."""
    artists, public = federation.pool.classes, federation.pool.part("public")
    samples = np.full((len(artists), _SAMPLES, _SIDE, _SIDE, 3), 255, np.uint8)
    for index, artist in enumerate(artists):
        paths = list(public.path[public.label == artist][:_SAMPLES])
        for position, image in pictures_of(paths).items():
            samples[index, position] = square(image, _SIDE)
    weights = {f"w{number}": value for number, value in enumerate(network.get_weights())}
    text = json.dumps({**about, "artists": artists}, sort_keys=True)
    with replacing(folder / FILE, "wb") as file:
        np.savez(
            file, about=np.array(text), styles=np.asarray(styles.values), there=np.asarray(styles.there),
            samples=samples, **weights,
        )  # fmt: skip


def publish(run: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """From a run's folder to where it is looked for: the file there."""
    with open(run / FILE, "rb") as source, replacing(folder / FILE, "wb") as target:
        shutil.copyfileobj(source, target)
    return folder / FILE


def load(file: pathlib.Path) -> GlobalModel:
    """A model from its file, which may be anything: a UserError then."""
    from models.assembled import assemble
    from models.embedding import embedding_size

    try:
        with np.load(file, allow_pickle=False) as content:
            about = json.loads(str(content["about"]))
            weights = [content[f"w{number}"] for number in range(sum(name[0] == "w" for name in content.files))]
            styles, there, samples = content["styles"], content["there"], content["samples"]
        artists, size = [str(name) for name in about["artists"]], int(about["size"])
        count = len(artists)
        if not 0 < size <= _LARGEST:
            raise ValueError(f"pictures of {size} pixels")
        network = assemble(
            about["model"], input_shape=(size, size, 3), classes=len(artists), head=about["head"], cut=about["cut"],
            norm=about["norm"],
        ).whole  # fmt: skip
        if not all(np.isfinite(value).all() for value in (*weights, styles, there)):
            raise ValueError("it holds values that are not finite")
        network.set_weights(weights)
        width = embedding_size(network)
        wanted = {"styles": (styles, (count, width), "f"), "there": (there, (count,), "f"),
                  "samples": (samples, (count, _SAMPLES, _SIDE, _SIDE, 3), "u")}  # fmt: skip
        for name, (array, shape, kind) in wanted.items():
            if array.shape != shape or array.dtype.kind != kind:
                raise ValueError(f"its {name} are {array.dtype} {array.shape}")
    except FileNotFoundError:
        raise UserError(
            f"{file}: no trained model there; run python -m tffapps.fedstyle first, or say where with --model"
        ) from None
    except (*DAMAGE, TypeError, AttributeError, OverflowError, RecursionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise UserError(f"{file}: not a model of tffapps.fedstyle ({reason}); train again, or fetch it again") from None
    return GlobalModel(artists, network, size, styles, there, samples)


def square(image: np.ndarray, side: int) -> np.ndarray:
    """The middle of a picture, not distorted."""
    height, width = image.shape[:2]
    least = min(height, width)
    top, left = (height - least) // 2, (width - least) // 2
    return cv2.resize(image[top : top + least, left : left + least], (side, side), interpolation=cv2.INTER_AREA)
