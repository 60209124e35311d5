"""Images a second of style transfer in one pass, and by optimisation, at the same size, for the same styles.

    python benchmarks/style_ways.py --weights vgg19_imagenet_notop.h5 --adain-weights FOLDER [--size 96] [--steps 200]
        [--images 16] [--repeats 3]

Drawn patches are given the styles of others by `adain` and `whiten` (AdaIN's published networks) and by Adam and L-BFGS
on the Gram matrices. What is timed is all that a client does with an image and the Gram matrices that it received,
tracing apart; the optimisers are given --few of the images. The best of several runs counts, all in turn. Writes
results/benchmarks/style_ways.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
_TRACED = 2  # steps of the optimisers before they are timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", required=True, help="of VGG-19: imagenet or a file")
    parser.add_argument("--adain-weights", type=pathlib.Path, required=True, help="folder of AdaIN's two networks")
    parser.add_argument("--size", type=int, default=96, help="side of an image (default 96)")
    parser.add_argument("--steps", type=int, default=200, help="of the optimisers (default 200)")
    parser.add_argument("--images", type=int, default=16, help="made in one pass (default 16)")
    parser.add_argument("--few", type=int, default=2, help="made by the optimisers (default 2)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the best counts (default 3)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "style_ways.csv")
    options = parser.parse_args()

    import pandas as pd

    contenders = _contenders(options)
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(options.repeats):  # in turn: what slows the machine down for a while slows all of them
        for name, (images, steps, work) in contenders.items():
            print(f"{name}: {images} images, {steps or 'no'} steps", file=sys.stderr, flush=True)
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    rows = [
        {"contender": name, "images": images, "steps": steps, "images_per_second": round(images / best[name], 4)}
        for name, (images, steps, _) in contenders.items()
    ]
    table = pd.DataFrame(rows)
    adam = table.images_per_second[list(contenders).index("Adam")]
    table["of_adam"] = (table.images_per_second / adam).round(2)
    table["size"] = options.size
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))
    print(f"{os.cpu_count()} cores; table: {options.out}")


def _contenders(options: argparse.Namespace) -> dict[str, tuple[int, int, Callable[[], Any]]]:
    import numpy as np

    from models import adain_published, vgg
    from preprocessing import gram, style_moments, style_transfer
    from preprocessing.style_settings import LAYERS, settings_for
    from tests.preprocessing.stains import patches

    encoder = vgg.build(LAYERS[-1])
    kind = vgg.load(encoder, options.weights).kind
    pair = adain_published.load_folder(options.adain_weights)
    drawn = patches(2 * options.images, size=options.size)[0]
    contents, styles = drawn[: options.images], drawn[options.images :]
    grams = gram.measure(encoder, styles, "drawn", kind, style_moments.means(encoder, styles))
    pairs = np.column_stack([np.arange(options.images)] * 2)
    level = style_moments.LEVEL

    def in_one_pass(how: str) -> Callable[[], Any]:
        def work() -> Any:
            assert grams.means is not None
            moments = style_moments.moments(pair, encoder, grams.matrices[level], grams.means, grams.positions[level])
            return style_moments.transfer(pair, contents, moments, pairs, how)

        return work

    def optimised(optimizer: str, steps: int, images: int) -> Callable[[], Any]:
        settings = settings_for(kind, steps=steps, optimizer=optimizer, init="content")
        rows = slice(images)
        return lambda: style_transfer.transfer(
            encoder, contents[rows], grams.matrices, pairs[rows], settings, grams.positions
        )

    few = min(options.few, options.images)
    for how in ("adain", "whiten"):
        in_one_pass(how)()
    for optimizer in ("adam", "lbfgs"):
        optimised(optimizer, min(_TRACED, options.steps), few)()
    return {
        **{how: (options.images, 0, in_one_pass(how)) for how in ("adain", "whiten")},
        "Adam": (few, options.steps, optimised("adam", options.steps, few)),
        "L-BFGS": (few, options.steps, optimised("lbfgs", options.steps, few)),
    }


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
