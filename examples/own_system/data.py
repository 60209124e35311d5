"""The images: a folder or a manifest, or a stand-in of drawn textures."""

from __future__ import annotations

import pathlib

from tffapps import Common, Flags, Pool, data_folder
from tffapps.data import labelled, textures


def load(flags: Flags) -> Pool:
    given = flags[Common].data
    source = pathlib.Path(given) if given else textures.write_textures(data_folder() / "own", per_class=10, size=32)
    return labelled.load(source)


look = load  # for the data check
