"""What `--attack` asks for. No TensorFlow here."""

import dataclasses

from tffapps import PLAYED, setting
from tffapps.federated import attacks

REFERENCES = ("separate", "centralised")  # trained alone, and in one place: beside the methods

# Of all aggregators those that are asked how they stand up; the first stands up to nothing.
AGGREGATORS = (
    "mean", "robust", "norm-bound", "median", "trimmed-mean", "krum", "multi-krum", "geometric-median",
)  # fmt: skip


def studied(methods: tuple[str, ...]) -> tuple[str, ...]:
    """The methods of a study: of those that are played where none is named, FedAvg alone."""
    return ("fedavg",) if set(methods) == {*PLAYED, *REFERENCES} else methods


@dataclasses.dataclass(frozen=True)
class AttackSettings:
    """None is in a key itself: a run under attack has `attacks.Attack` in its key, which is made of them."""

    attack: tuple[str, ...] = setting(
        (),
        f"play every method under clients that attack, beside none, into attacks.csv: {', '.join(attacks.NAMES)}",
        choices=attacks.NAMES,
        metavar="A,B",
        in_key=False,
    )
    aggregators: tuple[str, ...] = setting(
        (), f"--attack: of {', '.join(AGGREGATORS)}", choices=AGGREGATORS, metavar="A,B", in_key=False
    )
    attackers: float = setting(
        0.2, "--attack: share of the clients, chosen by the seed", above=0, below=1, in_key=False
    )
    flip_factor: float = setting(
        10.0, "sign-flip: the update times minus this; the mean is turned round above 1/attackers − 1", above=0,
        in_key=False,
    )  # fmt: skip
    scaling_factor: float = setting(100.0, "scaling: the update times this", above=0, in_key=False)
    backdoor_target: str = setting("", "backdoor: what patched images are to be; none: the first class", in_key=False)
    backdoor_share: float = setting(
        0.5, "backdoor: of an attacker's images of other classes so many are patched", above=0, most=1, in_key=False
    )
    backdoor_patch: float = setting(
        0.2, "backdoor: side of the patch, as a share of the image's", above=0, most=0.5, in_key=False
    )
    backdoor_factor: float = setting(
        0.0,
        "backdoor: the update times this; 0: clients/attackers, which replaces the model under mean; 1: data alone",
        least=0,
        in_key=False,
    )
