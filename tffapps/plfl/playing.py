"""Frameworks played under several flags by one command: one engine, one pool, networks and rounds shared."""

import contextlib
import dataclasses
from collections.abc import Iterator

from tffapps import Common, Flags, Record, Study, open_engine
from tffapps.plfl import APP, PlflNetwork, division
from tffapps.plfl.placement import Placement, placed
from tffapps.plfl.trials import Trials


class Playing:
    """What is open while a command plays."""

    def __init__(self, study: Study, placement: Placement) -> None:
        self._study, common = study, study.common
        self.pool = placement.pool(study.engine.sites)
        self.pool.announce(study.folder)
        common.check_clients(len(division.clients(self.pool)))
        models = study.flags[PlflNetwork].models
        self._trials = [Trials(study, self.pool, placement, model) for model in models]

    def records(self, flags: Flags, *, tuning: bool = False) -> list[Record]:
        """Of every framework, network, split and seed under these flags, which may differ in the frameworks' own.

        `tuning`: tested on validation images in place of the test images.
        """
        divided = division.splits_of(
            self.pool, flags[Common], flags[Common].methods, self.pool.classes, tuning=tuning
        )  # fmt: skip
        found = []
        for trials in self._trials:
            under = trials.under(flags)
            for split in divided:
                for trial in under.all(split):
                    played = dataclasses.replace(trial, bundle=None) if tuning else trial
                    found.append(self._study.under(flags).run(played))
        return found

    def what_ran(self) -> dict[str, str]:
        """The last columns of tables."""
        weights = self._trials[0].inputs.weights
        return {"data": self.pool.name, "profile": self._study.flags.profile, "weights": weights}


@contextlib.contextmanager
def opened(flags: Flags) -> Iterator[Playing]:
    common, placement = flags[Common], placed(flags)
    with open_engine(common.engine, common.certificates(), common.devices) as engine:
        yield Playing(Study(APP, flags, engine), placement)
