"""Predictions of finished runs, one row an image: what every score, interval and test is computed from.

    predictions.csv     in a run's folder
        model           "last": the weights that the run ends with; "chosen": those that validation chose
        part            "test" or "val"
        image           a pseudonym, the same in every run that saw the image (`evaluation.identities`)
        subject         a pseudonym; the image's where the data name no subjects
        client          whose image it is
        judge           whose model predicted it, where clients' own models are judged on all images; else blank
        label           of a classifier: the true class
        p_<class>       of a classifier: a probability for each class, by the whole network in single precision
        <metric>        of a segmentation: what is measured on a tile, one column each

The probabilities are the model's own; temperatures and thresholds are fitted to them later.
"""

import dataclasses
import pathlib

import numpy as np
import pandas as pd

from tffapps.errors import UserError
from tffapps.files import replacing

FILE = "predictions.csv"
LAST, CHOSEN = "last", "chosen"
TEST, VALIDATION = "test", "val"
KEYS = ("model", "part", "image", "subject", "client", "judge")
PREFIX = "p_"


@dataclasses.dataclass(frozen=True)
class StoredPredictions:
    """Of a classifier's images, in the order in which they were predicted."""

    table: pd.DataFrame  # the columns KEYS
    classes: list[str]
    labels: np.ndarray  # (n,) positions in classes
    probabilities: np.ndarray  # (n, classes)

    def __len__(self) -> int:
        return len(self.labels)


def probability_columns(probabilities: np.ndarray, classes: list[str]) -> dict[str, np.ndarray]:
    return {PREFIX + label: probabilities[:, code] for code, label in enumerate(classes)}


def write(folder: pathlib.Path, tables: dict[str, pd.DataFrame]) -> None:
    """`tables`: by model, with the columns of a part; nothing is written where nothing was predicted."""
    rows = [table.assign(model=model) for model, table in tables.items() if len(table)]
    if rows:
        whole = pd.concat(rows, ignore_index=True)
        others = [name for name in whole.columns if name not in KEYS]
        with replacing(folder / FILE) as file:
            whole[[*KEYS, *others]].to_csv(file, index=False, float_format="%.9g")  # single precision, exactly


def read(folder: pathlib.Path, model: str = LAST, part: str = TEST) -> pd.DataFrame:
    """The rows of a model and a part; of a run that chose no model, its last one's. Empty where nothing was stored."""
    path = folder / FILE
    if not path.exists():
        return pd.DataFrame(columns=list(KEYS))
    try:
        # Names stay text: an image called 0012 is not number twelve.
        names = dict.fromkeys((*KEYS, "label"), str)
        table = pd.read_csv(path, dtype=names, keep_default_na=False, na_values={"": []}, float_precision="round_trip")
    except (OSError, ValueError) as error:
        raise damaged(path) from error
    if not set(KEYS) <= set(table.columns):
        raise damaged(path)
    if model == CHOSEN and not (table["model"] == CHOSEN).any():
        model = LAST
    return table[(table["model"] == model) & (table["part"] == part)].reset_index(drop=True)


def read_classifier(folder: pathlib.Path, model: str = LAST, part: str = TEST) -> StoredPredictions:
    """A UserError where a run is no classifier's, or of a version that stored no predictions."""
    table, path = read(folder, model, part), folder / FILE
    columns = [name for name in table.columns if name.startswith(PREFIX)]
    if not columns or "label" not in table.columns or not len(table):
        raise UserError(f"{path}: no predictions of a classifier's {part} images; run it again with --fresh")
    classes = [name[len(PREFIX) :] for name in columns]
    codes = {label: code for code, label in enumerate(classes)}
    try:
        probabilities = table[columns].to_numpy(np.float64)  # where all are 0 or 1 they were read as whole numbers
    except ValueError as error:
        raise damaged(path) from error
    if not set(table["label"]) <= set(codes) or not np.isfinite(probabilities).all():
        raise damaged(path)
    labels = np.array([codes[label] for label in table["label"]], np.int64)
    return StoredPredictions(table[list(KEYS)], classes, labels, probabilities)


def damaged(path: pathlib.Path) -> UserError:
    return UserError(f"{path} cannot be understood; remove its folder to run it again, or use --fresh for all")
