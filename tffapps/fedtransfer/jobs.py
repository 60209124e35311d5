"""FedTransfer's work at a site, asked for by a coordinator (`tffapps.wire.jobs`): tiles, labels and paintings stay.

    tiles       cuts and divides the site's micrographs    answers each tile's splits, size, how labels are written
    generator   trains on the site's own tiles             answers the file that the others are sent
    painting    paints the site's labels with others'      answers hashes
    grains      tests a U-Net on the site's test tiles     answers each tile's metrics

Each is what a client does in one process, by the same functions.
"""

import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from preprocessing.pix2pix_settings import PRECISIONS
from tffapps import Flags, Message, UserError
from tffapps.data import manifest, micrographs
from tffapps.data.micrograph_labels import Coding
from tffapps.data.published import MASK
from tffapps.fedtransfer import GeneratorSettings, TileSettings, UNetSettings, data
from tffapps.fedtransfer.request import arrays_in, number_in, settings_in
from tffapps.site.jobs import Job, link_all
from tffapps.wire.jobs import file_name

_SEEDS = 2**32


def tiles(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """`splits` (folds, tiles) has positions in `manifest.SPLITS`; tiles are files in the same order."""
    folds, codings = _cut(rows, settings_in(request, TileSettings))
    (coding,) = codings.values()
    link_all(folder, list(folds[0].path))
    for number, mask in enumerate(folds[0]["mask"]):
        (folder / (file_name(number) + MASK)).symlink_to(mask)
    fields = {
        "coding": dataclasses.asdict(coding),
        "sizes": [list(size) for size in data.sizes_of(folds[0])],
        "keys": [manifest.fingerprint(fold) for fold in folds],
    }
    splits = [[manifest.SPLITS.index(split) for split in fold.split] for fold in folds]
    return Message(fields, {"splits": np.array(splits, np.int8)})


def generator(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """The array is the file, as bytes."""
    from tffapps.fedtransfer.painter import FILE, Painter, send  # imports TensorFlow: cutting tiles does without

    settings = settings_in(request, TileSettings, GeneratorSettings)
    seed, precision = number_in(request, "seed", _SEEDS), _precision(request)
    training = _training_rows(request, rows, settings)
    trained = Painter.of(settings).trained(str(training.client.iloc[0]), training, seed)
    file = folder / FILE
    send(trained / FILE, file, precision)
    content = np.frombuffer(file.read_bytes(), np.uint8)
    file.unlink()
    return Message({}, {"generator": content})


def painting(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """The arrays are generators; the images of the first come first, in the order of the tiles."""
    from tffapps.fedtransfer.painter import Painter

    settings, precision = settings_in(request, TileSettings, GeneratorSettings), _precision(request)
    training = _training_rows(request, rows, settings)
    painter = Painter.of(settings)
    architecture, paths = painter.architecture(data.one_size(data.sizes_of(training))), list[str]()
    for number, content in enumerate(arrays_in(request)):
        file = folder / f"received-{number}.npz"
        file.write_bytes(content.tobytes())
        paths += painter.paint(training, file, architecture, precision, f"painting with generator {number + 1}")
        file.unlink()
    link_all(folder, paths)
    return Message({"names": [Path(path).name for path in paths]})


def grains(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """The arrays are the weights of a U-Net; `scores` is (tiles, METRICS)."""
    from tffapps.fedtransfer.evaluator import ScoringHere
    from tffapps.fedtransfer.network import Network

    settings, weights = settings_in(request, TileSettings, UNetSettings), arrays_in(request)
    table = _cut(rows, settings)[0][number_in(request, "fold", settings[TileSettings].folds)]
    held_back, tested = (table[table.split == split] for split in ("val", "test"))
    size = data.one_size(data.sizes_of(tested))
    network = Network(settings[UNetSettings], size, settings[TileSettings].channels)
    if [array.shape for array in weights] != [tuple(variable.shape) for variable in network.model.weights]:
        raise UserError("the weights sent are not those of the U-Net asked for")
    return Message({}, {"scores": ScoringHere(network).grains_of(held_back, tested, weights)})


JOBS: dict[str, Job] = {"tiles": tiles, "generator": generator, "painting": painting, "grains": grains}


def _training_rows(request: Message, rows: pd.DataFrame, settings: Flags) -> pd.DataFrame:
    fold = number_in(request, "fold", settings[TileSettings].folds)
    table = _cut(rows, settings)[0][fold]
    return table[table.split == "train"]


def _cut(rows: pd.DataFrame, settings: Flags) -> tuple[list[pd.DataFrame], dict[str, Coding]]:
    """What was cut before is found again."""
    try:
        return data.cut(micrographs.listed(rows, "the site's data"), settings[TileSettings])
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


def _precision(request: Message) -> str:
    precision = request.fields.get("precision")
    if precision not in PRECISIONS:
        raise UserError(f"a request for the precision {precision!r:.30}; there are {', '.join(PRECISIONS)}")
    return precision
