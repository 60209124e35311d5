"""FedTransfer's work at a site, asked for by a coordinator (`tffapps.wire.jobs`): tiles, labels and paintings stay.

    tiles       cuts and divides the site's micrographs    answers each tile's splits, size, how labels are written
    generator   trains on the site's own tiles             answers the file that the others are sent
    painting    paints the site's labels with others'      answers hashes
    grains      tests a U-Net on the site's test tiles     answers each tile's metrics

Each is what a client does in one process, by the same functions.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from preprocessing.pix2pix_settings import PRECISIONS
from tffapps.data import manifest, micrographs
from tffapps.data.micrograph_labels import Coding
from tffapps.errors import UserError
from tffapps.fedtransfer import GeneratorFlags, Settings, data
from tffapps.fedtransfer.request import GENERATOR, NETWORK, TILING, TRAINING, number_in, settings_of
from tffapps.settings import pick
from tffapps.wire.jobs import file_name, link_all
from tffapps.wire.messages import Message

if TYPE_CHECKING:
    from tffapps.fedtransfer.painter import Painter

MASK = ".mask"  # beside a tile
_SEEDS = 2**32


def tiles(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """`splits` (folds, tiles) has places in `manifest.SPLITS`; tiles are files in the same order."""
    folds, codings = _cut(rows, settings_of(request, TILING))
    (coding,) = codings.values()
    link_all(folder, list(folds[0].path))
    for number, mask in enumerate(folds[0]["mask"]):
        (folder / (file_name(number) + MASK)).symlink_to(mask)
    words = {
        "coding": dataclasses.asdict(coding),
        "sizes": [list(size) for size in data.sizes_of(folds[0])],
        "keys": [manifest.fingerprint(fold) for fold in folds],
    }
    splits = [[manifest.SPLITS.index(split) for split in fold.split] for fold in folds]
    return Message(words, {"splits": np.array(splits, np.int8)})


def generator(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    from tffapps.fedtransfer.painter import FILE, send  # imports TensorFlow, which cutting tiles does not need

    settings, seed, precision = settings_of(request, TRAINING), number_in(request, "seed", _SEEDS), _precision(request)
    own = _to_train_with(request, rows, settings)
    trained = _painter(settings).trained(str(own.client.iloc[0]), own, seed)
    file = folder / FILE
    send(trained / FILE, file, precision)
    content = np.frombuffer(file.read_bytes(), np.uint8)
    file.unlink()
    return Message({}, {"generator": content})


def painting(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """The arrays are generators; the images of the first come first, in the order of the tiles."""
    settings, precision = settings_of(request, GENERATOR), _precision(request)
    own = _to_train_with(request, rows, settings)
    painter = _painter(settings)
    architecture, paths = painter.architecture(data.one_size(data.sizes_of(own))), []
    for place, content in enumerate(_arrays(request)):
        file = folder / f"received-{place}.npz"
        file.write_bytes(content.tobytes())
        paths += painter.paint(own, file, architecture, precision, f"painting with generator {place + 1}")
        file.unlink()
    link_all(folder, paths)
    return Message({"names": [Path(path).name for path in paths]})


def grains(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """The arrays are the weights of a U-Net; `scores` is (tiles, METRICS)."""
    from tffapps.fedtransfer.inputs import Inputs
    from tffapps.fedtransfer.judge import Judge

    del folder
    settings = settings_of(request, NETWORK)
    table = _cut(rows, settings)[0][0]  # test tiles are the same in every fold
    own, weights = table[table.split == "test"], _arrays(request)
    inputs = Inputs(pick(Settings, settings), data.one_size(data.sizes_of(own)))
    if [array.shape for array in weights] != [tuple(variable.shape) for variable in inputs.model.weights]:
        raise UserError("the weights sent are not those of the U-Net asked for")
    judge = Judge(inputs.model, inputs.in_order, inputs.loss, inputs.spec)
    return Message({}, {"scores": judge.grains(own, weights)})


def _to_train_with(request: Message, rows: pd.DataFrame, settings: Mapping[str, Any]) -> pd.DataFrame:
    fold = number_in(request, "fold", settings["folds"])
    table = _cut(rows, settings)[0][fold]
    return table[table.split == "train"]


def _cut(rows: pd.DataFrame, settings: Mapping[str, Any]) -> tuple[list[pd.DataFrame], dict[str, Coding]]:
    """What was cut before is found again."""
    try:
        return data.cut(micrographs.listed(rows, "the site's data"), settings)
    except UserError as error:
        print(error, file=sys.stderr)  # for the site alone
        raise UserError(_without_names(str(error), rows)) from None


def _without_names(text: str, rows: pd.DataFrame) -> str:
    """A line that may leave the site: files' and micrographs' names do not."""
    paths = [Path(path) for column in ("path", "mask") if column in rows for path in rows[column]]
    stems = [path.stem for path in paths]
    names = {*stems, *(path.name for path in paths), *micrographs.micrograph_names(stems)}
    if "subject" in rows:
        names |= {subject.rpartition("/")[2] for subject in rows.subject}
    known = "|".join(re.escape(name) for name in sorted(filter(None, names), key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{known})(?!\w)", "…", text) if known else text


def _painter(settings: dict[str, Any]) -> Painter:
    from tffapps.fedtransfer.painter import Painter

    return Painter(pick(GeneratorFlags, settings), settings["channels"])


def _precision(request: Message) -> str:
    precision = request.fields.get("precision")
    if precision not in PRECISIONS:
        raise UserError(f"a request for the precision {precision!r:.30}; there are {', '.join(PRECISIONS)}")
    return precision


def _arrays(request: Message) -> list[np.ndarray]:
    """Those of a request are called 0, 1, …"""
    if set(request.arrays) != {str(place) for place in range(len(request.arrays))}:
        raise UserError("a request whose arrays are not numbered")
    return [request.arrays[str(place)] for place in range(len(request.arrays))]
