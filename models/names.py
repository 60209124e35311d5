"""What a network may be called. Free of TensorFlow, so that a wrong name is refused at once."""

from __future__ import annotations

import re

APPLICATIONS = ("mobilenetv2", "densenet121", "densenet169", "densenet201")  # built by keras.applications
NAMES = (*APPLICATIONS, "resnet18", "tiny")
# Heads that are small networks: how many filters their convolutions have, and the stride of the second.
CONVOLUTIONAL = {"conv": (128, 1), "conv64": (64, 2)}
HEADS = ("gap", "flatten256", *CONVOLUTIONAL)
NORMS = ("batch", "group", "frozen")  # what becomes of BatchNorm above a cut
FLOAT32 = "float32"
PRECISIONS = (FLOAT32, "bfloat16", "float16")  # what layers compute in; weights are float32 always
HEAD, ALL = "head", "all"  # cuts that every network has: below its head, and none
# network → where else it may be cut: the name of the cut, and the layer whose output crosses it
CUTS: dict[str, dict[str, str]] = {
    "mobilenetv2": {
        **{f"block_{block}_add": f"block_{block}_add" for block in (2, 5, 9, 12)},
        "block_13": "block_13_project_BN",
        "block_15_add": "block_15_add",
    },
    **{name: {f"pool{stage}_pool": f"pool{stage}_pool" for stage in (2, 3, 4)} for name in APPLICATIONS[1:]},
    "resnet18": {f"layer{stage}": f"stage{stage}_block2_relu" for stage in (1, 2, 3)},
    "tiny": {f"block{block}_pool": f"block{block}_pool" for block in (1, 2)},
}
# Where a pretrained network is cut unless something else is asked for.
PRETRAINED_CUT = {
    "mobilenetv2": "block_15_add",
    **{name: "pool4_pool" for name in APPLICATIONS[1:]},
    "resnet18": "layer3",
    "tiny": HEAD,
}
AUTO = "auto"
PRETRAINED_SIZE, RANDOM_SIZE = 224, 64  # pixels on a side, unless something else is asked for
OWN = "own_"  # how Keras models of the user's are called
_OWN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
GENERATORS = ("unet", "hd")  # of images from labels: pix2pix and pix2pixHD


def is_own(name: str) -> bool:
    """Whether a name is `package.module:function`: a network of the user's own (`models.own`)."""
    return _OWN_NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    if name not in NAMES:
        raise ValueError(f"model {name}: unknown; choose one of {', '.join(NAMES)}")


def cuts_of(name: str) -> tuple[str, ...]:
    """Where a network may be cut, from the last place to the first."""
    return (HEAD, *reversed(CUTS[name]), ALL)


def check_cut(name: str, stage: str) -> None:
    check_name(name)
    if stage not in cuts_of(name):
        raise ValueError(f"cut {stage}: {name} has none of that name; choose one of {', '.join(cuts_of(name))}")


def stands_on_cut(head: str, cut: str) -> bool:
    """Whether a head stands right on the cut, and not on the end of the network."""
    return head in CONVOLUTIONAL and cut not in (HEAD, ALL)


def check_norm(norm: str) -> None:
    if norm not in NORMS:
        raise ValueError(f"norm {norm}: unknown; choose one of {', '.join(NORMS)}")


def check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision}: unknown; choose one of {', '.join(PRECISIONS)}")


def check_head(head: str) -> None:
    if head not in HEADS:
        raise ValueError(f"head {head}: unknown; choose one of {', '.join(HEADS)}")
