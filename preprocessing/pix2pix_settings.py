"""How a generator of images is trained (FedTransfer, "Model setting"; Isola et al. 2017; Wang et al. 2018)."""

from __future__ import annotations

import dataclasses

from models.names import GENERATORS

PRECISIONS = ("float32", "float16", "int8")  # of a file of weights
WIDTH = 64


@dataclasses.dataclass(frozen=True)
class Pix2PixSettings:
    generator: str = "unet"  # "unet" (the paper's text: pix2pix) or "hd" (its reference: pix2pixHD)
    width: int = WIDTH  # filters of the first layer; fewer for small machines
    epochs: int = 50  # the paper
    batch: int = 2  # the paper
    learning_rate: float = 2e-4  # the paper; it stays the same, as no decay is mentioned
    beta_1: float = 0.5  # Adam's, as in pix2pix
    beta_2: float = 0.999
    l1: float = 100.0  # weight of the L1 loss in Eq. 7: pix2pix; pix2pixHD has none
    feature_matching: float = 0.0  # weight of that loss: pix2pixHD has 10
    every: int = 5  # epochs between two checkpoints, and two sheets of samples
    seed: int = 0

    def __post_init__(self) -> None:
        if self.generator not in GENERATORS:
            raise ValueError(f"generator is {self.generator!r}; choose one of {', '.join(GENERATORS)}")
        for name in ("width", "epochs", "batch", "learning_rate", "every"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        for name in ("beta_1", "beta_2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or more and below 1")
        for name in ("l1", "feature_matching", "seed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or more")


HD = {"l1": 0.0, "feature_matching": 10.0}


def settings_for(generator: str, **changes: object) -> Pix2PixSettings:
    """The defaults for this generator, some of them changed."""
    own = HD if generator == "hd" else {}
    return Pix2PixSettings(**{"generator": generator, **own, **changes})  # type: ignore[arg-type]
