"""What a method of `--methods` does: how its rare images are multiplied, and by which loss or sampling it trains.

    fedavg                 the sites as they are
    turned                 rare images again, turned: as many as fnst makes
    adain+turned           both: images in others' styles and turned ones
    turned+focal           turned ones, under another loss
    fnst+best-control      styles on top of the control that is best on validation images

Every part is named here once; a method joins parts by +. `CHOSEN_ON_VALIDATION` are no methods of training: they are
rows of tables, whose runs are others' (`tffapps.fnst.choices`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from tffapps.errors import UserError
from tffapps.federated.unequal import ClassBalance

BEST, PLUS = "best-control", "fnst-plus"
CHOSEN_ON_VALIDATION = (BEST, PLUS)
FEDAVG, FNST = "fedavg", "fnst"


@dataclasses.dataclass(frozen=True)
class Part:
    """One thing that a method does, beside federated averaging."""

    copies: str = ""  # how rare images are copied: a name of `copies.WAYS`, or "repeated"
    styled: Mapping[str, Any] | None = None  # flags of style transfer that it has of its own; None: it styles nothing
    other_class: bool = False  # styled: with the styles of other classes than the content's
    balance: ClassBalance | None = None


COPIES = {name: Part(copies=name) for name in ("repeated", "turned", "jitter", "hed")}
BALANCES = {
    "balanced-sampling": Part(balance=ClassBalance(sampling="balanced")),
    "balanced-loss": Part(balance=ClassBalance(loss="balanced")),
    "focal": Part(balance=ClassBalance(loss="focal")),
    "logit-adjusted": Part(balance=ClassBalance(loss="logit-adjusted")),
}
_ADAIN = {"transfer": "adain"}
STYLED = {
    FNST: Part(styled={}),
    "adain": Part(styled=_ADAIN),
    "whiten": Part(styled={"transfer": "whiten"}),
    "adain-half": Part(styled={**_ADAIN, "style_strength": 0.5}),
    "stain": Part(styled={**_ADAIN, "style_part": "stain"}),
    "texture": Part(styled={**_ADAIN, "style_part": "texture"}),
    "averaged": Part(styled={**_ADAIN, "gram_average": 5}),
    "noised": Part(styled={**_ADAIN, "gram_noise": 0.1}),
    "noised-more": Part(styled={**_ADAIN, "gram_noise": 0.5}),
    "other-class": Part(styled=_ADAIN, other_class=True),
}
PARTS = {FEDAVG: Part(), **STYLED, **COPIES, **BALANCES}
CONTROLS = (*COPIES, *BALANCES)
_WHOLE = ("separate", "centralised", PLUS)


@dataclasses.dataclass(frozen=True)
class Method:
    """A federation's, as its parts make it."""

    name: str
    parts: tuple[str, ...]

    @property
    def multiplies(self) -> bool:
        """Whether there are more images of rare classes than there were."""
        return any(PARTS[name].copies or PARTS[name].styled is not None for name in self.parts)

    @property
    def styles(self) -> bool:
        return any(name in STYLED for name in self.parts)

    @property
    def balance(self) -> ClassBalance | None:
        """None: as the command's flags have it."""
        return next((PARTS[name].balance for name in self.parts if name in BALANCES), None)


def parse(name: str) -> Method:
    """A method of a federation that is trained. Raises UserError for parts that do not go together."""
    parts = tuple(name.split("+"))
    whole = next((part for part in parts if part in (*_WHOLE, BEST)), "")
    if whole:
        raise UserError(f"--methods {name}: {whole} cannot be joined to others here; leave it out, or alone")
    if len(set(parts)) < len(parts):
        raise UserError(f"--methods {name}: names a part twice; leave one out")
    if sum(part in BALANCES for part in parts) > 1:
        raise UserError(f"--methods {name}: two losses or samplings ({', '.join(BALANCES)}); leave one out")
    return Method(name, parts)


def trained(methods: Iterable[str]) -> list[Method]:
    """Those of them that are a federation's and known before anything has been chosen."""
    return [parse(name) for name in methods if name not in _WHOLE and BEST not in name.split("+")]


def on_best(methods: Iterable[str]) -> list[str]:
    """What is to be put on top of the best control: adain for adain+best-control."""
    found = []
    for name in methods:
        rest = [part for part in name.split("+") if part != BEST]
        if rest and len(rest) < len(name.split("+")):
            found.append(parse("+".join(rest)).name)
    return found


def joined(first: str, second: str) -> str:
    """Of two methods, each part once."""
    return "+".join(dict.fromkeys([*first.split("+"), *second.split("+")]))


def styles_needed(methods: Iterable[str]) -> tuple[str, ...]:
    """The parts of all these methods that give images a style, in the order of STYLED."""
    there = {part for name in methods for part in name.split("+")}
    return tuple(name for name in STYLED if name in there)
