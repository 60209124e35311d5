"""What a site does for FNST when it is asked: a client's part (`Styler`), on its own images.

    styles            rows of the classes it has many of ─► their styles: a file of Gram matrices for each class
    style transfer    such files of other sites, rows of the classes it has few of ─► images that stay at the site

Files travel in messages as arrays of bytes, `grams0` and so on. Every request says which VGG is meant and how images
are to be made: as flags that the site checks like those of a command line.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps.errors import UserError
from tffapps.fnst import StyleFlags
from tffapps.fnst.styler import Styler
from tffapps.settings import LARGEST, as_dict, check
from tffapps.wire import jobs
from tffapps.wire.messages import Message

STYLES, TRANSFER = "styles", "style transfer"
MADE = "made"  # the word of an answer: how many images there are now
_VGG = ("vgg_weights", "vgg_width", "style_size")
# Only what makes a difference: a request that is the same but for other flags was answered before.
_FLAGS: dict[str, tuple[str, ...]] = {
    STYLES: (*_VGG, "select"),
    TRANSFER: (
        *_VGG, "init", "style_optimizer", "style_steps", "style_learning_rate", "style_weight", "content_weight",
    ),
}  # fmt: skip


def styles_request(flags: StyleFlags, places: Sequence[int], count: int, seed: int) -> Message:
    """`places` are of all images of the classes wanted, one class after the other."""
    return Message({**_words(STYLES, flags), "count": count, "seed": seed}, {"rows": np.array(places, np.int64)})


def transfer_request(flags: StyleFlags, places: Sequence[int], files: Sequence[bytes]) -> Message:
    """`places` are of all images that are given styles, of whichever class; each file says which class it is for."""
    arrays = {"rows": np.array(places, np.int64), **_as_arrays(files)}
    return Message({**_words(TRANSFER, flags), "files": len(files)}, arrays)


def styles(request: Message, rows: pd.DataFrame, folder: pathlib.Path) -> Message:
    """A file for each class, in the order in which the request has them; what was sent is kept beside the answer."""
    own, styler = jobs.rows_asked(request, rows), Styler(_flags(request, STYLES))
    count, seed = _whole(request, "count", 1), _whole(request, "seed", 0)
    files = []
    for number, label in enumerate(dict.fromkeys(own.label)):
        files.append(folder / f"sent-{number}.npz")
        styler.measure(files[-1], own[own.label == label], label, count, seed)
    return Message({}, _as_arrays([file.read_bytes() for file in files]))


def transfer(request: Message, rows: pd.DataFrame, folder: pathlib.Path) -> Message:
    """The images made with each file after the other, numbered throughout."""
    own, styler = jobs.rows_asked(request, rows), Styler(_flags(request, TRANSFER))
    paths: list[str] = []
    for number, content in enumerate(files_in(request, _whole(request, "files", 1), "the coordinator")):
        file = folder / f"received-{number}.npz"
        file.write_bytes(content)
        grams = styler.load(file)
        contents = own.path[own.label == grams.label]
        if contents.empty:
            raise UserError(f"there are styles of {grams.label}, and no image to give them to")
        paths += styler.make(list(contents), grams, grams.label)
    jobs.link_all(folder, paths)
    return Message({MADE: len(paths)})


def files_in(message: Message, count: int, sender: str) -> list[bytes]:
    """The contents of so many files; what they are is for the reader to check."""
    arrays = [message.arrays.get(_name(number)) for number in range(count)]
    found = [array.tobytes() for array in arrays if array is not None and array.dtype == np.uint8]
    if len(found) < count:
        raise UserError(f"{sender} sent {len(found)} files of Gram matrices, expected {count}")
    return found


def check_weights(flags: StyleFlags) -> None:
    """That these weights can be had at every site, and are not any file that somebody names."""
    if flags.vgg_weights not in ("random", "imagenet"):
        raise UserError(
            f"--vgg-weights {flags.vgg_weights}: that file is not at the sites; across sites give random or imagenet"
        )


def _words(job: str, flags: StyleFlags) -> dict[str, Any]:
    values = as_dict(flags)
    return {jobs.JOB: job, "flags": {name: values[name] for name in _FLAGS[job]}}


def _flags(request: Message, job: str) -> StyleFlags:
    given = request.fields.get("flags")
    if not isinstance(given, dict) or set(given) != set(_FLAGS[job]):
        raise UserError(f"a request without the flags {', '.join(_FLAGS[job])}")
    fields = [field for field in dataclasses.fields(StyleFlags) if field.name in given]
    flags = StyleFlags(**{field.name: check(field, given[field.name]) for field in fields})
    check_weights(flags)
    return flags


def _whole(request: Message, name: str, least: int) -> int:
    value = request.fields.get(name)
    if type(value) is not int or not least <= value <= LARGEST:
        raise UserError(f"a request whose {name} is no whole number from {least} on")
    return value


def _as_arrays(files: Sequence[bytes]) -> dict[str, np.ndarray]:
    return {_name(number): np.frombuffer(content, np.uint8) for number, content in enumerate(files)}


def _name(number: int) -> str:
    return f"grams{number}"
