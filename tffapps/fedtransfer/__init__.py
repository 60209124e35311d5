"""FedTransfer, `python -m tffapps.fedtransfer`: grain boundaries in micrographs, each client has another material.

Every client trains a generator that paints its micrographs from their labels. Generators travel; each client paints
its own labels in the others' looks and trains a U-Net, in a federation, on real and painted images.
  separate      each client trains alone
  centralised   all micrographs in one place
  fedavg        a federation of the clients as they are
  fedtransfer   a federation of the clients with the images they painted
  repeated      ours, for comparison: a federation in which every client has its own images twice, as many as with
                fedtransfer
"""

import dataclasses
from typing import Any

from models.names import GENERATORS
from preprocessing.pix2pix_settings import PRECISIONS
from tffapps import VALIDATION, Aggregation, App, FedAvg, setting
from tffapps.privacy.stages import of_flag

METHODS = ("separate", "centralised", "fedavg", "fedtransfer", "repeated")
PAPERS_METRICS = ("map", "mvi", "ari")
METRICS = (*PAPERS_METRICS, "grown_map", "boundary_f1", "intercept_off")
SMALLER_IS_BETTER = ("mvi", "intercept_off")
CUT, CHOSEN = "cut", "chosen"  # how grains are found in a map of boundaries
EMPTY, WATERSHED = UNTRAINED = "empty", "watershed"  # rows that every table has, of no network
GLOBAL = "global"  # the test tiles of all clients
ALL_DATA, FEDERATION = "all data", "federation"  # where a run trains, if not at one client


@dataclasses.dataclass(frozen=True)
class TileSettings:
    """How tiles are cut, divided and read. The fingerprint of the tiles tells apart all but how they are read."""

    tile: int = setting(
        400, "pixels on a side of the tiles cut (paper); 0: an image's shorter side", least=0, in_key=False
    )
    size: int = setting(0, "tiles are brought to this many pixels on a side; 0: as they are", least=0, in_key=False)
    tiles: int = setting(892, "tiles of each client at most (paper); 0: all", least=0, in_key=False)
    folds: int = setting(5, "of the cross-validation (paper); 1: one division into three", least=1, in_key=False)
    channels: int = setting(3, "of the images: 1 (grey) or 3 (colour)", choices=(1, 3))


@dataclasses.dataclass(frozen=True)
class UNetSettings:
    """The U-Net and its local training."""

    width: int = setting(64, "filters of the U-Net's first layer (paper)", least=1)
    depth: int = setting(4, "how often it halves an image (paper)", least=1, most=7)
    boundary_weight: float = setting(1.0, "how much a boundary's pixel counts in the loss", above=0)
    epochs: int = setting(1, "local epochs a round", least=1)
    batch: int = setting(8, "tiles a batch (paper)", least=1)
    erasing: float = setting(0.5, "probability of random erasing; 0: never", least=0, most=1)
    augment: str = setting(
        "none", "of tiles and labels alike: turns are flips and right angles; light adds brightness, contrast, blur",
        choices=("none", "turns", "light"),
    )  # fmt: skip
    grains: str = setting(
        CHOSEN, "how they are found: boundaries cut at 0.5 (paper), or as each client's validation tiles choose",
        choices=(CUT, CHOSEN),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TogetherSettings:
    rounds: int = setting(20, "of federations and of centralised (paper)", least=1)


@dataclasses.dataclass(frozen=True)
class SeparateSettings:
    alone_rounds: int = setting(40, "of separate (paper)", least=1)


@dataclasses.dataclass(frozen=True)
class GeneratorSettings:
    """pix2pix, of fedtransfer alone."""

    generator: str = setting("unet", "pix2pix's U-Net or pix2pixHD's global generator", choices=GENERATORS)
    generator_width: int = setting(64, "filters of its first layer", least=1)
    generator_epochs: int = setting(50, "epochs of its training (paper)", least=1)
    generator_batch: int = setting(2, "tiles a batch of it (paper)", least=1)
    generator_learning_rate: float = setting(2e-4, "of its Adam (paper)", above=0)
    l1_weight: float = setting(-1.0, "of the L1 loss; -1: 100 with unet, 0 with hd, as their authors have it", least=-1)


@dataclasses.dataclass(frozen=True)
class ExchangeSettings:
    generator_precision: tuple[str, ...] = setting(  # each is a label of its runs
        PRECISIONS, "what generators are sent as, the first one in the tables", choices=PRECISIONS, metavar="A,B",
        in_key=False,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class StandinSettings:
    standin_images: int = setting(892, "stand-in: tiles of each material", least=6, in_key=False)
    standin_size: int = setting(400, "stand-in: pixels on a side", least=64, in_key=False)


_PAPER: dict[str, Any] = {"optimizer": "adam", "learning_rate": 1e-4, "grains": CUT}
_SMALL: dict[str, Any] = {
    **_PAPER,
    "grains": CHOSEN,
    "augment": "turns",
    "tile": 96,
    "tiles": 0,
    "channels": 1,
    "folds": 1,
    "width": 8,
    "depth": 3,
    "rounds": 5,
    "alone_rounds": 10,
    "epochs": 2,
    "learning_rate": 3e-3,
    "generator_width": 16,
    "generator_epochs": 10,
    "generator_precision": ("float32", "int8"),
    "standin_images": 90,
    "standin_size": 96,
}
PROFILES: dict[str, dict[str, Any]] = {
    "smoke": {
        **_PAPER,
        "grains": CHOSEN,
        "augment": "light",
        "tile": 64,
        "tiles": 12,
        "channels": 1,
        "folds": 1,
        "width": 4,
        "depth": 2,
        "rounds": 2,
        "alone_rounds": 2,
        "batch": 4,
        "learning_rate": 2e-3,
        "seeds": (0,),
        "generator_width": 4,
        "generator_epochs": 2,
        "generator_precision": ("float32", "int8"),
        "standin_images": 12,
        "standin_size": 64,
    },
    "small": _SMALL,
    "demo": {**_SMALL, "seeds": (0,)},
    "paper": {**_PAPER, "generator": "hd", "seeds": (0,)},
}


APP = App(
    name="fedtransfer",
    package=__name__,
    summary="generators travel between clients that segment micrographs",
    description="FedTransfer: generators travel between clients that segment micrographs, images and labels stay.",
    settings=(
        TileSettings, UNetSettings, TogetherSettings, SeparateSettings, GeneratorSettings, ExchangeSettings,
        StandinSettings, Aggregation, FedAvg,
    ),
    profiles=PROFILES,
    methods=METHODS,
    narrowed=(("precision", "generator_precision"),),
    not_across_sites={"centralised": "no site has all the micrographs"},
    selects=(VALIDATION,),
    stages=(of_flag("methods", "fedtransfer", "the generators that clients of fedtransfer send each other"),),
)  # fmt: skip
