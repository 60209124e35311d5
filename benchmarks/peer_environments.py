"""Environments of other people's packages, one for each, made from the package index and kept for the next time."""

from __future__ import annotations

import pathlib
import subprocess
import sys

# Newest on the package index that installed when this was written; torch is the CPU build where the index has one.
# tiatoolbox needs a torch before 2.13, which the package index has with CUDA only: pip says that it conflicts.
PACKAGES = {
    "pfl": ("pfl[tf]==0.6.0", "pillow"),
    "flower": ("flwr[simulation]==1.41.0", "tensorflow-cpu==2.21.0", "pillow"),
    "torchstain": ("torchstain==1.4.1", "torch==2.13.0", "opencv-python-headless"),
    "staintools": ("staintools==2.1.2", "spams-bin==2.6.14", "opencv-python-headless"),
    "tiatoolbox": ("tiatoolbox==2.1.3", "torch==2.13.0"),
}


def python_of(name: str, folder: pathlib.Path, install: bool) -> str | None:
    """The interpreter of an environment, made if need be; None if it could not be. `here` is this very one."""
    if name == "here":
        return sys.executable
    place = folder / name
    python, wanted = place / "bin" / "python", "\n".join(PACKAGES[name])
    stamp = place / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return str(python)
    if not install:
        return None
    print(f"installing {', '.join(PACKAGES[name])} into {place}", file=sys.stderr, flush=True)
    with (folder / f"{name}.log").open("w") as log:
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(place)],
            [str(python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *PACKAGES[name]],
        ):
            if subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode:
                print(f"{name}: did not install; see {log.name}", file=sys.stderr, flush=True)
                return None
    stamp.write_text(wanted)
    return str(python)


def why_not(name: str, folder: pathlib.Path) -> str:
    """What pip said of an environment that is not there."""
    log = folder / f"{name}.log"
    lines = log.read_text().splitlines() if log.exists() else []
    said = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return f"did not install: {said[0]}" if said else "not installed"
