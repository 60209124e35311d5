"""What the FedTransfer paper reports, for the columns beside ours: MAP, MVI and ARI, in the order of PAPERS_METRICS.

Means over five folds. The global test set is both clients' together.
"""

from tffapps.data.grains_drawing import AUSTENITE, IRON
from tffapps.fedtransfer import GLOBAL

_Three = tuple[float, float, float]

# (method, trained on) -> (tested on -> metrics)
TABLE_2: dict[tuple[str, str], dict[str, _Three]] = {
    ("separate", AUSTENITE): {
        AUSTENITE: (0.585, 0.190, 0.821), IRON: (0.476, 0.375, 0.702), GLOBAL: (0.530, 0.283, 0.762),
    },
    ("separate", IRON): {
        AUSTENITE: (0.165, 1.636, 0.358), IRON: (0.613, 0.133, 0.807), GLOBAL: (0.389, 0.884, 0.582),
    },
    ("centralised", "all data"): {
        AUSTENITE: (0.580, 0.192, 0.817), IRON: (0.600, 0.144, 0.799), GLOBAL: (0.590, 0.168, 0.808),
    },
}  # fmt: skip
TABLE_3: dict[tuple[str, str], dict[str, _Three]] = {
    ("fedavg", "federation"): {
        AUSTENITE: (0.480, 0.223, 0.747), IRON: (0.539, 0.250, 0.747), GLOBAL: (0.510, 0.236, 0.747),
    },
    ("fedtransfer", "federation"): {
        AUSTENITE: (0.559, 0.195, 0.809), IRON: (0.586, 0.162, 0.801), GLOBAL: (0.575, 0.178, 0.807),
    },
}  # fmt: skip
VALUES = {**TABLE_2, **TABLE_3}
