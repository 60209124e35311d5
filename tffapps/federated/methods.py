"""Names and methods. A new method is one file and one line here."""

from __future__ import annotations

from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedavgm import FedAvgM
from tffapps.federated.fedfa import FedFA
from tffapps.federated.fedlesam import FedLESAM
from tffapps.federated.fedprox import FedProx
from tffapps.federated.fedsam import FedSAM
from tffapps.federated.fedyogi import FedYogi
from tffapps.federated.method import Method

_ALL: tuple[type[Method], ...] = (FedAvg, FedProx, FedAvgM, FedYogi, FedSAM, FedLESAM, FedFA)
METHODS = {method.name: method for method in _ALL}
