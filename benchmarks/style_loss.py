"""Style transfer to equal loss: after how many steps another start or optimiser is where Adam is at the end of its own.

    python benchmarks/style_loss.py --weights FILE [--pictures FOLDER] [--pairs 4] [--size 128] [--steps 150]

Adam's steps from noise and from the content image are what the others are measured by: L-BFGS from either start, with
VGG-19 in single precision and in bfloat16. The total loss of every pair, in single precision always, is looked up after
each step; the median of the pairs that come there counts, and how many those are. Images a second to a loss are steps
times what one step takes (a median), relative to Adam's. Content and style are drawn patches, and pictures of a folder
(with those below it) if one is given. What an optimiser was chosen by must not be what it is judged by: --skip leaves
out so many pairs. Writes results/benchmarks/style_loss.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=4, help="of drawn patches, and of pictures (default 4)")
    parser.add_argument("--skip", type=int, default=0, help="pairs that are left out first (default 0)")
    parser.add_argument("--pictures", type=pathlib.Path, help="a folder of images (default: drawn patches alone)")
    parser.add_argument("--size", type=int, default=128, help="side of an image (default 128)")
    parser.add_argument("--width", type=int, default=64, help="of VGG-19 (default 64)")
    parser.add_argument("--weights", default="random", help="of VGG-19: random, imagenet or a file (default random)")
    parser.add_argument("--steps", type=int, default=150, help="of Adam (default 150)")
    parser.add_argument("--shown", type=pathlib.Path, help="a folder for the images that all of them end with")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "style_loss.csv")
    options = parser.parse_args()

    import pandas as pd

    kinds = {"drawn": _drawn(options)}
    if options.pictures:
        kinds["pictures"] = _pictures(options)
    rows = [row for kind, (contents, styles) in kinds.items() for row in _compared(kind, contents, styles, options)]
    table = pd.DataFrame(rows)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))
    print(f"{options.size}×{options.size}, width {options.width}, {os.cpu_count()} cores; table: {options.out}")


def _drawn(options: argparse.Namespace) -> tuple[Any, Any]:
    from tests.preprocessing.stains import patches

    drawn = patches(2 * (options.skip + options.pairs), size=options.size)[0][2 * options.skip :]
    return drawn[: options.pairs], drawn[options.pairs :]


def _pictures(options: argparse.Namespace) -> tuple[Any, Any]:
    """From all over the sorted files: the content of a pair is of one half of them, the style of the other."""
    import numpy as np

    from preprocessing.files import is_named_image
    from preprocessing.style_inputs import read_images

    files = sorted(path for path in options.pictures.rglob("*") if is_named_image(path))
    wanted = 2 * (options.skip + options.pairs)
    if len(files) < wanted:
        raise SystemExit(f"--pictures {options.pictures}: {len(files)} images, {wanted} are needed; give fewer --pairs")
    halves = [files[: len(files) // 2], files[len(files) // 2 :]]
    places = np.linspace(0, len(halves[0]) - 1, options.skip + options.pairs).astype(int)
    # The pairs that are skipped lie among the others, not before them.
    chosen = places[np.argsort(np.arange(len(places)) * 7919 % len(places), kind="stable")][options.skip :]
    read = [read_images([half[place] for place in chosen], options.size, "style_loss")[1] for half in halves]
    if any(images is None or len(images) < options.pairs for images in read):
        raise SystemExit(f"--pictures {options.pictures}: some cannot be read; see above")
    return read[0], read[1]


def _compared(kind: str, contents: Any, styles: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each start and optimiser."""
    import numpy as np

    traces, seconds = dict[tuple[str, ...], Any](), dict[tuple[str, ...], float]()
    for optimizer, precision in (("adam", "float32"), ("lbfgs", "float32"), ("lbfgs", "bfloat16")):
        for init in ("noise", "content"):
            print(f"{kind}: {optimizer} from {init}, {precision}", file=sys.stderr, flush=True)
            way = init, optimizer, precision
            traces[way], seconds[way] = _traced(kind, contents, styles, way, options)
    rows = []
    for (init, optimizer, precision), losses in traces.items():
        row = {"pairs": f"{len(contents)} {kind}", "start": init, "optimizer": optimizer, "precision": precision}
        own = seconds[init, optimizer, precision]
        row |= {"steps": len(losses) - 1, "seconds_a_step": round(own, 4)}
        row["loss"] = float(f"{np.median(losses[-1]):.4g}")
        for goal in ("noise", "content"):
            adam = goal, "adam", "float32"
            there = losses <= traces[adam][-1]  # (steps + 1, pairs)
            taken = np.where(there.any(axis=0), np.maximum(there.argmax(axis=0), 1), np.nan)
            count = int(there.any(axis=0).sum())
            full = options.steps * seconds[adam]
            row[f"pairs_at_adams_from_{goal}"] = count
            row[f"steps_to_adams_from_{goal}"] = float(np.nanmedian(taken)) if count else None
            row[f"images_per_second_of_adams_from_{goal}"] = (
                round(full / float(np.nanmedian(taken) * own), 2) if count else None
            )
        rows.append(row)
    return rows


def _traced(
    kind: str, contents: Any, styles: Any, way: tuple[str, ...], options: argparse.Namespace
) -> tuple[Any, float]:
    """Losses (steps + 1, pairs), the first of the start, and seconds a step. L-BFGS keeps the best that it tried."""
    init, optimizer, precision = way
    import numpy as np
    import tensorflow as tf

    from models import vgg
    from preprocessing import gram, style_transfer
    from preprocessing.style_settings import LAYERS, settings_for

    encoder = vgg.build(LAYERS[-1], options.width)
    used = vgg.load(encoder, options.weights).kind
    settings = settings_for(used, steps=options.steps, init=init, optimizer=optimizer)
    wanted = [tf.constant(matrix) for matrix in gram.grams(gram.taps(encoder), styles)]
    p = tf.constant(contents, tf.float32) / 255.0
    noise = np.random.default_rng(0).random(contents.shape, np.float32)
    start = tf.constant(noise) if init == "noise" else p
    _, loss = style_transfer.losses_of(style_transfer.taps_of(encoder, precision), p, wanted, settings)
    _, single = style_transfer.losses_of(style_transfer.taps_of(encoder), p, wanted, settings)
    compiled, exact = tf.function(loss), tf.function(single)
    compiled(start)
    seen, losses, times = [], [], []  # what it goes by, in its own precision, and what that is in single precision

    def objective(x: Any) -> tuple[Any, Any]:
        begin = time.perf_counter()
        found = compiled(x)
        seen.append(found[0].numpy())
        times.append(time.perf_counter() - begin)
        losses.append(seen[-1] if precision == "float32" else exact(x)[0].numpy())
        return found

    x = style_transfer.minimise(objective, start, settings)  # outside of a function a loop is Python's
    if optimizer == "adam":
        objective(x)
        trace = np.stack(losses)
    else:  # what an evaluation finds is there after it; of those that are tried it keeps what it takes for the best
        found, held = np.stack(losses), np.stack(seen)
        kept = [np.argmin(held[: number + 1], axis=0) for number in range(len(held))]
        trace = np.stack([np.take_along_axis(found, row[None], axis=0)[0] for row in [kept[0], *kept]])
    if options.shown:
        import cv2

        options.shown.mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(np.rint(x.numpy() * 255).astype(np.uint8)):
            path = options.shown / f"{kind}{number}_{'_'.join(way)}{options.steps}.png"
            cv2.imwrite(str(path), np.concatenate([contents[number], styles[number], image], axis=1)[..., ::-1])
    return trace, float(np.median(times))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
