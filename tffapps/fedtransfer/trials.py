"""The work behind `tffapps.fedtransfer`: tiles → generators → painted images → federations of U-Nets → tables."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping

import pandas as pd

from tffapps import (
    Aggregation,
    Client,
    Common,
    FedAvg,
    Flags,
    Initial,
    Study,
    Task,
    Trial,
    name_of,
    open_engine,
    stream,
    with_earlier,
)
from tffapps.data.pool import subjects_in
from tffapps.fedtransfer import (
    ALL_DATA,
    APP,
    FEDERATION,
    ExchangeSettings,
    GeneratorSettings,
    SeparateSettings,
    TileSettings,
    TogetherSettings,
    UNetSettings,
    figures,
    look,
    tables,
)  # fmt: skip
from tffapps.fedtransfer.data import Tiles
from tffapps.fedtransfer.evaluator import GrainEvaluator, ScoringHere
from tffapps.fedtransfer.exchange import Made, exchange
from tffapps.fedtransfer.network import Network
from tffapps.fedtransfer.placement import AtSites, Here, Placement


def run(flags: Flags) -> None:
    """Plays every method on every seed and fold, and writes the tables and figures."""
    common, folder = flags[Common], APP.folder(flags)
    # Files that cannot be used are found before an engine is started; sites look at theirs.
    here = None if common.across_sites else Here(flags)
    with open_engine(common.engine, common.certificates()) as engine:
        placement = here or AtSites(engine, flags)
        common.check_clients(len(placement.clients))
        study = Study(APP, flags, engine)
        trials = Trials(study, placement)
        for note in trials.folds[0].pool.notes:
            print(note, file=sys.stderr)
        played = [study.run(trial) for trial in trials.all()]
    records = with_earlier(APP, flags, played, {fold.pool.key for fold in trials.folds})
    tiles = trials.folds[0]
    what_ran = {
        "data": tiles.pool.name, "profile": flags.profile, "weights": trials.weights_used,
        "model": f"U-Net of width {flags[UNetSettings].width}, {tiles.size[1]}x{tiles.size[0]} pixels",
    }  # fmt: skip
    results = tables.Results(trials.folds, records, trials.made, what_ran)
    tables.write_all(folder, results, trials.looks() if here else [])
    figures.draw_all(folder, results)
    if here:
        figures.draw_images(
            folder, dataclasses.replace(results, records=played), ScoringHere(trials.network).boundaries
        )
    else:
        print("look.csv, looks.png, segmentations.png: left out, the images are at the sites", file=sys.stderr)


@dataclasses.dataclass(frozen=True)
class Cohort:
    """Who trains together, on what."""

    method: str
    site: str  # a client, ALL_DATA or FEDERATION
    training: Mapping[str, pd.DataFrame]  # by client: path, mask
    made: Made | None = None  # what of it is painted


class Trials:
    """All trials of one command: they share the network and the images painted."""

    def __init__(self, study: Study, placement: Placement) -> None:
        self._flags, self._common, self._placement = study.flags, study.common, placement
        self.folds = placement.folds()
        self._channels = self._flags[TileSettings].channels
        self.network = Network(self._flags[UNetSettings], self.folds[0].size, self._channels)
        self._task = Task.of_batches(self.network.model, self.network.spec, self.network.loss)
        self._scoring = placement.scoring(self.network)
        self._precisions = self._flags[ExchangeSettings].generator_precision
        self._initials: dict[int, Initial] = {}
        self.made: list[Made] = []

    @property
    def weights_used(self) -> str:
        return next(initial.identity["weights"] for initial in self._initials.values())

    def all(self) -> Iterator[Trial]:
        """Every method on every seed and fold; `separate` is a trial for each client."""
        for seed in self._common.seeds:
            for tiles in self.folds:
                for method in self._common.methods:
                    for cohort in self._cohorts(method, tiles, seed):
                        yield self._trial(cohort, tiles, seed)

    def looks(self) -> list[pd.DataFrame]:
        """What painted images look like, of those that stand for the method: of the first precision."""
        shown = [made for made in self.made if made.precision == self._precisions[0]]
        return [look.seen(self.folds[made.fold], made, self._channels) for made in shown]

    def _cohorts(self, method: str, tiles: Tiles, seed: int) -> Iterator[Cohort]:
        real = {client: tiles.part("train", client)[["path", "mask"]] for client in tiles.clients}
        if method == "separate":
            for client, rows in real.items():
                yield Cohort(method, client, {client: rows})
        elif method == "centralised":
            yield Cohort(method, ALL_DATA, {ALL_DATA: pd.concat(list(real.values()))})
        elif method == "fedavg":
            yield Cohort(method, FEDERATION, real)
        elif method == "repeated":
            # As often as with fedtransfer, where each of the others sends a generator that paints each label once.
            repeated = {client: pd.concat([rows] * len(tiles.clients)) for client, rows in real.items()}
            yield Cohort(method, FEDERATION, repeated)
        else:
            for precision in self._precisions:
                made = exchange(self._placement, tiles, precision, seed)
                self.made.append(made)
                painted = {client: made.table[made.table.client == client] for client in real}
                both = {client: pd.concat([rows, painted[client][["path", "mask"]]]) for client, rows in real.items()}
                yield Cohort(method, FEDERATION, both, made)

    def _trial(self, cohort: Cohort, tiles: Tiles, seed: int) -> Trial:
        method, site, made = cohort.method, cohort.site, cohort.made
        precision = made.precision if made else ""
        fold, split = "", dict[str, str]()
        if len(self.folds) > 1:
            fold, split = f"fold{tiles.fold}", {"split": f"r0f{tiles.fold}"}
        name = name_of(method, "" if site == FEDERATION else site, precision, fold, f"seed{seed}")
        separate, together = self._flags[SeparateSettings], self._flags[TogetherSettings]
        alone = method == "separate"
        return Trial(
            labels={"method": method, "site": site, "precision": precision, "seed": seed, "fold": tiles.fold, **split},
            name=name,
            method=self._flags[FedAvg],
            task=self._task,
            clients=lambda: self._clients(cohort, seed),
            initial=self._initial(seed),
            rounds=separate.alone_rounds if alone else together.rounds,
            evaluator=GrainEvaluator(name, self._scoring, tiles, [site] if alone else tiles.clients),
            settings=[
                self._flags[TileSettings], self._flags[UNetSettings], separate if alone else together,
                *([self._flags[GeneratorSettings]] if made else []),
            ],
            data={"images": tiles.pool.key, **({"made": made.key} if made else {})},
            size=len(cohort.training),
            aggregation=self._flags[Aggregation] if site == FEDERATION else Aggregation(),
            min_clients=self._common.min_clients if site == FEDERATION else 1,
            bundle=self.network.recipe(tiles.pool.name, self._flags[TileSettings].tile, self._initial(seed)),
            trained=subjects_in(tiles.part("train", site if alone else None)),
        )  # fmt: skip

    def _clients(self, cohort: Cohort, seed: int) -> list[Client]:
        epochs = self._flags[UNetSettings].epochs

        def client(position: int, name: str, rows: pd.DataFrame) -> Client:
            return Client(
                name, lambda number: self.network.batches(rows, stream(seed, number, position)),
                examples=epochs * len(rows), passes=epochs * int(rows.path.value_counts().max()),
            )  # fmt: skip

        return [client(position, name, rows) for position, (name, rows) in enumerate(cohort.training.items())]

    def _initial(self, seed: int) -> Initial:
        """Held once for all trials of a seed: a U-Net of full width has 120 MB."""
        if seed not in self._initials:
            self._initials[seed] = self.network.initial(self._common.weights, seed)
        return self._initials[seed]
