"""How stains are separated, and the limits a patch must keep to. Needs no NumPy."""

from __future__ import annotations

import dataclasses

from preprocessing.errors import Rejected

METHODS = ("vahadane", "macenko")


class StainRejected(Rejected):
    """Not a patch whose stains can be measured."""


@dataclasses.dataclass(frozen=True)
class StainSettings:
    """FedSDA gives no values. The penalties and the luminosity are those in general use; the rest is our choice.

    The limits were chosen by looking at 668 real H&E patches from three sources; what was measured on those is
    given with each.
    """

    method: str = "vahadane"  # how the stain matrix is found: "vahadane" (Eq. 3) or "macenko" (extreme angles)
    lambda_matrix: float = 0.1  # weight of the L1 penalty while the stain matrix is learned
    lambda_density: float = 0.01  # weight of the L1 penalty while densities are solved for
    luminosity: float = 0.8  # a pixel is tissue where its Lab lightness, scaled to 0..1, is below this
    sample: int = 16384  # at most this many tissue pixels, picked at random, teach a patch's matrix
    iterations: int = 60  # at most this many rounds of learning; most patches settle in 20, most of those on few pixels
    tolerance: float = 5e-4  # learned once a round moves no entry of w further than this; then 0.1 degrees from the end
    percentile: float = 1.0  # macenko: the stains lie at this percentile of the angles and at 100 minus it
    seed: int = 0  # of the pixels picked
    min_tissue: float = 0.05  # share of the pixels that must be tissue; measured: at least 0.18
    min_angle: float = 3.0  # degrees between the columns, below which they are one stain and noise; measured: 4.1
    min_share: float = 0.01  # of the density, for each stain: less says nothing of its colour; measured: 0.03
    max_blue: float = 1.0  # blue absorbed to green, for each stain: brown (DAB) has more; measured: at most 0.85

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}; choose one of {', '.join(METHODS)}")
        for name in ("sample", "iterations", "tolerance", "max_blue"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        for name in ("lambda_matrix", "lambda_density", "seed", "min_angle"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        for name in ("luminosity", "min_tissue", "min_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is a share, between 0 and 1")
        if not 0 <= self.percentile < 50:
            raise ValueError(f"percentile is {self.percentile}; it must be at least 0 and below 50")
