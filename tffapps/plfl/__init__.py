"""PLFL, CSFL and FSSFL, `python -m tffapps.plfl`: knee X-rays, few labels.

After a thesis on grading knee osteoarthritis (healthy, moderate, severe) with a server and two clients:
  csfl    clients have labels: supervised FedAvg
  plfl    only the server has labels ("gold"): it trains first, then clients label their own images with its model
  plfl+   ours: pseudo-labelling anchored to the gold images
  fssfl   clients know a fifth of their labels: FixMatch
When they are named also, on the same divisions of the images:
  fixmatch, flexmatch, freematch    fssfl with what keeps FixMatch from believing its first mistakes
  semifl, fl2                       plfl's labels: the server and the clients train in turn
  gold+, fssfl-labelled             controls: plfl+ and fixmatch without what they learn from unlabelled images
  labels, central                   ceilings: plfl+ with all true labels, in the federation and in one place
`gold`, the server's own training that plfl, plfl+, semifl and fl2 begin with, is run whenever one of them is.

Images are divided among the three anew for each seed, but where a manifest says whose they are (clients `server` and
others), and where the clients are sites: then --data is the server's images, and each site has prepared its own with
`python -m preprocessing.knee`.
"""

import dataclasses
from typing import Any

from models.names import HEADS
from tffapps import DEMO_NETWORK, MODEL, MODEL_HELP, Aggregation, App, CutSettings, Flags, setting
from tffapps.data import grades
from tffapps.federated.fixmatch import FixMatch
from tffapps.federated.method import SCHEDULES
from tffapps.federated.methods import FEW_LABELS
from tffapps.federated.pseudo_label_plus import PseudoLabelPlus
from tffapps.privacy.stages import SECURE, of_flag
from tffapps.settings import CHANGED

METHODS = ("gold", "csfl", "plfl", "plfl+", "fssfl")
FIXMATCHES, ALTERNATE = ("fixmatch", "flexmatch", "freematch"), ("semifl", "fl2")
CONTINUED, SUPERVISED_PART, CEILINGS = "gold+", "fssfl-labelled", ("labels", "central")
ON_REQUEST = (*FIXMATCHES, *ALTERNATE, CONTINUED, SUPERVISED_PART, *CEILINGS)
AFTER_GOLD = ("plfl", "plfl+", *ALTERNATE, CONTINUED, *CEILINGS)  # those that begin with gold's model
SPLITS = {  # how images are divided
    "gold": "plfl", "csfl": "csfl", "plfl": "plfl", "plfl+": "plfl", "fssfl": "fssfl",
    **dict.fromkeys((*FIXMATCHES, SUPERVISED_PART), "fssfl"),
    **dict.fromkeys((*ALTERNATE, CONTINUED, *CEILINGS), "plfl"),
}  # fmt: skip
METRICS = ("accuracy", "precision", "recall", "f1", "macro_f1", "auroc")
MAIN_METRICS = ("accuracy", "macro_f1")  # what figures show


@dataclasses.dataclass(frozen=True)
class PlflImages:
    """What the networks are shown."""

    preprocess: str = setting(
        "knee", "knee: mask and contrast (sites do so themselves); none", choices=("knee", "none")
    )
    contrast: str = setting("clahe", "last step of knee; equalize: the thesis's table", choices=("clahe", "equalize"))
    grades: tuple[str, ...] = setting(
        grades.USED, "of a folder of grades, those that are read; the thesis's are 0,3,4", choices=tuple(grades.NAMES),
        metavar="0,1,2,3,4", in_key=False,
    )  # fmt: skip
    # Both by the fingerprint of the images.
    standin_images: int = setting(900, "stand-in: images of the three grades", least=80, in_key=False)


@dataclasses.dataclass(frozen=True)
class Shares:
    """Who has how many images, where they are divided."""

    gold_share: float = setting(
        0.0, "the server's labelled share of the images, where it alone has labels; 0: a third (thesis)", least=0,
        below=1, in_key=CHANGED,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PlflNetwork:
    """The networks, and what all their trainings have in common."""

    # By a label.
    models: tuple[str, ...] = setting(
        ("mobilenetv2",), f"networks: {MODEL_HELP}", in_key=False, **{**MODEL, "metavar": "A,B"}
    )
    size: int = setting(224, "images are resized to this many pixels on a side (thesis)", least=32)
    channels: int = setting(1, "1: X-rays are grey; pretrained networks see it three times", choices=(1, 3))
    head: str = setting(
        "auto", "gap, flatten256 (thesis), conv or conv64; auto: conv on a cut, else gap", choices=("auto", *HEADS)
    )
    augment: str = setting(
        "affine", "of gold, csfl, plfl, plfl+; varied (ours): affine, weak or flipped",
        choices=("affine", "weak", "varied", "none"),
    )  # fmt: skip
    shear: str = setting(
        "radians", "unit of the affine views' shear of 0.2; degrees: as Keras read the thesis's table",
        choices=("radians", "degrees"), in_key=CHANGED,
    )  # fmt: skip
    stored_views: int = setting(
        0,
        "--augment but none above a cut: so many stored views; 0: drawn anew, and the whole network runs",
        least=0,
    )
    batch: int = setting(32, "images a batch (thesis)", least=1)
    schedule: str = setting("cosine", "the learning rate along a local training", choices=SCHEDULES)
    logit_adjust: float = setting(
        0.0, "every loss: logits + this · log of the class's share (Menon et al. 2021: 1), where a rare class counts",
        least=0, in_key=CHANGED,
    )  # fmt: skip
    average_weights: float = setting(
        0.0, "every training ends with an average of its weights that keeps this at a step (ours); 0: with the last",
        least=0, below=1, in_key=CHANGED,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class GoldSettings:
    gold_epochs: int = setting(20, "epochs of the server's first training (thesis)", least=1)
    gold_batches: int = setting(
        0, "an epoch of the server's training has so many batches at least: few images come several times", least=0,
        in_key=CHANGED,
    )  # fmt: skip
    gold_class_weights: float = setting(
        0.0, "gold: power of 1 / class share in the loss (ours)", least=0, in_key=CHANGED
    )


@dataclasses.dataclass(frozen=True)
class LocalSettings:
    epochs: int = setting(10, "local epochs a round of csfl, plfl, fssfl (thesis)", least=1)


@dataclasses.dataclass(frozen=True)
class CsflSettings:
    csfl_rounds: int = setting(3, "rounds of csfl (thesis)", least=1)


@dataclasses.dataclass(frozen=True)
class PlflSettings:
    plfl_rounds: int = setting(2, "rounds of plfl (thesis)", least=1)
    server_in_average: bool = setting(False, "plfl: the server's own model takes part in the average")


@dataclasses.dataclass(frozen=True)
class PlusSettings:
    plus_rounds: int = setting(6, "rounds of plfl+", least=1)
    plus_views: int = setting(4, "plfl+ with --augment none: stored affine views it trains on; 0: plain", least=0)
    plus_view: str = setting(
        "auto", "what plfl+, gold+, labels and central train on; auto: as the others do, or --plus-views",
        choices=("auto", "weak", "strong", "affine"), in_key=CHANGED,
    )  # fmt: skip
    label_views: int = setting(4, "plfl+: augmented views whose predictions are averaged for a label", least=0)
    plus_epochs: int = setting(2, "local epochs a round of plfl+", least=1)


@dataclasses.dataclass(frozen=True)
class TargetSettings:
    target_accuracy: float = setting(0.0, "stop at this accuracy on validation images; 0: never", least=0, most=1)


@dataclasses.dataclass(frozen=True)
class FssflSettings:
    fssfl_rounds: int = setting(2, "rounds of fssfl (thesis)", least=1)
    views: int = setting(2, "fssfl with --augment none: stored weak and strong views of each image", least=1)
    labelled_batch: int = setting(2, "fssfl: labelled images a batch (thesis)", least=1)
    mu: int = setting(2, "fssfl: unlabelled images for each labelled one (thesis)", least=1)


@dataclasses.dataclass(frozen=True)
class AlternateSettings:
    alternate_rounds: int = setting(6, "rounds of semifl, fl2 (as plfl+)", least=1, in_key=CHANGED)
    alternate_epochs: int = setting(
        2, "semifl, fl2: epochs a round, of clients and then of the server (as plfl+)", least=1, in_key=CHANGED
    )


@dataclasses.dataclass(frozen=True)
class PoisonSettings:
    """Which runs the poisoning study has: the share is a label of each."""

    poison: tuple[float, ...] = setting(
        (), "poisoning study: shares of client1's data that are spoilt", metavar="0.5,1", above=0, most=1, in_key=False
    )
    poison_seeds: int = setting(0, "poisoning study: how many of the seeds it uses; 0: all", least=0, in_key=False)


# Without pretrained weights the smaller profiles train a small network from scratch: larger steps, smaller batches.
_FROM_SCRATCH: dict[str, Any] = {
    "models": ("tiny",),
    "size": 64,
    "head": "gap",
    "augment": "none",
    "batch": 16,
    "pseudo_batch": 16,
    "optimizer": "adam",
    "learning_rate": 3e-3,
    "schedule": "constant",
}
_SMALL: dict[str, Any] = {
    **_FROM_SCRATCH,
    "epochs": 5,
    "gold_epochs": 30,
    "plus_rounds": 5,
    "labelled_batch": 8,
    "poison": (1.0,),
    "poison_seeds": 1,
    "standin_images": 720,
}
_DEMO_NETWORK = {name: value for name, value in DEMO_NETWORK.items() if name != "model"}  # it has --models
PROFILES: dict[str, dict[str, Any]] = {
    "smoke": {
        **_FROM_SCRATCH,
        "epochs": 1,
        "gold_epochs": 2,
        "plus_rounds": 2,
        "poison": (1.0,),
        "seeds": (0,),
        "standin_images": 120,
    },
    "small": _SMALL,
    "demo": {**_SMALL, **_DEMO_NETWORK, "models": ("mobilenetv2",), "batch": 32, "pseudo_batch": 32},
    "paper": {
        "models": ("mobilenetv2", "densenet169", "densenet201"),
        "weights": "imagenet",
        "size": 224,
        "head": "flatten256",
        "train_from": "head",
        "contrast": "equalize",
        "shear": "degrees",
        "optimizer": "adam",
        "learning_rate": 1e-4,
        "poison": (1.0,),
    },
}


def _networks(flags: Flags) -> dict[str, tuple[str, ...]]:
    return {"weights": flags[PlflNetwork].models}


APP = App(
    name="plfl",
    package=__name__,
    summary="knee X-rays, few labels: PLFL, CSFL, FSSFL",
    description="Federated grading of knee X-rays with few labels: CSFL, PLFL, PLFL+ and FSSFL.",
    settings=(
        PlflImages, Shares, PlflNetwork, CutSettings, GoldSettings, LocalSettings, CsflSettings, PlflSettings,
        PlusSettings, TargetSettings, FssflSettings, AlternateSettings, PoisonSettings, Aggregation, PseudoLabelPlus,
        FixMatch,
        *(FEW_LABELS[name] for name in (*FIXMATCHES, *ALTERNATE)),
    ),
    profiles=PROFILES,
    methods=(*METHODS, *ON_REQUEST),
    on_request=ON_REQUEST,
    commands=("preparations", "spoilt", "shares", "search", "elsewhere"),
    narrowed=(("model", "models"), ("poison", "poison")),
    not_across_sites={"central": "it has everybody's images in one place"},
    server_has_data=True,
    networks=_networks,
    stages=(
        *(of_flag("methods", name, f"the counts of pseudo-labels that clients of {name} report", (SECURE,))
          for name in ("plfl", "plfl+", *ALTERNATE)),
        *(of_flag("methods", name, f"the counts of confident images that clients of {name} report", (SECURE,))
          for name in ("fssfl", *FIXMATCHES)),
    ),
    divides=True,
    mixes=True,
)  # fmt: skip
