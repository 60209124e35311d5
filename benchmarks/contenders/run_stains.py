"""Patches in a target's stains, one core: separate each patch, scale its densities to the target's, compose.

python run_stains.py CONTENDER PATCHES.npy SECONDS  — the first patch is the target; one line of JSON.
BLAS must have been told to keep to one thread by the environment.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
from job import version


def main() -> None:
    name, file, seconds = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    patches = np.load(file)
    library, method = name.split()
    work, versions = {"here": _here, "torchstain": _torchstain, "staintools": _staintools, "tiatoolbox": _tiatoolbox}[
        library
    ](patches[0], method)
    few = patches[:8]
    work(few)  # warmed up
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < float(seconds):
        part = patches[done % len(patches) :][: 64 if library == "here" else 8]
        work(part)
        done += len(part)
    spent = time.perf_counter() - begin
    result = np.asarray(work(few), np.float32)
    print(
        json.dumps(
            {"patches_per_second": done / spent, "mean": result.mean(axis=(0, 1, 2)).tolist(), "versions": versions}
        )
    )


def _here(target, method):
    sys.path.insert(0, __file__.rsplit("/benchmarks/", 1)[0])
    from preprocessing import stain

    settings = stain.StainSettings(method=method)
    found = stain.separate(target[None], settings, workers=1)
    matrix, strong = found.matrices[0], stain.strength(found.densities)[0]

    def work(images):
        return stain.normalise(stain.separate(images, settings, workers=1).densities, matrix, strong, workers=1)

    return work, version("numpy")


def _torchstain(target, method):
    import torch
    import torchstain

    if method != "macenko":
        raise SystemExit(f"torchstain has no {method}")
    torch.set_num_threads(1)
    normalizer = torchstain.normalizers.MacenkoNormalizer(backend="torch")

    def tensor(image):
        return torch.from_numpy(image.transpose(2, 0, 1).copy())

    normalizer.fit(tensor(target))
    return (
        lambda images: [normalizer.normalize(I=tensor(image), stains=False)[0].numpy() for image in images],
        version("torchstain", "torch"),
    )


def _staintools(target, method):
    import staintools

    normalizer = staintools.StainNormalizer(method=method)
    normalizer.fit(target)
    return lambda images: [normalizer.transform(image) for image in images], version("staintools", "spams-bin")


def _tiatoolbox(target, method):
    from tiatoolbox.tools.stainnorm import get_normalizer

    normalizer = get_normalizer(method)
    normalizer.fit(target)
    return lambda images: [normalizer.transform(image.copy()) for image in images], version("tiatoolbox")


if __name__ == "__main__":
    main()
