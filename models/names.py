"""What a network may be called. Free of TensorFlow, so that a wrong name is refused at once."""

from __future__ import annotations

APPLICATIONS = ("mobilenetv2", "densenet121", "densenet169", "densenet201")  # built by keras.applications
NAMES = (*APPLICATIONS, "resnet18", "tiny")
HEADS = ("gap", "flatten256")
GENERATORS = ("unet", "hd")  # of images from labels: pix2pix and pix2pixHD


def check_name(name: str) -> None:
    if name not in NAMES:
        raise ValueError(f"model {name}: unknown; choose one of {', '.join(NAMES)}")


def check_head(head: str) -> None:
    if head not in HEADS:
        raise ValueError(f"head {head}: unknown; choose one of {', '.join(HEADS)}")
