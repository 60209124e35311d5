"""Which of a site's files can be read as images, and in what formats they are: asked once, before serving begins.

TensorFlow knows, and a site that waits for rounds does not need it. So this is a program: paths in, one line of JSON
out.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tffapps.errors import RunStopped

_CHANNELS = 3


def look(paths: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Why each of the paths that cannot be read cannot, and the formats of the others."""
    root = str(Path(__file__).resolve().parents[2])
    search = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", __name__], input=json.dumps(list(paths)), capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": search, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise RunStopped(f"the images could not be looked at (status {done.returncode}: {last})")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found["unreadable"], found["formats"]


def _main() -> None:
    from tffapps.data import images
    from tffapps.data.unreadable import find_unreadable

    paths = json.load(sys.stdin)
    unreadable = find_unreadable(paths, _CHANNELS)
    formats = images.formats_of(path for path in paths if path not in unreadable)
    print(json.dumps({"unreadable": unreadable, "formats": formats}))


if __name__ == "__main__":
    _main()
