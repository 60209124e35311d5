"""Any labelled folder of images under the plain federated methods: `python -m tffapps.classify`.

The shortest system: what the five others are measured against, on your own data, and the pattern they follow.
Beside the federated methods, `separate` trains each client alone and `centralised` trains on everything in one place.
"""

import dataclasses
from typing import Any

from models.names import HEADS, PRETRAINED_SIZE, RANDOM_SIZE
from tffapps import (
    DEMO_NETWORK,
    FEW_LABELS,
    LAST,
    METHODS,
    MODEL,
    MODEL_HELP,
    PLAYED,
    VALIDATION,
    Aggregation,
    App,
    ClassBalance,
    CutSettings,
    Flags,
    Retraining,
    setting,
)
from tffapps.settings import CHANGED

REFERENCES = ("separate", "centralised")
METRICS = ("accuracy", "f1", "macro_f1", "auroc", "auprc")


@dataclasses.dataclass(frozen=True)
class ClassifySettings:
    model: str = setting("mobilenetv2", f"network: {MODEL_HELP}", **MODEL)
    size: int = setting(
        0, f"pixels on a side; 0: {PRETRAINED_SIZE} if weights are pretrained, else {RANDOM_SIZE}", least=0
    )
    head: str = setting("auto", "auto: conv on a cut, else gap (docs/weights.md)", choices=("auto", *HEADS))
    augment: str = setting("none", "random changes of training images", choices=("none", "weak", "affine"))
    stored_views: int = setting(
        4, "--augment above a cut: so many stored views; 0: drawn anew, and the whole network runs", least=0
    )
    channels: int = setting(3, "1 for grey, 3 for colour", choices=(1, 3))
    rounds: int = setting(10, "rounds of the federation", least=1)
    epochs: int = setting(1, "local epochs a round", least=1)
    batch: int = setting(32, "images a batch", least=1)
    standin_images: int = setting(40, "stand-in: images of each class at each client", least=3, in_key=False)


@dataclasses.dataclass(frozen=True)
class LabelSettings:
    """Which labels are known. A trial lists it where not all are."""

    labelled_share: float = setting(
        1.0, "of the training images: labelled, drawn by subject; 1: all", above=0, most=1, in_key=CHANGED
    )
    labels: str = setting("clients", "--labelled-share: who has them", choices=("clients", "server"), in_key=CHANGED)
    unlabelled_ratio: int = setting(
        2, "--labelled-share: unlabelled images a step for each labelled one (thesis of PLFL)", least=1, in_key=CHANGED
    )

    @property
    def used(self) -> bool:
        return self.labelled_share < 1

    @property
    def where_used(self) -> list["LabelSettings"]:
        """For a trial's settings: none where all is as it is without them, so that its key is, too."""
        return [self] if self.used else []

    def described(self) -> dict[str, Any]:
        """Columns of tables, where not all are labelled."""
        return {"labelled_share": self.labelled_share, "labels": self.labels} if self.used else {}


_SMALL: dict[str, Any] = {
    "model": "tiny",
    "size": 32,
    "rounds": 15,
    "batch": 16,
    "learning_rate": 0.1,
    "standin_images": 60,
}
PROFILES: dict[str, dict[str, Any]] = {
    "smoke": {
        "model": "tiny",
        "size": 32,
        "rounds": 2,
        "seeds": (0,),
        "standin_images": 10,
        "learning_rate": 0.1,
    },
    "small": _SMALL,
    # On any images, so as large as the network was trained with, and cut where that is best.
    "demo": {
        **DEMO_NETWORK,
        "size": 0,
        "head": "auto",
        "train_from": "auto",
        "rounds": 10,
        "epochs": 2,
        "standin_images": 60,
    },
    "paper": {"model": "mobilenetv2", "size": 224, "rounds": 100},
}


def _networks(flags: Flags) -> dict[str, tuple[str, ...]]:
    return {"weights": (flags[ClassifySettings].model,)}


APP = App(
    name="classify",
    package=__name__,
    summary="federated classification of any images",
    description="Federated classification of any labelled folder of images.",
    settings=(
        ClassifySettings, LabelSettings, CutSettings, ClassBalance, Retraining, Aggregation, *METHODS.values(),
        *FEW_LABELS.values(),
    ),
    profiles=PROFILES,
    methods=(*METHODS, *FEW_LABELS, *REFERENCES),
    on_request=(*(name for name in METHODS if name not in PLAYED), *FEW_LABELS),
    not_across_sites={"centralised": "no site has all the images"},
    networks=_networks,
    divides=True,
    selects=(LAST, VALIDATION),
    tunes=True,
)  # fmt: skip
