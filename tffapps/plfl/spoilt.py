"""`python -m tffapps.plfl spoilt --data FOLDER`: the rule for corrupt images, tried on images spoilt on purpose.

Of the X-rays of the folder some are drawn, and spoilt in every way that the thesis names ("fully dark or half knee not
visible") and a few that it does not. FOLDER/plfl/spoilt.csv has for each way the share that the rule rejects (recall),
and for the X-rays as they are the share that it rejects, too (false alarms), with intervals of Wilson.
"""

import argparse
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from preprocessing.parser import Parser
from tffapps import UserError, cli
from tffapps.evaluation.intervals import wilson

NAME = "plfl spoilt"
AS_IT_IS = "as it is"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return cli.guarded(NAME, lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog=f"python -m tffapps.{NAME}", description="Recall and false alarms of the rule for bad X-rays.")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="of the OAI layout, as plfl reads it")
    parser.add_argument("--images", type=int, default=300, help="that are drawn (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"), metavar="FOLDER")
    return parser


def _dark(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (image * rng.uniform(0, 0.08)).astype(np.uint8)


def _bright(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (255 - (255 - image) * rng.uniform(0, 0.08)).astype(np.uint8)


def _flat(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.full_like(image, rng.integers(40, 216))


def _half(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the frame or more is black, on one of its four sides."""
    spoilt, away = image.copy(), rng.uniform(0.5, 0.7)
    turned = np.rot90(spoilt, rng.integers(4))  # a view
    turned[: round(away * len(turned))] = 0
    return spoilt


def _moved(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the knee is outside of the frame, the rest of which is background."""
    away = round(rng.uniform(0.45, 0.6) * image.shape[1])
    moved = np.full_like(image, np.median(image[:, :4]))
    moved[:, away:] = image[:, : image.shape[1] - away]
    return moved if rng.random() < 0.5 else moved[:, ::-1]


def _noise(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, image.shape, np.uint8)


WAYS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "nearly black": _dark, "nearly white": _bright, "one grey": _flat, "half black": _half, "half outside": _moved,
    "noise alone": _noise,
}  # fmt: skip


def _run(options: argparse.Namespace) -> None:
    import pandas as pd

    from preprocessing.knee import check, decode, steps
    from tffapps import write_table
    from tffapps.data import oai

    if options.images < 1:
        raise UserError(f"--images {options.images}: must be 1 or more")
    paths = oai.read_oai(pathlib.Path(options.data)).path
    rng = np.random.default_rng(options.seed)
    drawn = rng.permutation(paths)[: options.images]
    rejected = dict.fromkeys((AS_IT_IS, *WAYS), 0)
    for path in drawn:
        image = decode(pathlib.Path(path).read_bytes())
        for way in rejected:
            spoilt = np.ascontiguousarray(WAYS[way](image, rng) if way in WAYS else image)
            rejected[way] += check(spoilt, steps(spoilt)["mask"]) is not None
    rows = [
        {"spoilt": way, "measures": "recall" if way in WAYS else "false alarms", "images": len(drawn),
         "rejected": count, "share": count / len(drawn), "low": low, "high": high}
        for way, count in rejected.items()
        for low, high in [wilson(count, len(drawn))]
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    write_table(options.results / "plfl" / "spoilt.csv", table, data=pathlib.Path(options.data).resolve().name)
    print(table.to_string(index=False, float_format="{:.3f}".format))
