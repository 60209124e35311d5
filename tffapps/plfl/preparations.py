"""`python -m tffapps.plfl preparations --data FOLDER`: do the mask and the contrast help, and is one side harder?

Every X-ray is prepared in five ways; a frozen MobileNetV2 sees each, and a logistic regression on what it makes of them
is tested in five folds by person. All ways have the same folds and choose their regularisation, of the same values, on
people of the training part. Writes FOLDER/plfl/preparations.csv (scores of both sides, and of each: the letter in the
file's name) and preparation_claims.csv (each way against the X-rays as they are).
"""

import argparse
import os
import pathlib
import re
from collections.abc import Sequence

from preprocessing.parser import Parser
from tffapps import UserError, cli

NAME = "plfl preparations"
AS_IT_IS, MASK, CLAHE = "as it is", "mask", "CLAHE"
WAYS = (AS_IT_IS, CLAHE, MASK, f"{MASK}, {CLAHE}", f"{MASK}, equalised")
CUT, REGULARISATIONS, METRICS = "block_12_add", (0.01, 0.1), ("accuracy", "macro_f1")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return cli.guarded(NAME, lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog=f"python -m tffapps.{NAME}", description="Whether mask and contrast help a frozen network.")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="of the OAI layout, as plfl reads it")
    parser.add_argument("--size", type=int, default=128, help="pixels on a side (default %(default)s)")
    parser.add_argument("--folds", type=int, default=5, help="by person (default %(default)s)")
    parser.add_argument("--weights", default="imagenet", metavar="imagenet|random|FILE")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"), metavar="FOLDER")
    return parser


def prepared(contents: bytes, way: str) -> bytes:
    """An X-ray's bytes prepared in one of WAYS, as `cached_images` calls it."""
    from preprocessing.knee import KneeRejected, KneeSettings, decode, encode, raise_contrast, steps
    from tffapps.data.cache import Rejected

    try:
        image = decode(contents)
    except KneeRejected as rejected:
        raise Rejected(str(rejected)) from None
    if way == AS_IT_IS:
        return encode(image)
    pictures = steps(image, KneeSettings(contrast="equalize" if "equalised" in way else "clahe"))
    if way == CLAHE:
        return encode(raise_contrast(pictures["grey"]))
    return encode(pictures["masked" if way == MASK else "contrast"])


def side(path: str) -> str:
    """left or right, by the letter after the digits of the file's name; "" where there is none."""
    found = re.search(r"\d([LR])(?![A-Za-z])", pathlib.Path(path).stem, re.IGNORECASE)
    return "" if found is None else {"L": "left", "R": "right"}[found[1].upper()]


def _run(options: argparse.Namespace) -> None:
    cli.quiet()
    if options.size < 32 or options.folds < 2:
        raise UserError("--size must be 32 or more, and --folds 2 or more")
    import numpy as np
    from sklearn.model_selection import StratifiedGroupKFold

    from tffapps import cache_folder, write_table
    from tffapps.data import oai
    from tffapps.data.cache import cached_images
    from tffapps.evaluation import evidence, metrics
    from tffapps.evaluation.subjects import Run

    table = oai.read_oai(pathlib.Path(options.data))
    classes = oai.classes(table)
    codes = np.array([classes.index(label) for label in table.label])
    sides, subjects = table.path.map(side).to_numpy(str), table.subject.to_numpy(str)
    folds = StratifiedGroupKFold(options.folds, shuffle=True, random_state=0)
    divided = list(folds.split(codes, codes, subjects))
    entries, by_side = list[evidence.Entry](), list[evidence.Entry]()
    for way in WAYS:
        paths, rejected = cached_images(list(table.path), prepared, {"way": way}, cache_folder() / "preparations")
        for path, reason in rejected.items():
            raise UserError(f"{path}: {reason}; remove it")
        seen = _features([os.path.abspath(str(path)) for path in paths], options)
        for number, (trained, tested) in enumerate(divided):
            probabilities = _judged(seen, codes, subjects, trained, tested)
            labels = {"preparation": way, "seed": 0}
            run = Run(
                codes[tested], probabilities, subjects[tested], table.path.to_numpy(str)[tested], f"fold{number}", 0,
                len(set(subjects[trained])),
            )  # fmt: skip
            whole = evidence.Entry({**labels, "side": "both"}, run, sides[tested], tuple(classes))
            entries.append(whole)
            parts = ((name, evidence.of_client(whole, name)) for name in ("left", "right"))
            by_side += [
                evidence.Entry({**labels, "side": name}, part.run, part.clients) for name, part in parts if part
            ]
        print(f"{way}: done", flush=True)
    measured = {**{name: metrics.NAMED[name] for name in METRICS}, "quadratic_kappa": metrics.kappa()}
    scores = evidence.table([*entries, *by_side], ["preparation", "side"], measured)
    declared = [
        evidence.Claim((way, {"preparation": way}), (AS_IT_IS, {"preparation": AS_IT_IS}), metric, metric, control=True)
        for way in WAYS[1:]
        for metric in METRICS
    ]
    what_ran = {"data": pathlib.Path(options.data).resolve().name, "weights": options.weights}
    folder = options.results / "plfl"
    write_table(folder / "preparations.csv", scores, **what_ran)
    write_table(folder / "preparation_claims.csv", evidence.claims(entries, declared), **what_ran)
    print(scores.to_string(index=False, float_format="{:.3f}".format))


def _features(paths: list[str], options: argparse.Namespace):  # type: ignore[no-untyped-def]
    """(n, 4 × channels): what crosses the cut, its mean in each quarter of the frame."""
    import numpy as np

    from tffapps import CutSettings, Inputs, Network, cache_folder

    network = Network("mobilenetv2", options.size, 1, "gap", options.weights, CutSettings(train_from=CUT))
    inputs = Inputs(network, classes=3, formats=("png",), cache=cache_folder() / "features", augmentations={})
    inputs.initial(0)
    parts = []
    for maps, _ in inputs.batches(paths, np.zeros(len(paths), np.int32), batch=64, shuffle=False):
        half = maps.shape[1] // 2
        quarters = [maps[:, :half, :half], maps[:, :half, half:], maps[:, half:, :half], maps[:, half:, half:]]
        parts.append(np.concatenate([quarter.numpy().mean(axis=(1, 2)) for quarter in quarters], axis=1))
    return np.concatenate(parts)


def _judged(seen, codes, subjects, trained, tested):  # type: ignore[no-untyped-def]
    """(n, classes) of the tested rows, by the regularisation that was best on a fifth of the training people."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score
    from sklearn.model_selection import StratifiedGroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def fitted(rows: np.ndarray, strength: float):  # type: ignore[no-untyped-def]
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=300, tol=1e-3))
        return model.fit(seen[rows], codes[rows])

    inner = StratifiedGroupKFold(5, shuffle=True, random_state=1)
    own, held_back = next(inner.split(trained, codes[trained], subjects[trained]))
    own, held_back = trained[own], trained[held_back]
    f1 = [
        f1_score(codes[held_back], fitted(own, strength).predict(seen[held_back]), average="macro")
        for strength in REGULARISATIONS
    ]
    return fitted(trained, REGULARISATIONS[int(np.argmax(f1))]).predict_proba(seen[tested])
