"""What a site does for FNST when it is asked: a client's part (`Styler`), on its own images.

    styles            rows of the classes it has many of ─► their styles: a file of Gram matrices for each class
    style transfer    such files of other sites, rows of the classes it has few of ─► images that stay at the site

Files travel in messages as arrays of bytes, `grams0` and so on. Every request says which VGG is meant and how images
are to be made: as flags that the site checks like those of a command line.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps import Flags, Message, UserError
from tffapps.fnst import GramSettings, TransferSettings
from tffapps.fnst.styler import Styler
from tffapps.settings import LARGEST, check, settings_of
from tffapps.site.jobs import link_all, rows_asked
from tffapps.wire.jobs import JOB

STYLES, TRANSFER = "fnst/styles", "fnst/style transfer"
MADE = "made"  # the field of an answer: how many images there are now


def styles_request(grams: GramSettings, rows: Sequence[int], count: int, seed: int) -> Message:
    """`rows` are the numbers of all images of the classes wanted, one class after the other."""
    fields = {JOB: STYLES, "flags": dataclasses.asdict(grams), "count": count, "seed": seed}
    return Message(fields, {"rows": np.array(rows, np.int64)})


def transfer_request(
    grams: GramSettings, transfer: TransferSettings, rows: Sequence[int], files: Sequence[bytes]
) -> Message:
    """`rows` are of all images that are given styles, of whichever class; each file says which class it is for."""
    flags = {**dataclasses.asdict(grams), **dataclasses.asdict(transfer)}
    arrays = {"rows": np.array(rows, np.int64), **_as_arrays(files)}
    return Message({JOB: TRANSFER, "flags": flags, "files": len(files)}, arrays)


def measure_styles(request: Message, rows: pd.DataFrame, folder: pathlib.Path) -> Message:
    """A file for each class, in the order in which the request has them; what was sent is kept beside the answer."""
    images, flags = rows_asked(request, rows), _flags(request, GramSettings)
    styler = Styler(flags[GramSettings], TransferSettings())
    count, seed = _whole(request, "count", 1), _whole(request, "seed", 0)
    files = []
    for number, label in enumerate(dict.fromkeys(images.label)):
        files.append(folder / f"sent-{number}.npz")
        styler.measure(files[-1], images[images.label == label], label, count, seed, secret=True)
    return Message({}, _as_arrays([file.read_bytes() for file in files]))


def transfer_styles(request: Message, rows: pd.DataFrame, folder: pathlib.Path) -> Message:
    """The images made with each file after the other, numbered throughout."""
    images, flags = rows_asked(request, rows), _flags(request, GramSettings, TransferSettings)
    styler = Styler(flags[GramSettings], flags[TransferSettings])
    paths: list[str] = []
    for number, content in enumerate(files_in(request, _whole(request, "files", 1), "the coordinator")):
        file = folder / f"received-{number}.npz"
        file.write_bytes(content)
        grams = styler.load(file)
        contents = images.path[images.label == grams.label]
        if contents.empty:
            raise UserError(f"there are styles of {grams.label}, and no image to give them to")
        paths += styler.make(list(contents), grams, grams.label)
    link_all(folder, paths)
    return Message({MADE: len(paths)})


JOBS = {"styles": measure_styles, "style transfer": transfer_styles}


def files_in(message: Message, count: int, sender: str) -> list[bytes]:
    """The contents of so many files; what they are is for the reader to check."""
    arrays = [message.arrays.get(f"grams{number}") for number in range(count)]
    contents = [array.tobytes() for array in arrays if array is not None and array.dtype == np.uint8]
    if len(contents) < count:
        raise UserError(f"{sender} sent {len(contents)} files of Gram matrices, expected {count}")
    return contents


def check_weights(grams: GramSettings, transfer: TransferSettings | None = None) -> None:
    """That these weights can be had at every site, and are not any file that somebody names."""
    if transfer is not None and transfer.adain_weights:
        raise UserError(
            f"--adain-weights {transfer.adain_weights}: that folder is not at the sites; across sites leave it out, "
            "and each site has the files in Keras's cache"
        )
    if grams.vgg_weights not in ("random", "imagenet"):
        raise UserError(
            f"--vgg-weights {grams.vgg_weights}: that file is not at the sites; across sites give random or imagenet"
        )


def _flags(request: Message, *owners: type) -> Flags:
    """The settings of these classes, all of them and no other, as a request gives them."""
    known = {each.name: each for owner in owners for each in settings_of(owner)}
    given: Any = request.fields.get("flags")
    if not isinstance(given, dict) or set(given) != set(known):
        raise UserError(f"a request without the flags {', '.join(known)}")
    flags = Flags({name: check(each, given[name]) for name, each in known.items()}, profile="")
    check_weights(flags[GramSettings], flags[TransferSettings] if TransferSettings in owners else None)
    return flags


def _whole(request: Message, name: str, least: int) -> int:
    value = request.fields.get(name)
    if type(value) is not int or not least <= value <= LARGEST:
        raise UserError(f"a request whose {name} is no whole number from {least} on")
    return value


def _as_arrays(files: Sequence[bytes]) -> dict[str, np.ndarray]:
    return {f"grams{number}": np.frombuffer(content, np.uint8) for number, content in enumerate(files)}
