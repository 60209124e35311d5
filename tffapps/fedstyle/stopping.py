"""When a run has converged: its validation loss has been no lower for so many rounds (`--patience`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from tffapps.evaluation.evaluator import LOSS, VAL_LOSS


def converged(rounds: pd.DataFrame, patience: int) -> bool:
    """Of the rounds so far, a row each; where settings are tuned the validation loss is called loss."""
    losses = rounds[VAL_LOSS if VAL_LOSS in rounds else LOSS].fillna(np.inf).to_numpy()
    return len(losses) - 1 - int(losses.argmin()) >= patience


def when(patience: int) -> Callable[[pd.DataFrame], bool] | None:
    """What a trial asks after every round; None: it plays all of them."""
    return (lambda rounds: converged(rounds, patience)) if patience else None
