"""What is compared with what in `results/fedsda/claims.csv`: declared before anything runs.

Two questions, each with p-values corrected for itself: does a side help centres that took part in training, and does
it help one that did not? Of the latter every comparison is one, a mean over the centres left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tffapps.evaluation import evidence
from tffapps.evaluation.evidence import Claim, Entry
from tffapps.fedsda import HARMOFL, SIDES_ON_REQUEST, SILOBN
from tffapps.fedsda.data import FEDERATION

_SIDES = ("ccst", "amp-norm", *SIDES_ON_REQUEST)  # other ways to align images
_RIVALS = {"harmofl": HARMOFL, "silobn": SILOBN}  # that are more than a side


def _under(side: str, **labels: Any) -> dict[str, Any]:
    return {"method": "fedavg", "side": side, **labels}


def _claims(title: str, **labels: Any) -> tuple[Claim, ...]:
    method, plain = ("fedavg + fedsda", _under("fedsda", **labels)), ("fedavg", _under("none", **labels))
    rivals = {name: {"method": method, "side": side, **labels} for name, (method, side) in _RIVALS.items()}
    common: dict[str, Any] = {"metric": "auroc", "title": title}
    return (
        Claim(method, plain, **common),
        *(Claim(method, (side, _under(side, **labels)), control=True, **common) for side in _SIDES),
        *(Claim(method, rival, control=True, **common) for rival in rivals.items()),
        *(Claim((f"fedavg + {side}", _under(side, **labels)), plain, **common) for side in _SIDES),
        *(Claim(rival, plain, **common) for rival in rivals.items()),
    )


QUESTIONS = (_claims("AUROC", fold=FEDERATION), _claims("AUROC, each centre left out", left=True))


def compared(entries: Sequence[Entry]) -> pd.DataFrame:
    """One row for each comparison of which there are runs."""
    tables = [evidence.claims(entries, claims) for claims in QUESTIONS]
    return (
        pd.concat([table for table in tables if len(table)], ignore_index=True) if any(map(len, tables)) else tables[0]
    )
