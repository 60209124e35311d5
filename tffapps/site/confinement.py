"""What a site's worker and its jobs may do (`engine/sandbox.py`): read its images, and what it has made itself.

data/sites/<name>/      of the site alone: what was made, and the caches of its jobs; jobs write here and nowhere else
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tffapps.engine import sandbox
from tffapps.engine.sandbox import Sandbox
from tffapps.errors import UserError
from tffapps.files import as_name
from tffapps.home import sites_folder

_PROJECT = Path(__file__).resolve().parents[2]
_PACKAGES = ("tffapps", "models", "preprocessing")
_KEPT = ("TFFAPPS_SYSTEMS", "TFFAPPS_REAL_WEIGHTS", "TFFAPPS_MAX_PIXELS", "TFFAPPS_MAX_BYTES", "VIRTUAL_ENV")


def check() -> None:
    """A UserError where this kernel can hold no sandbox."""
    lacks = sandbox.lacks()
    if lacks:
        what = " and ".join(lacks)
        raise UserError(
            f"this kernel has no {what}, so a coordinator could read, write and run here what your user can;"
            " use another machine, or say --without-sandbox"
        )


def home_of(name: str) -> Path:
    return sites_folder().absolute() / as_name(name)


def of_the_worker(folder: Path, name: str) -> Sandbox:
    """`folder` is the one of links, in which it works."""
    return Sandbox(read=[str(home_of(name))], links=str(folder), listens=True)


def job_environment(home: Path, place: Path) -> dict[str, str]:
    """Variables that a job needs besides the usual; `place` is where it works."""
    search = os.pathsep.join(filter(None, (str(_PROJECT), os.environ.get("PYTHONPATH"))))
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept, "PYTHONPATH": search, "TF_CPP_MIN_LOG_LEVEL": "3", "HOME": str(Path.home()),
        "PYTHONDONTWRITEBYTECODE": "1", "TFFAPPS_OFFLINE": "1", "TFFAPPS_HOME": str(home),
        "TMPDIR": str(place), "MPLCONFIGDIR": str(place),
    }  # fmt: skip


def of_a_job(folder: Path, home: Path, environment: Mapping[str, str]) -> Sandbox:
    """It runs the project's own code on the site's images; networks' weights are found where they were fetched to."""
    prefixes = [Path(prefix) for prefix in {sys.prefix, sys.base_prefix}]
    code = [str(prefix / part) for prefix in prefixes for part in ("lib", "lib64", "bin", "pyvenv.cfg")]
    code += [str(_PROJECT / package) for package in _PACKAGES]
    own = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and Path(entry) != _PROJECT]
    weights = [str(Path.home() / ".keras"), *filter(None, [environment.get("TFFAPPS_REAL_WEIGHTS")])]
    return Sandbox(
        read=[*code, *own, *weights], links=str(folder), listed=[str(_PROJECT)], change=[str(home)], children=True,
        environment=environment,
    )  # fmt: skip
