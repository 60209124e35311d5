"""What is compared with what in `results/classify/claims.csv`: declared before anything runs."""

from tffapps import METHODS
from tffapps.evaluation.evidence import Claim

METRIC, TITLE = "macro_f1", "macro F1"
_FEDAVG = ("fedavg", {"method": "fedavg"})

CLAIMS = (
    Claim(_FEDAVG, ("best client alone", {"method": "separate"}), METRIC, TITLE, same=("aggregator",), best="site"),
    Claim(
        ("{}", {"method": tuple(name for name in METHODS if name != "fedavg")}),
        _FEDAVG,
        METRIC,
        TITLE,
        each="method",
    ),
)
