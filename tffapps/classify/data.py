"""Where the images come from: a folder, a manifest, or the stand-in; perhaps dealt to other clients."""

import pathlib

from models.names import RANDOM_SIZE
from tffapps import Common, Flags, Pool, UserError, data_folder
from tffapps.classify import ClassifySettings
from tffapps.data import dealing, labelled, textures


def load(flags: Flags) -> Pool:
    """What --data has, or the stand-in."""
    settings = flags[ClassifySettings]
    source = pathlib.Path(flags[Common].data) if flags[Common].data else _standin(settings)
    pool = labelled.load(source, settings.channels)
    if not settings.clients:
        return pool
    return dealing.dealt(pool, settings.clients, settings.dirichlet, settings.clients_seed)


def check(flags: Flags) -> None:
    """Refuses what the flags of clients cannot mean."""
    settings = flags[ClassifySettings]
    if settings.clients and flags[Common].across_sites:
        raise UserError(f"--clients {settings.clients}: across sites every site is a client; leave it out")
    if settings.dirichlet and not settings.clients:
        raise UserError(f"--dirichlet {settings.dirichlet:g}: say among how many, such as --clients 10")


look = load  # what a run would find


def _standin(settings: ClassifySettings) -> pathlib.Path:
    size = settings.size or RANDOM_SIZE
    source = data_folder() / f"textures-{size}-{settings.standin_images}"
    textures.write_textures(source, per_class=settings.standin_images, size=size)
    return source
