"""What is compared with what in `results/plfl/claims.csv`: declared before anything runs."""

from typing import Any

from tffapps.evaluation.evidence import Claim
from tffapps.plfl import CONTINUED, SUPERVISED_PART


def _of(method: str, name: str = "") -> tuple[str, dict[str, Any]]:
    return name or method, {"method": method, "poison": 0}


_MACRO_F1, _KAPPA = ("macro_f1", "macro F1, {}"), ("quadratic_kappa", "quadratic kappa, {}")


def _claims(
    methods: tuple[str, ...], baseline: tuple[str, dict[str, Any]], metrics: tuple[tuple[str, str], ...], control: bool
) -> tuple[Claim, ...]:
    return tuple(
        Claim(_of(method), baseline, metric, title, each="model", same=("model",), control=control)
        for method in methods
        for metric, title in metrics
    )


def against_continued(methods: tuple[str, ...]) -> tuple[Claim, ...]:
    return _claims(methods, _of(CONTINUED, "gold continued"), (_MACRO_F1, _KAPPA), True)


# `gold only` is the server alone with its labels, where all but csfl and fssfl begin; `gold continued` is the server
# alone for as many steps and views as plfl+ takes. csfl and fssfl see other labels. fixmatch is fssfl mended.
CLAIMS = (
    *_claims(("plfl", "plfl+", "fssfl", "csfl"), _of("gold", "gold only"), (_MACRO_F1,), False),
    *_claims((CONTINUED,), _of("gold", "gold only"), (_MACRO_F1, _KAPPA), False),
    *against_continued(("plfl", "plfl+", "semifl", "fl2", "csfl", "labels", "central")),
    *_claims(("fixmatch", "fssfl"), _of(SUPERVISED_PART, "fssfl's labels alone"), (_MACRO_F1,), True),
)
