"""Membership alone, of a bundle and the images that it is said to have been trained on."""

from __future__ import annotations

import pathlib

import numpy as np
import pandas as pd

from tffapps.audit import membership
from tffapps.audit.membership import Seen
from tffapps.audit.of_run import Audit
from tffapps.data import labelled
from tffapps.errors import UserError
from tffapps.use import bundle
from tffapps.use.predict import Predictor


def audit(path: pathlib.Path, data: str) -> Audit:
    """`data`: a folder or manifest with training and test images."""
    predictor = Predictor(bundle.load(path))
    pool = labelled.load(pathlib.Path(data), predictor.bundle.preprocess.channels)
    unknown = sorted(set(pool.classes) - set(predictor.bundle.classes))
    if unknown:
        raise UserError(f"--data {data}: {path} has no class {unknown[0]}; give the images that it was trained on")
    members, others = (_seen(predictor, pool.part(split)) for split in ("train", "test"))
    return Audit(membership.attacks(members, others), [], {}, "", "", "")


def _seen(predictor: Predictor, rows: pd.DataFrame) -> Seen:
    classes = list(predictor.bundle.classes)
    codes = [classes.index(label) for label in rows.label]
    found = {answer.place: answer.probabilities for answer in predictor.of_files(list(rows.path))}
    seen = {place: values for place, values in found.items() if values is not None}
    probabilities = np.array(list(seen.values()), np.float64).reshape(-1, len(classes))
    return Seen(np.array([codes[place] for place in seen], np.int64), probabilities)
