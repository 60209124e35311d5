"""Stain models that learn from stains which a test knows."""

from __future__ import annotations

from tffapps import cli
from tffapps.fedsda import APP
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.diffusion import StainModels
from tffapps.fedsda.stain_source import LocalStains
from tffapps.study import Study

WHOLE = Fold(FEDERATION, None, None)
_BUILT: dict = {}


class KnownStains:
    """A placement that has given matrices, by fold: a list of (client, matrices)."""

    def __init__(self, by_fold):
        self._by_fold = by_fold

    def sources(self, fold):
        return local(self._by_fold[fold.name])


def local(clients):
    return [LocalStains(client, matrices) for client, matrices in clients]


def stain_models(engine, results, flags, **by_fold):
    """A command's; equal networks and rounds, which take seconds to build, are shared between the tests."""
    study = Study(APP, cli.parse(APP, [*flags, "--results", str(results)]), engine)
    models = StainModels(study, KnownStains(by_fold))
    models._tasks, study._rounds = _BUILT.setdefault(models.settings.diffusion_steps, ({}, {}))
    return models
