"""What `tffapps predict` costs above its parts: bare `model.predict` on decoded pixels, and the decoder alone.

    python benchmarks/predict.py [--images 1000] [--size 224] [--format jpg]

A bundle of MobileNetV2 with random weights, which cost as much as any others, and drawn images. All three see the same
files; the best of several passes counts, played in turn; tracing does not. The share is that of the slower of the two
limits: 1 would be a command that hides the other one wholly. Writes results/benchmarks/predict.csv.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
CLASSES = ("one", "two", "three")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--size", type=int, default=224, help="side of an image (default 224)")
    parser.add_argument("--format", choices=("jpg", "png"), default="jpg")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3, help="passes of which the best counts (default 3)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "predict.csv")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    import numpy as np
    import pandas as pd

    from tffapps.use import bundle
    from tffapps.use.images import Reader
    from tffapps.use.predict import Predictor

    with tempfile.TemporaryDirectory() as folder:
        paths = _images(pathlib.Path(folder) / "images", options)
        loaded = bundle.load(_bundle(pathlib.Path(folder) / "run", options.size))
        predictor, model, reader = Predictor(loaded), loaded.model(), Reader(loaded.preprocess)
        pixels = np.concatenate([batch.pixels for batch in reader.batches(paths, options.batch)])
        passes: dict[str, Callable[[], object]] = {
            "tffapps predict": lambda: list(predictor.of_files(paths, options.batch)),
            "model.predict on pixels": lambda: model.predict(pixels, batch_size=options.batch, verbose=0),
            "decoder alone": lambda: [batch.places for batch in reader.batches(paths, options.batch)],
        }
        for play in passes.values():
            play()  # traced, and memory warmed up
        # In turn: whatever else slows the machine down for a while slows them all.
        seconds = [[_seconds(play) for play in passes.values()] for _ in range(options.repeats)]
    best = [min(column) for column in zip(*seconds)]
    table = pd.DataFrame({"what": list(passes), "seconds": np.round(best, 3)})
    table["images_a_second"] = (options.images / table["seconds"]).round(1)
    table["of_slower_limit"] = (max(best[1:]) / np.array(best)).round(3)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))
    what = f"{options.images} {options.format} images of {options.size}×{options.size}"
    print(f"MobileNetV2, {what}, {os.cpu_count()} cores; table: {options.out}")


def _seconds(play: Callable[[], object]) -> float:
    begin = time.perf_counter()
    play()
    return time.perf_counter() - begin


def _images(folder: pathlib.Path, options: argparse.Namespace) -> list[str]:
    """Smooth pictures with some noise: they compress about as photographs do."""
    import cv2
    import numpy as np

    folder.mkdir()
    paths = []
    for number in range(options.images):
        rng = np.random.default_rng(number)
        coarse = rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)
        image = cv2.resize(coarse, (options.size, options.size), interpolation=cv2.INTER_CUBIC)
        image = cv2.add(image, rng.integers(0, 12, image.shape).astype(np.uint8))
        paths.append(str(folder / f"{number:05d}.{options.format}"))
        cv2.imwrite(paths[-1], image)
    return paths


def _bundle(run: pathlib.Path, size: int) -> pathlib.Path:
    import numpy as np

    from tffapps.use import write
    from tffapps.use.bundle import Preprocess
    from tffapps.use.decision import Decision
    from tffapps.use.network import CLASSIFIER, Description
    from tffapps.use.recipe import Halves, Looks, Recipe

    values = {"model": "mobilenetv2", "head": "gap", "cut": "all", "norm": "batch"}
    network = Description(CLASSIFIER, values, (size, size, 3), len(CLASSES))
    parts = network.build()
    width, rng = parts.located().output_shape[0][-1], np.random.default_rng(0)
    looks = Looks(
        lambda weights, paths: rng.random((len(paths), width)), lambda weights, paths: np.zeros((0, 3)),
        [""] * 64, [""] * 64, [0] * 64,
    )  # fmt: skip
    recipe = Recipe(
        network, CLASSES, Preprocess((size, size), 3), lambda weights: Halves([], list(weights)), "drawn", "random",
        looks,
    )  # fmt: skip
    return write.write(
        run, recipe, {"last": parts.whole.get_weights()}, system="benchmark",
        decisions={"last": Decision(1.5, 0.5, 64)}, scores={}, provenance={},
    )  # fmt: skip


if __name__ == "__main__":
    main()
