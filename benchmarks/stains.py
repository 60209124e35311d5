"""Stain separation here beside SPAMS and scikit-learn, on the same drawn patches of which the stains are known.

    python benchmarks/stains.py [--patches 512] [--repeats 5] [--files 4096]

Every contender turns 96×96 patches into stain matrices and density maps. The others learn the same Eq. 3 one patch at a
time and are given a few patches only; SPAMS is measured where `spams` can be imported (pip install spams-bin). All keep
to one core but for the lines that say otherwise, and the best of several runs counts, as anything else on the machine
can only slow a run down. The last lines are of the whole alignment, each in a process that has no more cores than it
says; one core and all take turns. Writes results/benchmarks/stains.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # before NumPy is imported
    os.environ[_name] = "1"

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SIZE, LEARN, SOLVE = 96, 0.1, 0.01  # the side of a patch, and the penalties for matrices and for densities

Result = tuple[Any, Any]  # matrices (n, 3, 2), densities (n, 2, pixels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patches", type=int, default=512, help="for the stain separation here (default 512)")
    parser.add_argument("--few", type=int, default=4, help="for the others, which are slow (default 4)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the best counts (default 5)")
    parser.add_argument("--files", type=int, default=4096, help="for the whole alignment (default 4096)")
    parser.add_argument("--align", nargs=2, metavar=("FOLDER", "CORES"), help="the alignment alone, on that many cores")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "stains.csv")
    options = parser.parse_args()
    if options.align:
        folder, cores = options.align
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])  # before libraries start their threads
        print(_aligned(pathlib.Path(folder), options.files))
        return

    import numpy as np
    import pandas as pd

    from tests.preprocessing.stains import patches

    drawn = min(max(options.patches, options.few), 64)  # drawing takes longer than separating; used again and again
    images, truths = patches(drawn)
    again = np.arange(max(options.patches, options.few)) % drawn
    images, truths = images[again], truths[again]
    rows = []
    for name, cores, contender in _contenders():
        count, repeats = (options.patches, options.repeats) if name.startswith("here") else (options.few, 1)
        print(f"{name}, {cores} core(s), {count} patches", file=sys.stderr, flush=True)
        speed, matrices, densities = _measure(contender, images[:count], repeats)
        few = slice(min(options.few, count))  # the quality is that of the same patches for all
        quality = _quality(images[few], truths[few], matrices[few], densities[few])
        rows.append({"contender": name, "cores": cores, "patches": count, "patches_per_second": speed, **quality})
    every = sorted({1, os.cpu_count() or 1})
    # In turn: whatever else slows the machine down slows both. Nothing is removed meanwhile: ext4 is slow to
    # find room for new files in the seconds after others were removed.
    with tempfile.TemporaryDirectory() as folder:
        turns = [[_alignment(folder, cores, options.files) for cores in every] for _ in range(min(options.repeats, 3))]
    for cores, speeds in zip(every, zip(*turns)):
        name = "here, whole alignment: PNG files to PNG files"
        rows.append({"contender": name, "cores": cores, "patches": options.files, "patches_per_second": max(speeds)})
    table = pd.DataFrame(rows)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))
    print(f"{SIZE}×{SIZE} patches, {os.cpu_count()} cores; table: {options.out}")


def _contenders() -> list[tuple[str, int, Callable[[Any], Result]]]:
    every = os.cpu_count() or 1
    contenders: list[tuple[str, int, Callable[[Any], Result]]] = []
    for method in ("vahadane", "macenko"):
        for cores in sorted({1, every}):
            contenders.append((f"here, {method}", cores, lambda images, m=method, c=cores: _here(images, m, c)))
    if importlib.util.find_spec("spams"):
        contenders.append(("spams, its default of 1 s a patch", 1, lambda images: _spams(images, -1)))
        contenders.append(("spams, 100 iterations", 1, lambda images: _spams(images, 100)))
    if importlib.util.find_spec("sklearn"):
        contenders.append(
            ("scikit-learn MiniBatchDictionaryLearning", 1, lambda images: _sklearn(images, batches=True))
        )
        contenders.append(("scikit-learn DictionaryLearning", 1, lambda images: _sklearn(images, batches=False)))
    return contenders


def _measure(contender: Callable[[Any], Result], images: Any, repeats: int) -> tuple[float, Any, Any]:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        matrices, densities = contender(images)
        seconds.append(time.perf_counter() - start)
    return round(len(images) / min(seconds), 2), matrices, densities


def _quality(images: Any, truths: Any, matrices: Any, densities: Any) -> dict[str, float]:
    import numpy as np

    from preprocessing.stain import compose
    from tests.preprocessing.stains import angles

    away = np.median(angles(matrices, truths), axis=0)
    back = compose(matrices, np.reshape(densities, (len(images), 2, SIZE, SIZE)))
    return {
        "h_degrees_from_truth": round(float(away[0]), 2),
        "e_degrees_from_truth": round(float(away[1]), 2),
        "grey_levels_off": round(float(np.abs(back.astype(np.float32) - images).mean()), 2),
        "equation_3_per_pixel": round(_equation_3(images, matrices), 6),
    }


def _equation_3(images: Any, matrices: Any) -> float:
    """Eq. 3 over tissue with the best densities for these matrices: what all of them try to make small."""
    import numpy as np

    from preprocessing import stain_dictionary

    total, pixels = 0.0, 0
    for image, matrix in zip(images, matrices):
        x = _tissue(image)
        h = stain_dictionary.densities(stain_dictionary.with_ones(x[None]), np.asarray(matrix, float)[None], LEARN)[0]
        total += 0.5 * ((x - matrix @ h) ** 2).sum() + LEARN * h.sum()
        pixels += x.shape[1]
    return total / pixels


def _here(images: Any, method: str, cores: int) -> Result:
    from preprocessing.stain import StainSettings, separate

    result = separate(images, StainSettings(method=method), workers=cores)
    return result.matrices, result.densities


def _alignment(folder: str, cores: int, files: int) -> float:
    print(f"alignment of files, {cores} core(s), {files} patches", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--align", folder, str(cores), "--files", str(files)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _aligned(folder: pathlib.Path, files: int) -> float:
    """Patches a second from files to files in other stains, as `tffapps.fedsda` does it once they are drawn."""
    from preprocessing.stain import in_stains, matrices_of
    from tests.preprocessing.stains import patches
    from tffapps.data.made import Apart, encode, made_images

    images, _ = patches(64)
    stains = matrices_of(images)[0].reshape(64, 6).tolist()
    root = pathlib.Path(tempfile.mkdtemp(dir=folder))
    paths = [root / f"{number}.png" for number in range(files)]
    for number, path in enumerate(paths):
        image = images[number % 64]
        image[0, 0, :2] = number % 256, number // 256  # equal files would be made once
        path.write_bytes(encode(image))
    os.sync()
    others = [stains[(number + 1) % 64] for number in range(files)]
    start = time.perf_counter()
    made_images(paths, others, Apart(in_stains), {}, root / "made", progress=False)
    return round(files / (time.perf_counter() - start), 2)


def _spams(images: Any, iterations: int) -> Result:
    """As it is used for stains: modes 2 and 0 are Eq. 3."""
    import numpy as np
    import spams

    def one(image: Any) -> Result:
        learned = spams.trainDL(
            np.asfortranarray(_tissue(image), float),
            K=2,
            lambda1=LEARN,
            mode=2,
            modeD=0,
            posAlpha=True,
            posD=True,
            iter=iterations,
            numThreads=1,
            verbose=False,
        )
        w = np.asfortranarray(_in_order(learned))
        x = np.asfortranarray(_densities(image), float)
        return w, spams.lasso(x, D=w, lambda1=SOLVE, mode=2, pos=True, numThreads=1).toarray()

    return _stack([one(image) for image in images])


def _sklearn(images: Any, batches: bool) -> Result:
    from sklearn.decomposition import DictionaryLearning, MiniBatchDictionaryLearning

    kind = MiniBatchDictionaryLearning if batches else DictionaryLearning

    def one(image: Any) -> Result:
        learner = kind(
            n_components=2,
            alpha=LEARN,
            fit_algorithm="cd",
            transform_algorithm="lasso_cd",
            transform_alpha=SOLVE,
            positive_code=True,
            positive_dict=True,
            random_state=0,
        )
        learner.fit(_tissue(image).T)
        learner.components_ = _in_order(learner.components_.T).T
        return learner.components_.T, learner.transform(_densities(image).T).T

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of every patch that it would rather run longer
        return _stack([one(image) for image in images])


def _densities(image: Any) -> Any:
    """Optical densities (3, pixels)."""
    from preprocessing import stain_pixels

    return stain_pixels.optical_density(stain_pixels.planes(image[None]))[0]


def _tissue(image: Any) -> Any:
    from preprocessing import stain_pixels

    return _densities(image)[:, stain_pixels.tissue(stain_pixels.planes(image[None]), 0.8)[0]]


def _in_order(columns: Any) -> Any:
    """Unit columns, haematoxylin first."""
    import numpy as np

    columns = columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-12)
    return columns[:, np.argsort(-columns[0])]


def _stack(results: list[Result]) -> Result:
    import numpy as np

    return np.stack([w for w, _ in results]), np.stack([h for _, h in results])


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
