"""What is compared with what in `results/plfl/claims.csv`: declared before anything runs."""

from typing import Any

from tffapps.evaluation.evidence import Claim


def _of(method: str, name: str = "") -> tuple[str, dict[str, Any]]:
    return name or method, {"method": method, "poison": 0}


# `gold only` is the server alone with its labels: where PLFL and PLFL+ begin. The other frameworks see other labels.
CLAIMS = tuple(
    Claim(_of(method), _of("gold", "gold only"), metric, title, each="model", same=("model",))
    for method in ("plfl", "plfl+", "fssfl", "csfl")
    for metric, title in (("macro_f1", "macro F1, {}"), ("accuracy", "accuracy, {}"))
)
