"""Style transfer by Gram matrices: all images in one compiled function, beside what it cannot be faster than.

    python benchmarks/style.py [--images 8] [--size 224] [--width 64] [--steps 40]

Image steps a second, three ways: the optimisation here; the bare forward and backward pass of the same layers of VGG-19
for the same batch, compiled and with the simplest of losses; and one image after another in an eager loop with Keras's
Adam, as most examples have it. The best of several runs counts; tracing does not. Writes results/benchmarks/style.csv.
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
    parser.add_argument("--images", type=int, default=8, help="in a batch (default 8)")
    parser.add_argument("--size", type=int, default=224, help="side of an image (default 224)")
    parser.add_argument("--width", type=int, default=64, help="of VGG-19 (default 64)")
    parser.add_argument("--steps", type=int, default=40, help="of Adam (default 40)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the best counts (default 3)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "style.csv")
    options = parser.parse_args()

    import pandas as pd

    contenders = _contenders(options)
    for name, images, steps, work in contenders:
        print(f"{name}: {images} image(s), {steps} steps", file=sys.stderr, flush=True)
        work()  # traced, and memory warmed up
    # In turn: whatever else slows the machine down for a while slows them all.
    passes = [[_seconds(work) for *_, work in contenders] for _ in range(options.repeats)]
    rows = [
        {
            "contender": name,
            "images": images,
            "steps": steps,
            "image_steps_per_second": round(images * steps / min(seconds), 2),
        }
        for (name, images, steps, _), seconds in zip(contenders, zip(*passes))
    ]
    table = pd.DataFrame(rows)
    table["of_bare_pass"] = (table["image_steps_per_second"] / table["image_steps_per_second"][1]).round(3)
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

    encoder = vgg.build(LAYERS[-1], options.width)
    drawn = np.random.default_rng(0).integers(0, 256, (options.images, options.size, options.size, 3)).astype(np.uint8)
    contents, start = tf.constant(drawn, tf.float32) / 255.0, tf.constant(drawn[:, ::-1], tf.float32) / 255.0
    wanted = [tf.constant(matrix) for matrix in gram.grams(gram.taps(encoder), drawn)]
    settings = settings_for("random", steps=options.steps)
    run = style_transfer.optimiser(encoder, settings)
    taps = vgg.taps(encoder, (*LAYERS, CONTENT_LAYER))

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
                content = style_transfer.content_loss(deep, target) / float(np.prod(target.shape[1:]))
                style = style_transfer.style_loss(levels, matrices)
                loss = settings.content_weight * content + settings.style_weight * style
            adam.apply_gradients([(tape.gradient(loss, x), x)])
            x.assign(tf.clip_by_value(x, 0.0, 1.0))

    def passes() -> None:
        for _ in range(options.steps):
            bare(start)

    return [
        ("here, batched", options.images, options.steps, lambda: run(start, contents, wanted)),
        ("bare forward and backward pass", options.images, options.steps, passes),
        ("eager, one image at a time", 1, options.steps, lambda: one_by_one(options.steps)),
    ]


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
