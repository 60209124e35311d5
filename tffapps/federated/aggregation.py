"""How updates become one: the choices behind `--aggregator`, TFF's own factories and ours."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tffapps.errors import RunStopped, UserError
from tffapps.federated.lazy import tff
from tffapps.settings import CHANGED, setting

if TYPE_CHECKING:
    from tffapps.federated.task import WeightsLayout

# Against clients that send anything: the least number of them, of `byzantine` bad ones, that it can tell apart with.
AGAINST_BAD: dict[str, Callable[[int], int]] = {
    "median": lambda bad: 1,
    "trimmed-mean": lambda bad: 2 * bad + 1,
    "krum": lambda bad: 2 * bad + 3,
    "multi-krum": lambda bad: 2 * bad + 3,
    "geometric-median": lambda bad: 1,
    "norm-bound": lambda bad: 1,
}
NAMES = ("mean", "robust", "secure", "dp", "compressed", *AGAINST_BAD)
SECURE_BOUND = float(2**29)  # largest value × examples of one client in a secure sum
SECURE_CLIENTS = 2**12  # most clients in one
_QUANTISED_FROM = 20_000  # tensors with more values than this are sent in 8 bits by TFF's compression
_PACKED_BITS = 28  # of these 8-bit values that TFF puts into one number of 32 bits


@dataclasses.dataclass(frozen=True)
class Aggregation:
    """mean: weighted by examples. robust: without outliers, the rest clipped, adaptively. secure: a secure sum, its
    protocol simulated on one machine, real across sites (`summed`). dp: clipped and noised, every client counting the
    same. compressed: 8-bit updates. The others are for cohorts in which some clients may send anything (`row_rules`).

    BatchNorm statistics live on another scale than weights: clipped together they would drown the weights' part of an
    update. They are therefore averaged beside them, and so is what a method's clients send for the server's memory,
    except under dp, whose promise must cover them too, and under those against bad clients: these take the coordinate
    median of statistics and refuse methods that send more. (dp covers these only: a client's example count is not
    noised, and its loss it keeps to itself.)
    """

    aggregator: str = setting("mean", "how updates are combined", choices=NAMES)
    byzantine: int = setting(1, "trimmed-mean, krum, multi-krum: how many clients may be bad", least=0, in_key=CHANGED)
    dp_clip: float = setting(1.0, "dp: largest L2 norm of one client's update", above=0)
    dp_noise: float = setting(1.0, "dp: noise multiplier (standard deviation of the sum's noise / dp_clip)", least=0)
    dp_delta: float = setting(1e-5, "dp, record-dp: delta at which epsilon is reported", above=0, below=1)
    dp_secure: bool = setting(
        False, "dp across sites: each adds its share of the noise, and the coordinator learns the sum alone",
        in_key=CHANGED,
    )  # fmt: skip

    @property
    def weighted(self) -> bool:
        return self.aggregator != "dp"

    def factory(self, clients: int) -> Any:
        """A `tff.aggregators` factory. `clients`, the size of a cohort, matters to dp only: it scales the noise."""
        if self.aggregator == "mean":
            return tff.aggregators.MeanFactory(no_nan_division=True)
        if self.aggregator == "robust":
            return _by_rows("robust", 0)
        if self.aggregator in AGAINST_BAD:
            return _by_rows(self.aggregator, self.byzantine)
        if self.aggregator == "secure":
            return _secure_mean()
        if self.aggregator == "compressed":  # random rounding could not be repeated
            return tff.learning.compression_aggregator(zeroing=False, clipping=False, stochastic=False)
        if self.aggregator == "dp":
            return tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(self.dp_noise, clients, self.dp_clip)
        raise ValueError(f"aggregator {self.aggregator!r}: choose one of {', '.join(NAMES)}")

    def of_sums(self) -> Aggregation:
        """What is left to do with a sum that sites have made, clipped and noised themselves (`summed`)."""
        return Aggregation()

    @property
    def seen(self) -> bool:
        """Whether the server sees each update as it is: not clipped, masked or packed by the client."""
        return self.aggregator not in ("secure", "dp", "compressed")

    @property
    def statistics_apart(self) -> bool:
        return self.aggregator != "dp"

    def statistics_factory(self) -> Any:
        """For the weights that are not trained, and for what is sent besides, where they are averaged apart."""
        if self.aggregator == "secure":
            return _secure_mean()
        if self.aggregator in AGAINST_BAD:
            return _by_rows("median", 0)
        return tff.aggregators.MeanFactory(no_nan_division=True)

    @property
    def statistics_bound(self) -> float:
        """Largest value × examples of one client that `statistics_factory` does not clip."""
        return SECURE_BOUND if self.aggregator == "secure" else math.inf

    @property
    def adaptive(self) -> bool:
        """Whether it learns from every update it is given: then a bad one, even of weight 0, must not be among them."""
        return self.aggregator == "compressed"

    @property
    def least_clients(self) -> int:
        """That a round needs, so that it can do what it is for."""
        return AGAINST_BAD[self.aggregator](self.byzantine) if self.aggregator in AGAINST_BAD else 1

    @property
    def told(self) -> bool:
        """Whether `byzantine` changes what it does."""
        return self.aggregator in AGAINST_BAD and AGAINST_BAD[self.aggregator](0) < AGAINST_BAD[self.aggregator](1)

    def against(self, bad: int) -> Aggregation:
        """The same, told of so many bad clients at least, if it is to be told at all."""
        return dataclasses.replace(self, byzantine=max(bad, self.byzantine)) if self.told else self

    def check(self, clients: int, method: str, sends_more: bool) -> None:
        """Refuses a federation that it cannot keep its promise for."""
        if clients < self.least_clients:
            raise UserError(
                f"--aggregator {self.aggregator}: with --byzantine {self.byzantine} it needs {self.least_clients}"
                f" clients, and there are {clients}; lower --byzantine or choose another, such as median"
            )
        if self.aggregator == "secure" and clients > SECURE_CLIENTS:
            raise UserError(f"--aggregator secure: its sums have room for {SECURE_CLIENTS} clients, not for {clients}")
        if sends_more and self.aggregator in AGAINST_BAD:
            raise UserError(
                f"--aggregator {self.aggregator}: it does not cover what the clients of {method} send beside their"
                " updates; choose another aggregator or method"
            )

    def check_measured(self, measurements: Any) -> None:
        """Refuses the result of a round in which a secure sum had no room for some values."""
        if self.aggregator != "secure":
            return
        from tffapps.federated.secure import out_of_range

        count = out_of_range(measurements)
        if count:
            raise RunStopped(
                f"--aggregator secure: {count} values of the clients' updates times their examples are beyond"
                f" ±{SECURE_BOUND:.3g}, so that their sum would be wrong; lower --learning-rate, check the images for"
                " outliers, or use --aggregator mean"
            )

    def bytes_up(self, layout: WeightsLayout) -> int:
        """Size of one client's update as it would be sent."""
        if self.aggregator != "compressed":
            return layout.byte_count()
        total = 0
        for shape, dtype, trained in zip(layout.shapes, layout.dtypes, layout.trainable):
            count = math.prod(shape)
            quantised = trained and count > _QUANTISED_FROM
            packed = 4 * math.ceil(8 * count / _PACKED_BITS) + 2 * dtype.itemsize  # and the range
            total += packed if quantised else count * dtype.itemsize
        return total

    def epsilon(self, rounds: int) -> float | None:
        """Privacy spent on a client that took part in `rounds` rounds; None where there is no DP."""
        if self.aggregator != "dp":
            return None
        if self.dp_noise <= 0:
            return math.inf
        import dp_accounting

        accountant = dp_accounting.rdp.RdpAccountant()
        accountant.compose(dp_accounting.GaussianDpEvent(self.dp_noise), rounds)
        return float(accountant.get_epsilon(self.dp_delta))

    def described(self, across_sites: bool = False) -> str:
        """How tables call it: its name and what a reader must know."""
        where = "noise added at the sites" if across_sites else "noise is not seeded"
        note = {
            "secure": "masked at the sites, the coordinator has the sum alone"
            if across_sites
            else "secure sum simulated: the numbers of the protocol, no cryptography",
            "dp": f"client-level DP, delta {self.dp_delta:g}; {where}",
        }.get(self.aggregator)
        return f"{self.aggregator}: {note}" if note else self.aggregator


def _secure_mean() -> Any:
    from tffapps.federated.secure import SecureMeanFactory

    return SecureMeanFactory()


def _by_rows(name: str, bad: int) -> Any:
    from tffapps.federated import by_rows, row_rules

    rules = {
        "robust": by_rows.robust,
        "norm-bound": by_rows.norm_bound,
        "median": by_rows.stateless(row_rules.median),
        "geometric-median": by_rows.stateless(row_rules.geometric_median),
        "trimmed-mean": by_rows.stateless(lambda rows: row_rules.trimmed_mean(rows, bad)),
        "krum": by_rows.stateless(lambda rows: row_rules.krum(rows, bad)),
        "multi-krum": by_rows.stateless(lambda rows: row_rules.multi_krum(rows, bad)),
    }
    return by_rows.RowsFactory(rules[name])
