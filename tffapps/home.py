"""Where stand-ins, caches and what sites prepare lie: `data/` below TFFAPPS_HOME, or below the working folder."""

import os
import pathlib


def data_folder() -> pathlib.Path:
    """Asked for whenever it is needed: the working folder may change, and tests change it."""
    return pathlib.Path(os.environ.get("TFFAPPS_HOME") or "") / "data"


def cache_folder() -> pathlib.Path:
    """What can be made again: features, aligned images, generators."""
    return data_folder() / "cache"


def sites_folder() -> pathlib.Path:
    """What the sites on this machine have prepared for coordinators."""
    return data_folder() / "sites"
