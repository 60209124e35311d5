"""What is compared with what in `results/fnst/claims.csv` and `table4_gains.csv`: declared before anything runs."""

from tffapps.evaluation.evidence import Claim
from tffapps.fnst import METRICS

_FNST = ("fnst {}", {"method": "fnst"})
_FEDAVG = ("fedavg", {"method": "fedavg"})
_REPEATED = ("repeated", {"method": "repeated"})
_SAME = ("rare", "augmentation")

CLAIMS = (
    Claim(_FNST, _FEDAVG, "macro_f1", "macro F1", each="augmentation", same=_SAME),
    Claim(_FNST, _REPEATED, "macro_f1", "macro F1", each="augmentation", same=_SAME, control=True),
)
# Table 4 of the paper: gains over the federation without images made, and over the best client alone.
GAINS = tuple(
    Claim((f"{name} {{}}", {"method": name}), baseline, metric, metric, each="augmentation", same=_SAME, best=best)
    for name in ("fnst", "repeated")
    for metric in METRICS
    for baseline, best in ((_FEDAVG, ""), (("best client alone", {"method": "separate"}), "site"))
)
