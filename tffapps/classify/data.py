"""Where the images come from: a folder, a manifest, or the stand-in."""

import pathlib

from models.names import RANDOM_SIZE
from tffapps import Common, Flags, Pool, data_folder
from tffapps.classify import ClassifySettings
from tffapps.data import labelled, textures


def load(flags: Flags) -> Pool:
    """What --data has, or the stand-in."""
    settings = flags[ClassifySettings]
    source = pathlib.Path(flags[Common].data) if flags[Common].data else _standin(settings)
    return labelled.load(source, settings.channels)


look = load  # what a run would find


def _standin(settings: ClassifySettings) -> pathlib.Path:
    size = settings.size or RANDOM_SIZE
    source = data_folder() / f"textures-{size}-{settings.standin_images}"
    textures.write_textures(source, per_class=settings.standin_images, size=size)
    return source
