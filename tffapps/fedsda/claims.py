"""What is compared with what in `results/fedsda/claims.csv`: declared before anything runs."""

from typing import Any

from tffapps.evaluation.evidence import Claim
from tffapps.fedsda import SIDES_ON_REQUEST
from tffapps.fedsda.data import FEDERATION

_SIDES = ("ccst", "amp-norm", *SIDES_ON_REQUEST)  # other ways to align images

_VARIANTS = ("gaussian", "fedsda+")  # of FedSDA, that should be ahead of plain FedAvg as well


def _under(side: str, **labels: Any) -> dict[str, Any]:
    return {"method": "fedavg", "side": side, **labels}


def _claims(title: str, each: str, **labels: Any) -> tuple[Claim, ...]:
    method, plain = ("fedavg + fedsda", _under("fedsda", **labels)), ("fedavg", _under("none", **labels))
    common: dict[str, Any] = {"metric": "auroc", "title": title, "each": each, "same": (each,) if each else ()}
    return (
        Claim(method, plain, **common),
        *(Claim(method, (side, _under(side, **labels)), control=True, **common) for side in _SIDES),
        *(Claim((f"fedavg + {side}", _under(side, **labels)), plain, **common) for side in _VARIANTS),
    )


CLAIMS = (*_claims("AUROC", "", fold=FEDERATION), *_claims("AUROC, {} left out", "left_out", left=True))
