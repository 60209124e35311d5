"""Style transfer by Gram matrices: all images in one compiled function, beside what it cannot be faster than.

    python benchmarks/style.py [--images 2] [--size 128] [--weights random|FILE] [--steps 500] [--repeats 1]

Image steps a second, four ways: Adam here; L-BFGS here, in two fifths of Adam's steps; the bare forward and backward
pass of the same layers of VGG-19 for the same batch, compiled and with the simplest of losses; and one image after
another in an eager loop with Keras's Adam, as most examples have it (40 steps of these two). Images a second are those
of whole optimisations, and count only beside the loss that they end with. The best of several runs counts, all in turn;
tracing does not. Content and style are drawn patches. Writes results/benchmarks/style.csv.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=2, help="in a batch (default 2)")
    parser.add_argument("--size", type=int, default=128, help="side of an image (default 128)")
    parser.add_argument("--width", type=int, default=64, help="of VGG-19 (default 64)")
    parser.add_argument("--weights", default="random", help="of VGG-19: random, imagenet or a file (default random)")
    parser.add_argument("--steps", type=int, default=500, help="of Adam (default 500)")
    parser.add_argument("--repeats", type=int, default=1, help="runs of which the best counts (default 1)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "style.csv")
    options = parser.parse_args()

    import pandas as pd

    contenders = _contenders(options)
    # In turn: whatever else slows the machine down for a while slows them all.
    passes: list[list[tuple[float, float | None]]] = []
    for _ in range(options.repeats):
        passes.append([])
        for name, images, steps, work in contenders:
            print(f"{name}: {images} image(s), {steps} steps", file=sys.stderr, flush=True)
            passes[-1].append(_timed(work))
    rows = []
    for (name, images, steps, _), runs in zip(contenders, zip(*passes)):
        seconds, loss = min(spent for spent, _ in runs), runs[0][1]
        row = {"contender": name, "images": images, "steps": steps}
        row["image_steps_per_second"] = round(images * steps / seconds, 2)
        row["loss"] = None if loss is None else float(f"{loss:.5g}")
        row["images_per_second"] = None if loss is None else float(f"{images / seconds:.4g}")
        rows.append(row)
    table = pd.DataFrame(rows)
    table["of_bare_pass"] = (table["image_steps_per_second"] / table["image_steps_per_second"][2]).round(3)
    table["loss_of_adam"] = (table["loss"] / table["loss"][0]).round(4)
    table["images_per_second_of_adam"] = (table["images_per_second"] / table["images_per_second"][0]).round(3)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))
    print(f"{options.size}×{options.size}, width {options.width}, {os.cpu_count()} cores; table: {options.out}")


def _contenders(options: argparse.Namespace) -> list[tuple[str, int, int, Callable[[], Any]]]:
    import numpy as np
    import tensorflow as tf

    from models import vgg
    from preprocessing import gram, style_transfer
    from preprocessing.style_settings import CONTENT_LAYER, LAYERS, settings_for
    from tests.preprocessing.stains import patches

    encoder = vgg.build(LAYERS[-1], options.width)
    kind = vgg.load(encoder, options.weights).kind
    drawn = patches(2 * options.images, size=options.size)[0]
    contents = tf.constant(drawn[: options.images], tf.float32) / 255.0
    start = tf.constant(np.random.default_rng(0).random(contents.shape, np.float32))
    wanted = [tf.constant(matrix) for matrix in gram.grams(gram.taps(encoder), drawn[options.images :])]
    settings = settings_for(kind, steps=options.steps, optimizer="adam")
    taps = vgg.taps(encoder, (*LAYERS, CONTENT_LAYER))
    size = float(np.prod(taps(contents[:1])[-1].shape[1:]))

    def here(optimizer: str, steps: int) -> Callable[[], float]:
        run = style_transfer.optimiser(encoder, settings_for(kind, steps=steps, optimizer=optimizer))
        run.get_concrete_function(start, contents, wanted)  # traced

        def work() -> float:
            _, (_, content, _, style) = run(start, contents, wanted)
            return float(tf.reduce_mean(settings.content_weight / size * content + settings.style_weight * style))

        return work

    @tf.function
    def bare(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.add_n([tf.reduce_sum(level) for level in taps(x)])
        return tape.gradient(loss, x)

    def one_by_one(steps: int) -> None:
        target, matrices = taps(contents[:1])[-1], [matrix[:1] for matrix in wanted]
        x, adam = tf.Variable(start[:1]), tf.keras.optimizers.Adam(settings.learning_rate)
        for _ in range(steps):
            with tf.GradientTape() as tape:
                *levels, deep = taps(x)
                content = style_transfer.content_loss(deep, target) / size
                style = style_transfer.style_loss(levels, matrices)
                loss = settings.content_weight * content + settings.style_weight * style
            adam.apply_gradients([(tape.gradient(loss, x), x)])
            x.assign(tf.clip_by_value(x, 0.0, 1.0))

    few, fewer = min(40, options.steps), max(2, round(0.4 * options.steps))

    def passes() -> None:
        for _ in range(few):
            bare(start)

    bare(start)
    one_by_one(1)
    return [
        ("here, Adam", options.images, options.steps, here("adam", options.steps)),
        ("here, L-BFGS", options.images, fewer, here("lbfgs", fewer)),
        ("bare forward and backward pass", options.images, few, passes),
        ("eager, one image at a time", 1, few, lambda: one_by_one(few)),
    ]


def _timed(work: Callable[[], Any]) -> tuple[float, float | None]:
    """Seconds, and the loss where there is one."""
    start = time.perf_counter()
    loss = work()
    return time.perf_counter() - start, loss


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
