"""Names and methods. A new method is one file and one line here."""

from tffapps.federated.alternate_pseudo_label import AlternatePseudoLabel
from tffapps.federated.ditto import Ditto
from tffapps.federated.fedadagrad import FedAdagrad
from tffapps.federated.fedadam import FedAdam
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedavgm import FedAvgM
from tffapps.federated.fedbn import FedBN
from tffapps.federated.feddyn import FedDyn
from tffapps.federated.fedfa import FedFA
from tffapps.federated.fedlesam import FedLESAM
from tffapps.federated.fednova import FedNova
from tffapps.federated.fedper import FedPer
from tffapps.federated.fedproto import FedProto
from tffapps.federated.fedprox import FedProx
from tffapps.federated.fedsam import FedSAM
from tffapps.federated.fedstyle import FedStyle
from tffapps.federated.fedyogi import FedYogi
from tffapps.federated.fl2 import FL2
from tffapps.federated.flexmatch import FlexMatch
from tffapps.federated.fpl import FPL
from tffapps.federated.freematch import FreeMatch
from tffapps.federated.mended_fixmatch import MendedFixMatch
from tffapps.federated.method import Method
from tffapps.federated.moon import Moon
from tffapps.federated.scaffold import Scaffold
from tffapps.federated.semifl import SemiFL
from tffapps.federated.silobn import SiloBN

# What `--methods` plays where it is not given, and what else it takes (docs/methods.md).
_PLAYED: tuple[type[Method], ...] = (FedAvg, FedProx, FedAvgM, FedYogi, FedSAM, FedLESAM, FedFA)
_WHEN_ASKED: tuple[type[Method], ...] = (Scaffold, FedNova, FedDyn, Moon, FedAdam, FedAdagrad)
_PERSONAL: tuple[type[Method], ...] = (FedBN, SiloBN, FedPer, Ditto)  # every client has a model of its own
PLAYED = tuple(method.name for method in _PLAYED)
METHODS = {method.name: method for method in (*_PLAYED, *_WHEN_ASKED, *_PERSONAL)}

# For images of which a part is labelled: at clients or at the server, or at the server alone.
_LABELS_ANYWHERE: tuple[type[Method], ...] = (MendedFixMatch, FlexMatch, FreeMatch)
_LABELS_AT_SERVER: tuple[type[Method], ...] = (SemiFL, FL2, AlternatePseudoLabel)
FEW_LABELS = {method.name: method for method in (*_LABELS_ANYWHERE, *_LABELS_AT_SERVER)}
LABELS_AT_SERVER = tuple(method.name for method in _LABELS_AT_SERVER)

# The server has images of its own, or there is no global model: only for applications that provide for it.
_BY_EMBEDDINGS: tuple[type[Method], ...] = (FedProto, FPL, FedStyle)
EMBEDDING_METHODS = {method.name: method for method in _BY_EMBEDDINGS}
