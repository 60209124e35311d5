"""What is compared with what in `results/fedsda/claims.csv`: declared before anything runs."""

from typing import Any

from tffapps.evaluation.evidence import Claim
from tffapps.fedsda.data import FEDERATION

_SIDES = ("ccst", "amp-norm")  # other ways to align images


def _under(side: str, **labels: Any) -> dict[str, Any]:
    return {"method": "fedavg", "side": side, **labels}


def _claims(title: str, each: str, **labels: Any) -> tuple[Claim, ...]:
    method = ("fedavg + fedsda", _under("fedsda", **labels))
    common: dict[str, Any] = {"metric": "auroc", "title": title, "each": each, "same": (each,) if each else ()}
    return (
        Claim(method, ("fedavg", _under("none", **labels)), **common),
        *(Claim(method, (side, _under(side, **labels)), control=True, **common) for side in _SIDES),
    )


CLAIMS = (*_claims("AUROC", "", fold=FEDERATION), *_claims("AUROC, {} left out", "left_out", left=True))
