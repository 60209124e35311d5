"""What is compared with what in `results/fedstyle/claims.csv`: declared before anything runs."""

from typing import Any

from tffapps.evaluation.evidence import Claim
from tffapps.fedstyle import COMPARISON


def _of(name: str) -> tuple[str, dict[str, Any]]:
    return name, {"method": name, "study": COMPARISON}


# `local` is the server alone with the public pictures: FedStyle's own server step, without the federation.
CLAIMS = (
    Claim(_of("fedstyle"), _of("fedavg"), "accuracy", "accuracy"),
    Claim(_of("fedstyle"), _of("local"), "accuracy", "accuracy", control=True),
    *(Claim(_of("fedstyle"), _of(name), "accuracy", "accuracy") for name in ("fedprox", "fedproto", "fpl")),
)
