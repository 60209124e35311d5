"""How updates become one: the choices behind `--aggregator`, all of them TFF's own factories."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from tffapps.federated.lazy import tff
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.task import WeightsLayout

NAMES = ("mean", "robust", "secure", "dp", "compressed")
# Largest values of update × examples in a secure sum; it is exact to about a 2^31st of that. Statistics move farther.
_SECURE_BOUND, _SECURE_STATISTICS_BOUND = float(2**16), float(2**22)
_QUANTISED_FROM = 20_000  # tensors with more values than this are sent in 8 bits by TFF's compression


@dataclasses.dataclass(frozen=True)
class Aggregation:
    """mean: weighted by examples. robust: also zeroes and clips outliers, adaptively. secure: a secure sum, its
    protocol simulated. dp: clipped and noised, every client counting the same. compressed: 8-bit updates.

    BatchNorm statistics live on another scale than weights: clipped together they would drown the weights' part of an
    update. They are therefore averaged beside them, and so is what a method's clients send for the server's memory,
    except under dp, whose promise must cover them too. (It covers these only: a client's example count and loss, which
    it reports for the record, are not noised.)
    """

    aggregator: str = setting("mean", "how updates are combined", choices=NAMES)
    dp_clip: float = setting(1.0, "dp: largest L2 norm of one client's update", above=0)
    dp_noise: float = setting(1.0, "dp: noise multiplier (standard deviation of the sum's noise / dp_clip)", least=0)
    dp_delta: float = setting(1e-5, "dp: delta at which epsilon is reported", above=0, below=1)

    @property
    def weighted(self) -> bool:
        return self.aggregator != "dp"

    def factory(self, clients: int) -> Any:
        """A `tff.aggregators` factory. `clients`, the size of a cohort, matters to dp only: it scales the noise."""
        if self.aggregator == "mean":
            return tff.aggregators.MeanFactory(no_nan_division=True)
        if self.aggregator == "robust":
            return tff.learning.robust_aggregator()
        if self.aggregator == "secure":
            return _secure_mean(_SECURE_BOUND)
        if self.aggregator == "compressed":
            return tff.learning.compression_aggregator(stochastic=False)  # random rounding could not be repeated
        if self.aggregator == "dp":
            return tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(self.dp_noise, clients, self.dp_clip)
        raise ValueError(f"aggregator {self.aggregator!r}: choose one of {', '.join(NAMES)}")

    @property
    def statistics_apart(self) -> bool:
        return self.aggregator != "dp"

    def statistics_factory(self) -> Any:
        """For the weights that are not trained, and for what is sent besides, where they are averaged apart."""
        if self.aggregator == "secure":
            return _secure_mean(_SECURE_STATISTICS_BOUND)
        return tff.aggregators.MeanFactory(no_nan_division=True)

    @property
    def statistics_bound(self) -> float:
        """Largest value × examples of one client that `statistics_factory` does not clip."""
        return _SECURE_STATISTICS_BOUND if self.aggregator == "secure" else math.inf

    @property
    def adaptive(self) -> bool:
        """Whether it learns from every update it is given: then a bad one, even of weight 0, must not be among them."""
        return self.aggregator in ("robust", "compressed")

    def bytes_up(self, layout: WeightsLayout) -> int:
        """Size of one client's update as it would be sent."""
        if self.aggregator != "compressed":
            return layout.byte_count()
        total = 0
        for shape, dtype, trained in zip(layout.shapes, layout.dtypes, layout.trainable):
            count = math.prod(shape)
            quantised = trained and count > _QUANTISED_FROM
            total += count + 2 * dtype.itemsize if quantised else count * dtype.itemsize
        return total

    def epsilon(self, rounds: int) -> float | None:
        """Privacy spent on any one client after `rounds` rounds in which all take part; None where there is no DP."""
        if self.aggregator != "dp":
            return None
        if self.dp_noise <= 0:
            return math.inf
        import dp_accounting

        accountant = dp_accounting.rdp.RdpAccountant()
        accountant.compose(dp_accounting.GaussianDpEvent(self.dp_noise), rounds)
        return float(accountant.get_epsilon(self.dp_delta))

    def described(self) -> str:
        """How tables call it: its name and what a reader must know."""
        note = {
            "secure": "secure sum simulated: the numbers of the protocol, no cryptography",
            "dp": f"client-level DP, delta {self.dp_delta:g}; noise is not seeded",
        }.get(self.aggregator)
        return f"{self.aggregator}: {note}" if note else self.aggregator


def _secure_mean(bound: float) -> Any:
    """A weighted mean by secure sums with fixed bounds. TFF's own secure aggregator clips every coordinate of
    update × examples at a bound that begins at 100 and grows slowly: a client with thousands of images is cut short.
    """
    values = tff.aggregators.SecureSumFactory(bound, -bound)
    examples = tff.aggregators.SecureSumFactory(float(2**20 - 1), 0.0)  # TFF's own choice for example counts
    return tff.aggregators.MeanFactory(values, examples, no_nan_division=True)
