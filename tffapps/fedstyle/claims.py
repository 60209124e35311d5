"""What is compared with what in `results/fedstyle/claims.csv`: declared before anything runs."""

from typing import Any

from tffapps.evaluation.evidence import Claim
from tffapps.fedstyle import COMPARISON, FROM_PUBLIC, UNTRAINED


def _of(name: str, start: str | None = None) -> tuple[str, dict[str, Any]]:
    label = f"{name} from {start}" if start else name
    return label, {"method": name, "study": COMPARISON, "start": start}


def _from(start: str | None) -> list[Claim]:
    """FedStyle against all others that begin as it does.

    `local` is the server alone with the public pictures: FedStyle's own server step, without the federation;
    `fedavg_public` is both without styles.
    """
    controls = [_of("local"), _of("fedavg_public", start), *(_of(name) for name in UNTRAINED)]
    usual = [_of("fedavg", start)]
    others = [_of(name, start) for name in ("fedprox", "fedproto", "fpl", "fedavg_ccvr")]
    return [
        Claim(_of("fedstyle", start), each, "accuracy", "accuracy", control=each in controls)
        for each in (*usual, *controls, *others)
    ]


CLAIMS = (*_from(None), *_from(FROM_PUBLIC))
