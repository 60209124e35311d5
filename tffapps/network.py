"""A classifier as flags describe it: which network, what of it is trained. No TensorFlow here."""

import dataclasses
from typing import Any

from models.names import (
    ALL,
    AUTO,
    FLOAT32,
    HEAD,
    NAMES,
    NORMS,
    PRETRAINED_CUT,
    PRETRAINED_SIZE,
    RANDOM_SIZE,
    check_cut,
    check_name,
    is_own,
    stands_on_cut,
)
from tffapps.errors import UserError
from tffapps.settings import setting

# For the setting that names a classifier.
MODEL: dict[str, Any] = {"choices": NAMES, "own": True, "metavar": "NAME|MODULE:FUNCTION"}
MODEL_HELP = f"{', '.join(NAMES)}, or a function of your own (docs/weights.md)"

# The classifier of the demo profiles: a real network that trains on two cores, and how it is trained.
DEMO_NETWORK: dict[str, Any] = {
    "weights": "imagenet",
    "model": "mobilenetv2",
    "size": 96,
    "head": "conv",
    "train_from": "block_12_add",
    "optimizer": "adam",
    "learning_rate": 1e-3,
}


@dataclasses.dataclass(frozen=True)
class CutSettings:
    """What of a network is trained. In a run's key is what it comes to, with the initial weights."""

    train_from: str = setting(
        AUTO,
        "frozen below: head, a stage (docs/weights.md), all: nothing is; auto: a stage if weights are pretrained",
        metavar="auto|head|STAGE|all",
        alias="freeze",
        alias_values={"yes": HEAD, "no": ALL},
        in_key=False,
    )
    norm: str = setting(
        AUTO,
        "BatchNorm above the cut (frozen: a new head has group); auto: frozen where it is pretrained, else batch",
        choices=(AUTO, *NORMS),
        in_key=False,
    )
    reestimate: bool = setting(
        False, "after a round: BatchNorm's statistics by one more pass over the training images", in_key=False
    )


@dataclasses.dataclass(frozen=True)
class Network:
    """A classifier, and what its flags come to."""

    name: str  # one of models.names.NAMES, or package.module:function
    size: int  # images are resized to this many pixels on a side; 0: what suits it
    channels: int  # 1 or 3
    head: str  # one of models.names.HEADS, or "auto": conv on a cut, else gap; a network of the user's has its own
    weights: str  # "imagenet", "random" or a file
    cut_settings: CutSettings = CutSettings()
    precision: str = FLOAT32  # one of models.names.PRECISIONS

    def __post_init__(self) -> None:
        if self.own:
            self._check_own()
            return
        try:
            check_name(self.name)
            check_cut(self.name, self.cut)
        except ValueError as error:
            raise UserError(f"--train-from: {error}") from error

    def _check_own(self) -> None:
        from models import own  # needs TensorFlow

        try:
            cuts = (*reversed(own.stages_of(self.name)), ALL)
        except ValueError as error:
            raise UserError(f"--model {error}") from error
        if self.cut not in cuts:
            raise UserError(
                f"--train-from {self.cut}: {self.name} cannot be cut there; choose {' or '.join(cuts)} (its function's "
                "attribute `stages` names layers to cut at)"
            )

    @property
    def own(self) -> bool:
        """Whether it is a network of the user's."""
        return is_own(self.name)

    @property
    def pretrained(self) -> bool:
        return self.weights != "random"

    @property
    def side(self) -> int:
        """Pixels on a side."""
        return self.size or (PRETRAINED_SIZE if self.pretrained else RANDOM_SIZE)

    @property
    def cut(self) -> str:
        """Below it the network is frozen: "head", a stage, or "all" where nothing is."""
        if self.cut_settings.train_from != AUTO:
            return self.cut_settings.train_from
        return PRETRAINED_CUT.get(self.name, ALL) if self.pretrained else ALL

    @property
    def chosen_head(self) -> str:
        if self.own:
            return "own"
        return self.head if self.head != AUTO else "conv" if stands_on_cut("conv", self.cut) else "gap"

    @property
    def norm(self) -> str:
        """What becomes of BatchNorm above the cut."""
        if self.cut_settings.norm != AUTO:
            return self.cut_settings.norm
        published_above = self.cut != HEAD and not stands_on_cut(self.chosen_head, self.cut)
        return "frozen" if self.pretrained and published_above else "batch"

    @property
    def frozen(self) -> bool:
        """Whether any of it is."""
        return self.cut != ALL

    @property
    def trained_part(self) -> str:
        """How tables call what is trained."""
        if self.cut == ALL:
            return "base trained"
        return "base frozen" if self.cut == HEAD else f"frozen up to {self.cut}"
