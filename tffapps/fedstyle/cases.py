"""Which runs there are: the comparison's, and those of the studies beside it."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tffapps import Common
from tffapps.fedstyle import (
    COMPARISON,
    STUDIES,
    UNTRAINED,
    WEIGHTS,
    FedStyleCloakSettings,
    FedStyleSettings,
    FedStyleStartSettings,
    FedStyleStudySettings,
    data,
)
from tffapps.fedstyle.data import Federation
from tffapps.fedstyle.placement import Placement
from tffapps.fedstyle.roles import CENTRALISED, STYLES

# What is left out of FedStyle's losses; the last is FedAvg whose server trains on the public pictures.
ABLATIONS = {
    "without L1": ("style_ce",),
    "without L2": ("style_contrast",),
    "without L3": ("style_mse",),
    "without styles": STYLES,
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One run."""

    study: str
    variant: str  # within the study
    method: str
    federation: Federation
    seed: int
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the method's settings
    prepared: tuple[Any, ...] = ()  # settings of what was made for it
    start: str = WEIGHTS

    @property
    def labels(self) -> dict[str, str]:
        """Of its start, where it is not the usual one."""
        return {"start": self.start} if self.start != WEIGHTS else {}


def comparison(placement: Placement) -> Iterator[Case]:
    """Every method on every seed, from every start; local is what others start from."""
    starts = placement.flags[FedStyleStartSettings].start_from
    for seed in placement.flags[Common].seeds:
        for place, start in enumerate(starts):
            for method in placement.flags[Common].methods:
                if method == "local" and not place:
                    yield Case(COMPARISON, "", method, placement.federation, seed)
                elif method not in ("local", *UNTRAINED):
                    yield Case(COMPARISON, "", method, placement.federation, seed, start=start)


def studies(placement: Placement) -> Iterator[Case]:
    """The studies that are asked for, in their order."""
    settings, seeds = placement.flags[FedStyleStudySettings], placement.flags[Common].seeds
    kinds = {
        "scalability": _scalability, "ablation": _ablation, "heterogeneity": _heterogeneity, "cloaking": _cloaking,
    }  # fmt: skip
    for study in STUDIES:
        if study in settings.studies:
            for seed in seeds[: settings.study_seeds or None]:
                yield from kinds[study](placement, seed)


def _scalability(placement: Placement, seed: int) -> Iterator[Case]:
    """Table I."""
    for count in placement.flags[FedStyleStudySettings].scalability:
        federation = data.federation(placement.pool, count)
        for method in placement.flags[Common].methods:
            yield Case("scalability", str(count), method, federation, seed)


def _ablation(placement: Placement, seed: int) -> Iterator[Case]:
    """Figure 4."""
    for variant, dropped in ABLATIONS.items() if "fedstyle" in placement.flags[Common].methods else ():
        yield Case("ablation", variant, "fedstyle", placement.federation, seed, dict.fromkeys(dropped, 0.0))


def _heterogeneity(placement: Placement, seed: int) -> Iterator[Case]:
    """Figure 1(b)."""
    artists = placement.flags[FedStyleSettings].artists
    dirichlet = [("dirichlet", alpha) for alpha in placement.flags[FedStyleStudySettings].alphas]
    for kind, alpha in [("even", 0.0), *dirichlet]:
        federation = data.dealt(placement.pool, artists, kind, alpha, seed)
        for method in ("fedavg", "fedstyle"):
            if method in placement.flags[Common].methods:
                yield Case("heterogeneity", federation.name, method, federation, seed)


def _cloaking(placement: Placement, seed: int) -> Iterator[Case]:
    """Figure 1(a)."""
    if placement.cloaks is None:
        return
    prepared = (placement.flags[FedStyleCloakSettings],)
    for share in placement.flags[FedStyleStudySettings].cloaked:
        federation = placement.cloaks.federation(placement.pool, share, seed)
        yield Case("cloaking", f"{share:g}", CENTRALISED, federation, seed, prepared=prepared)
