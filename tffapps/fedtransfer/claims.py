"""What is compared with what in `results/fedtransfer/claims.csv`: declared before anything runs."""

from typing import Any

from tffapps.evaluation.evidence import Claim
from tffapps.fedtransfer import GLOBAL


def _of(name: str, **labels: Any) -> tuple[str, dict[str, Any]]:
    return name, {"method": name, "test": GLOBAL, "first": True, **labels}


_FEDTRANSFER = _of("fedtransfer")
_TITLE, _GROWN = "MAP, all clients' tiles", "MAP of grown grains, all clients' tiles"

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
    Claim(_FEDTRANSFER, _of("repeated"), "grown_map", _GROWN, control=True),
    Claim(_FEDTRANSFER, _of("watershed"), "grown_map", _GROWN, control=True),
    Claim(_of("fedavg"), _of("watershed"), "grown_map", _GROWN, control=True),
)
