"""FedStyle, `python -m tffapps.fedstyle`: which artist made this picture; every client is one artist.

  local      the server alone, on the public pictures
  fedavg     FedAvg
  fedprox    FedAvg with a proximal term
  fedproto   prototypes instead of weights; every client has a model of its own
  fpl        FedAvg, drawn to clustered prototypes
  fedstyle   styles beside weights, and a server that trains on the public pictures
On request, fair rivals of it:
  fedavg_public   FedAvg, and its server trains on the public pictures as FedStyle's does: no styles
  fedavg_ccvr     FedAvg, its classifying layer trained anew at the end (CCVR)
  neighbours      the nearest pictures in the frozen part of the network: nothing is trained
  prototypes      the nearest mean of an artist's pictures there
`python -m tffapps.fedstyle query PICTURE…` asks the model that fedstyle has trained.

Pictures are divided by artist, but where a manifest says whose they are (clients `server` and others), and where the
clients are sites: then --data is the public pictures, and a site's classes are the artists it has.
"""

import dataclasses
from typing import Any

from models.names import HEADS
from tffapps import (
    DEMO_NETWORK,
    LAST,
    MODEL,
    MODEL_HELP,
    VALIDATION,
    Aggregation,
    App,
    Common,
    CutSettings,
    Flags,
    setting,
)
from tffapps.federated.fedprox import FedProx
from tffapps.federated.methods import EMBEDDING_METHODS
from tffapps.settings import CHANGED

METHODS = ("local", "fedavg", "fedprox", "fedproto", "fpl", "fedstyle")
UNTRAINED = ("neighbours", "prototypes")
RIVALS = ("fedavg_public", "fedavg_ccvr", *UNTRAINED)  # on request
STUDIES = ("scalability", "ablation", "heterogeneity", "cloaking")
WEIGHTS, FROM_PUBLIC = "weights", "public"  # --start-from
COMPARISON = "comparison"  # how the runs beside all studies are called
METRICS = ("accuracy", "macro_f1")


@dataclasses.dataclass(frozen=True)
class FedStyleSettings:
    """Of every run. How many artists take part is one of its labels; the last rounds are chosen for the tables."""

    model: str = setting("resnet18", f"classifier: {MODEL_HELP} (paper)", **MODEL)
    size: int = setting(224, "pictures are resized to this many pixels on a side", least=16)
    head: str = setting(
        "auto",
        "gap (global average pooling), flatten256 or conv; auto: conv on a cut, else gap",
        choices=("auto", *HEADS),
    )
    rounds: int = setting(100, "rounds (paper)", least=1)
    batch: int = setting(32, "pictures a batch (paper)", least=1)
    last_rounds: int = setting(10, "scores are means over this many last rounds (paper)", least=1, in_key=False)
    patience: int = setting(
        0,
        "a run ends after so many rounds without a lower validation loss; 0: never (with --select validation)",
        least=0,
        in_key=CHANGED,
    )
    tune_once: bool = setting(False, "what --tune chooses on the first split is taken on all others too", in_key=False)
    artists: int = setting(18, "the first so many artists take part (paper); 0: all", least=0, in_key=False)


@dataclasses.dataclass(frozen=True)
class FedStyleClientSettings:
    """Where artists train."""

    epochs: int = setting(5, "local epochs a round (paper)", least=1)


@dataclasses.dataclass(frozen=True)
class FedStylePublicSettings:
    """Where the public pictures are trained on."""

    public_epochs: int = setting(5, "the server's epochs a round on the public pictures, local's too", least=1)


@dataclasses.dataclass(frozen=True)
class FedStyleStartSettings:
    """Where the runs of the comparison begin: a label of theirs, and in their key with the weights themselves."""

    start_from: tuple[str, ...] = setting(
        (WEIGHTS,),
        "weights: as --weights says; public: what local has learnt from the public pictures, for every method",
        metavar="weights,public",
        in_key=False,
    )


@dataclasses.dataclass(frozen=True)
class FedStyleStudySettings:
    """What is looked at beside the comparison: labels of runs, and how pictures are dealt out in them."""

    studies: tuple[str, ...] = setting(STUDIES, f"which of {', '.join(STUDIES)}; none", metavar="A,B", in_key=False)
    loss_weights: str = setting(
        "flags",
        "the paper's weights of all five losses for one of its sets, or those of the flags --style-…",
        choices=("flags", "artiststyle", "conllustration"),
        in_key=False,
    )
    study_seeds: int = setting(0, "so many of the seeds in studies; 0: all", least=0, in_key=False)
    scalability: tuple[int, ...] = setting(
        (20, 22, 24, 26), "numbers of artists (paper)", metavar="20,22", least=2, in_key=False
    )
    alphas: tuple[float, ...] = setting(
        (1.0, 0.1), "of the Dirichlet distributions", metavar="1,0.1", above=0, in_key=False
    )
    cloaked: tuple[float, ...] = setting(
        (0.0, 0.25, 0.5, 0.75, 1.0),
        "shares of training pictures that are cloaked",
        metavar="0,0.5",
        least=0,
        most=1,
        in_key=False,
    )


@dataclasses.dataclass(frozen=True)
class FedStyleCloakSettings:
    """Of runs on cloaked pictures. These have a fingerprint, which the weights of the cloak's network change too."""

    cloak_artists: int = setting(5, "artists whose pictures are cloaked (paper)", least=2)
    cloak_pictures: int = setting(40, "pictures of each of them (paper)", least=2)
    cloak_epsilon: int = setting(8, "grey levels that a cloak may move a pixel", least=0, most=255)
    cloak_steps: int = setting(20, "steps of making a cloak", least=1)
    vgg_weights: str = setting("random", "of the cloak's VGG-19", metavar="imagenet|random|FILE", in_key=False)
    vgg_width: int = setting(64, "filters of its first block; 64 is VGG-19", least=4)


@dataclasses.dataclass(frozen=True)
class FedStyleStandinSettings:
    """Of the pictures that are painted where none are given: their fingerprint is in a run's key."""

    standin_artists: int = setting(26, "stand-in: artists", least=2, in_key=False)
    standin_pictures: int = setting(60, "stand-in: pictures of each", least=5, in_key=False)
    standin_size: int = setting(128, "stand-in: pixels on a side", least=32, in_key=False)
    standin_close: int = setting(2, "stand-in: pairs of artists with the same palette", least=0, in_key=False)


_SMALL: dict[str, Any] = {
    "model": "tiny",
    "size": 32,
    "rounds": 8,
    "epochs": 2,
    "public_epochs": 4,
    "batch": 16,
    "last_rounds": 3,
    "learning_rate": 0.05,
    "momentum": 0.5,
    "style_ce": 1.0,
    "style_mse": 2.0,
    "style_server_ce": 1.0,
    "embedding_statistics": "batch",
    "artists": 8,
    "study_seeds": 1,
    "scalability": (10,),
    "alphas": (0.3,),
    "cloaked": (0.0, 0.5, 1.0),
    "vgg_width": 8,
    "standin_artists": 10,
    "standin_pictures": 50,
    "standin_size": 64,
    "standin_close": 1,
}
PROFILES: dict[str, dict[str, Any]] = {
    "smoke": {
        "model": "tiny",
        "size": 32,
        "rounds": 2,
        "epochs": 1,
        "public_epochs": 1,
        "batch": 8,
        "last_rounds": 2,
        "learning_rate": 0.05,
        "momentum": 0.5,
        "style_ce": 1.0,
        "style_mse": 2.0,
        "style_server_ce": 1.0,
        "embedding_statistics": "batch",
        "seeds": (0,),
        "artists": 2,
        "scalability": (3,),
        "alphas": (1.0,),
        "cloaked": (0.0, 1.0),
        "cloak_artists": 2,
        "cloak_pictures": 6,
        "cloak_steps": 2,
        "vgg_width": 4,
        "standin_artists": 3,
        "standin_pictures": 12,
        "standin_size": 32,
        "standin_close": 0,
    },
    "small": _SMALL,
    # A client has one class, whose statistics say nothing: no BatchNorm. SGD with momentum is the paper's optimiser.
    "demo": {**_SMALL, **DEMO_NETWORK, "norm": "group", "optimizer": "sgd", "learning_rate": 0.05, "rounds": 6},
    # From scratch, as nothing else is said of it; with other statistics the styles of a fresh ResNet-18 run away.
    "paper": {"size": 224, "head": "gap", "train_from": "all", "momentum": 0.5, "embedding_statistics": "batch"},
}


def _networks(flags: Flags) -> dict[str, tuple[str, ...]]:
    networks: dict[str, tuple[str, ...]] = {"weights": (flags[FedStyleSettings].model,)}
    if "cloaking" in flags[FedStyleStudySettings].studies and not flags[Common].across_sites:
        networks["vgg_weights"] = ("vgg19",)
    return networks


APP = App(
    name="fedstyle",
    package=__name__,
    summary="which artist made this picture; every client is one artist",
    description="Which artist made this picture: FedStyle and its rivals, every client one artist. "
    "With a trained model: python -m tffapps.fedstyle query PICTURE…",
    settings=(
        FedStyleSettings,
        CutSettings,
        FedStyleClientSettings,
        FedStylePublicSettings,
        FedStyleStartSettings,
        FedStyleStudySettings,
        FedStyleCloakSettings,
        FedStyleStandinSettings,
        Aggregation,
        FedProx,
        *EMBEDDING_METHODS.values(),
    ),
    profiles=PROFILES,
    methods=(*METHODS, *RIVALS),
    on_request=RIVALS,
    selects=(LAST, VALIDATION),
    tunes=True,
    narrowed=(("study", "studies"), ("start", "start_from")),
    commands=("query", "enrol", "withdraw", "retrieval", "holdout", "serve"),
    not_across_sites={
        **dict.fromkeys(UNTRAINED, "what the frozen part makes of pictures stays at their sites"),
        "fedavg_ccvr": "the number of its rounds is that of a fedavg which validation has chosen",
    },
    server_has_data=True,
    networks=_networks,
    divides=True,
    mixes=True,
)
