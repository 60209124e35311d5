"""What a command costs: see `tffapps.estimate`."""

from tffapps import Common, Flags, Pool, grids
from tffapps.classify import APP, REFERENCES, ClassifySettings
from tffapps.estimate import Cost
from tffapps.measured_networks import classifiers, inputs_of

_GRADIENTS = {"fedsam": 2, "ditto": 2, "moon": 2, "semifl": 2, "fl2": 3}  # in a step, and what costs as much


def costs(flags: Flags, pool: Pool) -> list[Cost]:
    common, settings = flags[Common], flags[ClassifySettings]
    seeds = len(common.seeds) * common.split_count
    if common.tune:
        seeds += len(grids.parse(common.tune, APP)) * common.split_count
    train, test = len(pool.part("train")), len(pool.part("test"))
    alone = len(pool.clients) if "separate" in common.methods else 0
    steps = sum(_GRADIENTS.get(method, 1) for method in common.methods)
    runs = alone + len([method for method in common.methods if method != REFERENCES[0]])
    return classifiers(
        inputs_of(flags, len(pool.classes), settings.channels),
        training=seeds * steps * settings.rounds * settings.epochs * train,
        inference=seeds * runs * settings.rounds * test,
        runs=seeds * runs,
        images=len(pool.table),
    )
