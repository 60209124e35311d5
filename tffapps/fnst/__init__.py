"""FNST, `python -m tffapps.fnst`: colon patches, each site has all of one class and next to nothing of the others.

Style images of the sites that have many, known by their Gram matrices alone, are given to the few images of the sites
that have few: neural style transfer across sites, once, before the federation begins. With --engine HOST:PORT,… the
clients are sites, and each does its part where its images are.
  separate      each site trains alone (the paper's SL)
  centralised   all images in one place (CL)
  fedavg        a federation of the sites as they are (FL)
  fnst          a federation of the sites with the images they made (FL + FNST)
  repeated      ours, for comparison: the rare images themselves, as many times as fnst makes images of them
On request: more controls, losses and sampling, ways of giving a style, and all of these joined by + (`parts`).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from models.names import HEADS
from preprocessing.style_settings import CONTENTS, INITS, OPTIMIZERS, PRECISIONS, STYLE_PARTS, TRANSFERS
from tffapps import (
    DEMO_NETWORK,
    LAST,
    MODEL,
    MODEL_HELP,
    OF_PAPER,
    VALIDATION,
    Aggregation,
    App,
    ClassBalance,
    Common,
    CutSettings,
    FedAvg,
    Flags,
    Retraining,
    UserError,
    setting,
)
from tffapps.fnst.parts import BALANCES, CHOSEN_ON_VALIDATION, PARTS, styles_needed
from tffapps.privacy.stages import Stage
from tffapps.settings import CHANGED

AUGMENTED = ("fnst", "repeated")
PLAYED = ("separate", "centralised", "fedavg", *AUGMENTED)  # unless --methods names others
METHODS = (*PLAYED, *(name for name in PARTS if name not in PLAYED), *CHOSEN_ON_VALIDATION)
METRICS = ("accuracy", "macro_f1", "auroc")
VGG_WIDTH = 64  # filters of VGG-19's first block


@dataclasses.dataclass(frozen=True)
class FnstSettings:
    """The classifier, of every method."""

    model: str = setting("resnet18", f"classifier: {MODEL_HELP} (paper)", **MODEL)
    size: int = setting(224, "images are resized to this many pixels on a side", least=16)
    head: str = setting(
        "auto",
        "gap (global average pooling), flatten256 or conv; auto: conv on a cut, else gap",
        choices=("auto", *HEADS),
    )
    batch: int = setting(32, "images a batch", least=1)


@dataclasses.dataclass(frozen=True)
class FederationSettings:
    """The schedule of fedavg, fnst and repeated."""

    rounds: int = setting(50, "rounds of a federation (paper)", least=1)
    epochs: int = setting(10, "local epochs a round (paper)", least=1)


@dataclasses.dataclass(frozen=True)
class AloneSettings:
    """The schedule of separate and centralised."""

    alone_epochs: int = setting(100, "epochs of separate and of centralised (paper)", least=1)
    alone_every: int = setting(2, "separate and centralised are tested after this many epochs (paper)", least=1)

    @property
    def epochs(self) -> int:
        """Of a round, after which a model is tested."""
        return min(self.alone_every, self.alone_epochs)

    @property
    def rounds(self) -> int:
        """As many as the epochs need."""
        return -(-self.alone_epochs // self.epochs)


@dataclasses.dataclass(frozen=True)
class SharingSettings:
    """Who has which images. None is in a run's key: rare and augmentation are labels, images have a fingerprint."""

    rare: tuple[int, ...] = setting(
        (5, 10, 20), "images of every other class at a client", metavar="5,10,20", least=1, in_key=False
    )
    augmentations: tuple[str, ...] = setting(
        ("S5C5", "S5C10", "S5C20", "S10C10", "S20C10"),
        "styles of a class, and contents: its rare images at a client (paper)",
        metavar="S5C5,S5C10",
        in_key=False,
    )
    standin_train: int = setting(200, "stand-in: training images of each class", least=4, in_key=False)
    standin_test: int = setting(80, "stand-in: test images of each class", least=4, in_key=False)
    standin_size: int = setting(256, "stand-in: pixels on a side", least=32, in_key=False)


@dataclasses.dataclass(frozen=True)
class GramSettings:
    """What styles are measured of, and with which VGG."""

    style_images: str = setting("diverse", "which images a client's styles are of", choices=("diverse", "random"))
    vgg_weights: str = setting(  # their hash is in the key of what depends on them
        "random", "of VGG-19: imagenet, random or a file", metavar="imagenet|random|FILE", in_key=False
    )
    vgg_width: int = setting(VGG_WIDTH, "filters of its first block; 64 is VGG-19", least=4)
    style_size: int = setting(224, "pixels on a side of the images made", least=16)
    transfer: str = setting(
        "optimise",
        "how images get a style: optimise (paper); adain, whiten: in one pass, and means are sent beside Gram matrices",
        choices=TRANSFERS, in_key=CHANGED,
    )  # fmt: skip
    gram_average: int = setting(
        1, "a style is the mean of so many images' Gram matrices", least=1, most=100, in_key=CHANGED
    )
    gram_noise: float = setting(
        0.0, "noise on Gram matrices before they are sent, in shares of their own size", least=0, in_key=CHANGED
    )


@dataclasses.dataclass(frozen=True)
class TransferSettings:
    """How an image is given a style."""

    init: str = setting("noise", "what style transfer begins with (paper: noise)", choices=INITS)
    style_optimizer: str = setting("adam", "what it minimises with", choices=OPTIMIZERS)
    style_steps: int = setting(500, "steps of it", least=1)
    style_precision: str = setting(
        "float32", "that VGG-19 computes in there; bfloat16: for processors made for it", choices=PRECISIONS,
        in_key=CHANGED,
    )  # fmt: skip
    style_learning_rate: float = setting(0.0, "of Adam; 0: 0.02 from noise, 0.005 from the content", least=0)
    style_weight: float = setting(0.0, "β; 0: 0.01 (paper), with random VGG weights 10", least=0)
    content_weight: float = setting(0.0, "α; 0: 1000 (paper), with random VGG weights 1", least=0)
    content_loss: str = setting(
        "mean", "what α weighs: mean, or sum (Eq. 2 as printed)", choices=CONTENTS, in_key=CHANGED
    )
    style_strength: float = setting(
        1.0, "of adain and whiten: 0 is the image as their decoder sees it", least=0, most=1, in_key=CHANGED
    )
    style_part: str = setting(
        "whole", "of a style: whole, stain (its colours on the content), texture (all but colours)",
        choices=STYLE_PARTS, in_key=CHANGED,
    )  # fmt: skip
    adain_weights: str = setting(  # their hash is in the key of the images made
        "",
        "folder of adain_encoder_relu4_1 and adain_decoder; Keras's cache unless given",
        metavar="FOLDER",
        in_key=False,
    )


@dataclasses.dataclass(frozen=True)
class AttackSettings:
    """The attack on what is sent. It trains nothing, so no run depends on it."""

    attack: bool = setting(False, "measure how well images are recovered from their Gram matrices", in_key=False)
    attack_images: int = setting(50, "images that are attacked", least=2, in_key=False)
    attack_sizes: tuple[int, ...] = setting(
        (), "sizes at which Gram matrices are compared with suspects', from defence to defence; none: not done",
        metavar="32,64", least=16, in_key=False,
    )  # fmt: skip
    attack_suspects: int = setting(100, "suspected images there, of one class", least=6, in_key=False)
    attack_steps: int = setting(1000, "steps of the attack on each", least=1, in_key=False)


@dataclasses.dataclass(frozen=True)
class RealismSettings:
    """What is measured on the images made. It trains nothing, so no run depends on it."""

    realism: bool = setting(False, "measure whether styled images look like real ones of their class", in_key=False)
    inception: str = setting(
        "random", "of Inception there: imagenet, random or a file", metavar="imagenet|random|FILE", in_key=False
    )
    inception_size: int = setting(299, "pixels on a side that Inception sees", least=75, in_key=False)


_SMALL: dict[str, Any] = {
    "model": "tiny",
    "size": 48,
    "rounds": 8,
    "epochs": 3,
    "alone_epochs": 24,
    "alone_every": 3,
    "batch": 16,
    "learning_rate": 0.1,
    "rare": (5, 10),
    "augmentations": ("S5C5", "S5C10"),
    "vgg_width": 8,
    "style_size": 48,
    "init": "content",
    "style_steps": 40,
    "attack": True,
    "attack_images": 24,
    "attack_steps": 300,
    "standin_train": 100,
    "standin_test": 60,
    "standin_size": 64,
}
PROFILES: dict[str, dict[str, Any]] = {
    "smoke": {
        "model": "tiny",
        "size": 32,
        "rounds": 2,
        "epochs": 1,
        "alone_epochs": 2,
        "alone_every": 1,
        "batch": 16,
        "learning_rate": 0.1,
        "seeds": (0,),
        "rare": (2,),
        "augmentations": ("S2C2",),
        "vgg_width": 4,
        "style_size": 32,
        "init": "content",
        "style_steps": 5,
        "attack": True,
        "attack_images": 4,
        "attack_steps": 10,
        "standin_train": 16,
        "standin_test": 6,
        "standin_size": 32,
    },
    "small": _SMALL,
    # A pretrained network needs fewer epochs.
    "demo": {**_SMALL, **DEMO_NETWORK, "rounds": 5, "epochs": 2, "alone_epochs": 10, "alone_every": 2},
    # ResNet-18 from scratch, as nothing else is said of it. VGG-19's weights bring α = 1000 and β = 0.01 with them.
    "paper": {"size": 224, "head": "gap", "train_from": "all", "vgg_weights": "imagenet", "attack": True},
}


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """S styles of every class, C contents: S · C images of each rare class at a client."""

    styles: int
    contents: int

    @property
    def name(self) -> str:
        return f"S{self.styles}C{self.contents}"

    @classmethod
    def parse(cls, text: str) -> Augmentation:
        """One value of --augmentations, such as S5C20 or S5-C20."""
        match = re.fullmatch(r"S([1-9]\d{0,3})-?C([1-9]\d{0,3})", text.strip(), re.IGNORECASE)
        if match is None:
            raise UserError(f"--augmentations {text}: write styles and contents as S5C20")
        return cls(int(match[1]), int(match[2]))


def _networks(flags: Flags) -> dict[str, tuple[str, ...]]:
    networks: dict[str, tuple[str, ...]] = {"weights": (flags[FnstSettings].model,)}
    of_width = flags[GramSettings].vgg_width == VGG_WIDTH  # another width has no published weights, and says so
    if of_width and (flags[AttackSettings].attack or styles_needed(flags[Common].methods)):
        networks["vgg_weights"] = ("vgg19",)
    return networks


APP = App(
    name="fnst",
    package=__name__,
    summary="styles of other sites for rare classes: colon patches",
    description="Federated neural style transfer: rare classes are augmented with other sites' styles.",
    settings=(
        FnstSettings, CutSettings, FederationSettings, AloneSettings, SharingSettings, GramSettings, TransferSettings,
        AttackSettings, RealismSettings, ClassBalance, Retraining, Aggregation, FedAvg,
    ),
    profiles=PROFILES,
    methods=METHODS,
    narrowed=(("rare", "rare"), ("augmentation", "augmentations")),
    on_request=METHODS[len(PLAYED) :],
    composes=True,
    not_across_sites={
        "centralised": "no site has all the images",
        **dict.fromkeys(("turned", "jitter", "hed"), "its images are made where the command runs"),
        "other-class": "sites give the styles of a class to that class",
        **dict.fromkeys(CHOSEN_ON_VALIDATION, "sites have no validation images"),
    },
    networks=_networks,
    divides=True,
    mixes=True,
    selects=(LAST, VALIDATION, OF_PAPER),
    stages=(
        Stage(
            "the Gram matrices that clients of fnst send each other", "--methods fnst",
            lambda flags: bool(styles_needed(flags[Common].methods)),
        ),
        Stage(
            "what losses and sampling by class go by", f"--methods {', '.join(BALANCES)}",
            lambda flags: any(part in BALANCES for name in flags[Common].methods for part in name.split("+")),
        ),
    ),
)  # fmt: skip
