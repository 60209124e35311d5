"""A complete system of one's own: is it better to talk often or to work long?

    often   many rounds of one local epoch
    long    as many epochs in all, in a few rounds

It lies beside the package and is found by one name:

    PYTHONPATH=examples TFFAPPS_SYSTEMS=own_system python -m tffapps own_system --data FOLDER

With that it has what every system has: flags and profiles, runs that go on after a kill, a table, a section of the
page, `python -m tffapps data FOLDER --for own_system`, and runs across sites.
"""

from __future__ import annotations

import dataclasses

from tffapps import Aggregation, App, FedAvg, setting


@dataclasses.dataclass(frozen=True)
class OwnSettings:
    """Every field is a flag, and in the key of a run."""

    model: str = setting("tiny", "network", choices=("tiny", "mobilenetv2"))
    size: int = setting(32, "pixels on a side", least=8)
    epochs: int = setting(12, "local epochs in all", least=1)
    stretch: int = setting(4, "of long: local epochs a round", least=1)
    batch: int = setting(16, "images a batch", least=1)


APP = App(
    name="own_system",
    package=__name__,
    summary="talk often or work long",
    description="FedAvg with many short rounds beside few long ones.",
    settings=(OwnSettings, Aggregation, FedAvg),
    profiles={
        "smoke": {"epochs": 4, "stretch": 2, "seeds": (0,), "learning_rate": 0.1},
        "demo": {"learning_rate": 0.1},
    },
    methods=("often", "long"),
    not_across_sites={},
)
