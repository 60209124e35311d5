"""The only list of systems. run_all.sh, `python -m tffapps`, the page, the data check and sites' jobs ask it.

A system is a package with an APP (`tffapps.app.App`). One that lies elsewhere is added by its package's name in the
environment variable TFFAPPS_SYSTEMS (comma-separated), at a site as well as at the coordinator.
"""

import importlib
import os

from tffapps.app import App
from tffapps.errors import UserError

PAPERS = ("plfl", "fedsda", "fnst", "fedstyle", "fedtransfer")  # in the order in which run_all.sh plays them
_OWN = (*PAPERS, "classify")


def packages() -> dict[str, str]:
    """Name of each system → its package."""
    added = [name.strip() for name in os.environ.get("TFFAPPS_SYSTEMS", "").split(",") if name.strip()]
    return {name: f"tffapps.{name}" for name in _OWN} | {name.rpartition(".")[2]: name for name in added}


def find(name: str) -> App:
    """A system by its name."""
    known = packages()
    if name not in known:
        raise UserError(f"{name}: no such system; choose from {', '.join(known)}")
    package = known[name]
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if not f"{package}.".startswith(f"{error.name}."):  # something that it imports
            raise
        raise UserError(f"TFFAPPS_SYSTEMS: no package {package} is found; set PYTHONPATH to its folder") from None
    if not isinstance(getattr(module, "APP", None), App):
        raise UserError(f"TFFAPPS_SYSTEMS: {package} has no APP; its __init__.py must declare one (tffapps.App)")
    return module.APP


def every() -> list[App]:
    return [find(name) for name in packages()]


if __name__ == "__main__":  # for run_all.sh: those it plays, then the others
    print(" ".join(PAPERS))
    print(" ".join(name for name in packages() if name not in PAPERS))
