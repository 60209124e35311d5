"""What is compared with what in `results/fedtransfer/claims.csv`: declared before anything runs."""

from typing import Any

from tffapps.evaluation.evidence import Claim
from tffapps.fedtransfer import GLOBAL


def _of(name: str, **labels: Any) -> tuple[str, dict[str, Any]]:
    return name, {"method": name, "test": GLOBAL, "first": True, **labels}


_FEDTRANSFER = _of("fedtransfer")
_TITLE = "MAP, all clients' tiles"

CLAIMS = (
    Claim(_FEDTRANSFER, _of("fedavg"), "map", _TITLE),
    Claim(_FEDTRANSFER, _of("repeated"), "map", _TITLE, control=True),
    Claim(
        _FEDTRANSFER,
        ("best client alone", {"method": "separate", "test": GLOBAL}),
        "map",
        _TITLE,
        control=True,
        best="site",
    ),
)
