"""Names and methods. A new method is one file and one line here."""

from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedavgm import FedAvgM
from tffapps.federated.fedfa import FedFA
from tffapps.federated.fedlesam import FedLESAM
from tffapps.federated.fedproto import FedProto
from tffapps.federated.fedprox import FedProx
from tffapps.federated.fedsam import FedSAM
from tffapps.federated.fedstyle import FedStyle
from tffapps.federated.fedyogi import FedYogi
from tffapps.federated.fpl import FPL
from tffapps.federated.method import Method

_ALL: tuple[type[Method], ...] = (FedAvg, FedProx, FedAvgM, FedYogi, FedSAM, FedLESAM, FedFA)
METHODS = {method.name: method for method in _ALL}

# Clients keep something between rounds, the server has images of its own, or there is no global model: only for
# applications that provide for it.
_BY_EMBEDDINGS: tuple[type[Method], ...] = (FedProto, FPL, FedStyle)
EMBEDDING_METHODS = {method.name: method for method in _BY_EMBEDDINGS}
