"""Any labelled folder of images under the plain federated methods: `python -m tffapps.classify`.

The shortest system: what the five others are measured against, on your own data, and the pattern they follow.
Beside the federated methods, `separate` trains each client alone and `centralised` trains on everything in one place.
"""

import dataclasses
from typing import Any

from tffapps import METHODS, Aggregation, App, setting

REFERENCES = ("separate", "centralised")
METRICS = ("accuracy", "f1", "macro_f1", "auroc", "auprc")


@dataclasses.dataclass(frozen=True)
class ClassifySettings:
    model: str = setting("mobilenetv2", "network", choices=("mobilenetv2", "densenet121", "resnet18", "tiny"))
    size: int = setting(64, "images are resized to this many pixels on a side", least=8)
    channels: int = setting(3, "1 for grey, 3 for colour", choices=(1, 3))
    rounds: int = setting(10, "rounds of the federation", least=1)
    epochs: int = setting(1, "local epochs a round", least=1)
    batch: int = setting(32, "images a batch", least=1)
    standin_images: int = setting(40, "stand-in: images of each class at each client", least=3, in_key=False)


PROFILES: dict[str, dict[str, Any]] = {
    "smoke": {
        "model": "tiny",
        "size": 32,
        "rounds": 2,
        "seeds": (0,),
        "standin_images": 10,
        "learning_rate": 0.1,
    },
    "demo": {
        "model": "tiny",
        "size": 32,
        "rounds": 15,
        "batch": 16,
        "learning_rate": 0.1,
        "standin_images": 60,
    },
    "paper": {"model": "mobilenetv2", "size": 224, "rounds": 100},
}

APP = App(
    name="classify",
    package=__name__,
    summary="federated classification of any images",
    description="Federated classification of any labelled folder of images.",
    settings=(ClassifySettings, Aggregation, *METHODS.values()),
    profiles=PROFILES,
    methods=(*METHODS, *REFERENCES),
    not_across_sites={"centralised": "no site has all the images"},
)
