"""Training the federation's model of its stains: a TFF federation of its own, measured as it goes."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from models import ddpm, stain_diffusion
from tffapps import Client, Initial, Metrics, Record, Study, Task, Trained, Trial, UserError, name_of, stream
from tffapps.federated.denoising import Denoising, NoiselessData, denoising_task
from tffapps.federated.moments import Moments
from tffapps.federated.robust_denoising import RobustDenoising
from tffapps.fedsda import (
    DRIFT_ROBUST,
    GAUSSIAN_DP,
    LEARNING_SEED,
    SeparationSettings,
    StainModelSettings,
    StainStudySettings,
    stain_model,
)
from tffapps.fedsda.data import Fold
from tffapps.fedsda.placement import Placement
from tffapps.fedsda.private_stains import NoisedStains
from tffapps.fedsda.stain_mixtures import STATISTICS, StainStatistics
from tffapps.fedsda.stain_source import FederationStains
from tffapps.fedsda.stain_vectors import DISTANCES

_METRICS = (*DISTANCES, "worst_fd")


@dataclasses.dataclass(frozen=True)
class StainModel:
    """G: draws stain matrices of any client of a federation."""

    denoiser: tf.keras.Model  # shared with others: it is given the weights when it is used
    moments: Moments
    steps: int
    clients: int
    record: Record  # of its training: labels `block` and `epochs`; distances where they were measured

    @property
    def block(self) -> str:
        return self.record["block"]

    @property
    def epochs(self) -> int:
        return self.record["epochs"]

    @property
    def rounds(self) -> int:
        return int(self.record.rounds["round"].iloc[-1])

    @property
    def parameters(self) -> int:
        return self.denoiser.count_params()

    @property
    def scores(self) -> dict[str, float]:
        """Distances after the last round."""
        last = self.record.rounds.iloc[-1]
        return {name: float(last[name]) for name in _METRICS if name in last}

    def draw(self, numbers: np.ndarray, seed: int) -> np.ndarray:
        """A matrix (3, 2) for each client's number (n)."""
        self.denoiser.set_weights(self.record.weights())
        return stain_model.draw(self.denoiser, numbers, self.moments, seed=seed, steps=self.steps)


class StainModels:
    """All stain models of one command; those alike share a network and its round."""

    def __init__(self, study: Study, placement: Placement) -> None:
        self._study, self._placement = study, placement
        self.settings = study.flags[StainModelSettings]
        self._studies = study.flags[StainStudySettings]
        self._tasks: dict[tuple[str, int], Task] = {}  # by block and number of clients
        self._stains: dict[str, FederationStains] = {}  # by fold

    def of(self, fold: Fold, block: str = "") -> StainModel | StainStatistics:
        """The one that patches are aligned by, or the one of a block."""
        return self._of(fold, block or self.settings.used)

    def all(self, fold: Fold) -> list[StainModel | StainStatistics]:
        """That one, its rivals (Table 1) and its other schedules (Figure 7)."""
        used = self.settings.used
        blocks = [used, *(block for block in self.settings.blocks if block != used)]
        if self._study.common.across_sites:  # a site's gate does not let their fitting in
            blocks = [used, *(block for block in blocks[1:] if block not in STATISTICS)]
        denoisers = [block for block in blocks if block not in STATISTICS]
        others = [
            self.settings.with_epochs(epochs, self._studies.sweep_rounds)
            for epochs in self._studies.sweep_epochs
            if epochs != self.settings.diffusion_epochs
        ]
        swept = denoisers if self._studies.every_schedule else denoisers[:1]
        usual = [self._of(fold, block) for block in blocks]
        return usual + [self.learn(fold, block, schedule) for block in swept for schedule in others]

    def _of(self, fold: Fold, block: str) -> StainModel | StainStatistics:
        if block not in STATISTICS:
            return self.learn(fold, block)
        if self._study.common.across_sites:
            raise UserError(f"--stain-model {block}: cannot be had across sites; choose a denoiser")
        stains = self._measured(fold)
        fitted: StainStatistics
        if block == GAUSSIAN_DP:
            fitted = NoisedStains.released_by(stains, self.settings.stain_epsilon, self.settings.stain_delta)
        else:
            fitted = StainStatistics.of(block, stains, self.settings.mixture_components)
        numbers = np.repeat(np.arange(fitted.clients), self._studies.fd_samples)
        drawn = fitted.sample_standardised(numbers, LEARNING_SEED)
        return dataclasses.replace(fitted, scores=distances_of(drawn, numbers, stains))

    def learn(self, fold: Fold, block: str, settings: StainModelSettings | None = None) -> StainModel:
        """From each client's stains; with other settings than the usual if they are given."""
        trial = self.trial(fold, block, settings or self.settings)
        moments, steps = self._measured(fold).moments, self.settings.diffusion_steps
        return StainModel(trial.task.model, moments, steps, trial.size, self._study.run(trial))

    def trial(self, fold: Fold, block: str, settings: StainModelSettings) -> Trial:
        stains, epochs = self._measured(fold), settings.diffusion_epochs
        task = self._task("transformer" if block == DRIFT_ROBUST else block, len(stains.sources))
        stain_diffusion.start(task.model, LEARNING_SEED)
        return Trial(
            labels={"method": "stains", "seed": LEARNING_SEED, **fold.labels, "block": block, "epochs": epochs},
            name=name_of("stains", block, f"{epochs}-epochs", fold.labels.get("split", ""), fold.without),
            method=_method(block, settings, task),
            task=task,
            clients=lambda: [
                Client(source.client, functools.partial(_data, stains, settings, position))
                for position, source in enumerate(stains.sources)
            ],
            initial=Initial(task.model.get_weights(), {"weights": "random", "seed": LEARNING_SEED}),
            rounds=settings.diffusion_rounds,
            evaluator=StainEvaluator(task.model, stains, settings, self._studies),
            settings=[self._study.flags[SeparationSettings], settings, self._studies],
            data={"stains": stains.key},
            size=len(stains.sources),
            min_clients=self._study.common.min_clients,
        )

    def _task(self, block: str, clients: int) -> Task:
        if (block, clients) not in self._tasks:
            schedule = ddpm.scaled(self.settings.diffusion_steps)
            denoiser = stain_diffusion.build(block, clients=clients, schedule=schedule)
            self._tasks[block, clients] = denoising_task(denoiser, stain_diffusion.NUMBERS)
        return self._tasks[block, clients]

    def _measured(self, fold: Fold) -> FederationStains:
        if fold.identity not in self._stains:
            self._stains[fold.identity] = FederationStains.of(self._placement.sources(fold))
        return self._stains[fold.identity]


def _method(block: str, settings: StainModelSettings, task: Task) -> Denoising:
    options: dict[str, Any] = {
        "optimizer": "adamw",
        "learning_rate": settings.diffusion_learning_rate,
        "weight_decay": settings.diffusion_weight_decay,
        "schedule_steps": settings.diffusion_steps,
        "equal": settings.diffusion_equal,
    }
    if block != DRIFT_ROBUST:
        return Denoising(**options)
    names = [variable.name for variable in task.model.trainable_variables]
    (place,) = [number for number, name in enumerate(names) if stain_diffusion.CLIENT_EMBEDDING in name]
    return RobustDenoising(**options, mu=settings.diffusion_mu, embedding=place)


def _data(stains: FederationStains, settings: StainModelSettings, position: int, number: int) -> NoiselessData:
    """What the client at a position trains on in a round."""
    return stains.sources[position].data(
        stains.moments, batch=settings.diffusion_batch, epochs=settings.diffusion_epochs,
        seed=stream(LEARNING_SEED, number, position), rate=settings.rate(number),
    )  # fmt: skip


def distances_of(drawn: np.ndarray, numbers: np.ndarray, stains: FederationStains) -> dict[str, float]:
    """Of standardised vectors (n, 6) drawn for clients (n): means over clients, and the worst client's fd."""
    sources, moments = stains
    by_client = [drawn[numbers == number] for number in range(len(sources))]
    with ThreadPoolExecutor(len(sources)) as pool:  # sites, if they are, work at the same time
        distances = list(pool.map(lambda source, vectors: source.distances(vectors, moments), sources, by_client))
    means = {name: float(np.mean([each[name] for each in distances])) for name in DISTANCES}
    return {**means, "worst_fd": float(np.max([each["fd"] for each in distances]))}


@dataclasses.dataclass(frozen=True)
class StainEvaluator:
    """Distances of drawn from real stains every so many rounds, NaN between."""

    denoiser: tf.keras.Model
    stains: FederationStains
    settings: StainModelSettings
    studies: StainStudySettings
    headline: str = "fd"
    chosen_by: str = ""

    def evaluate(self, trained: Trained) -> Metrics:
        every = max(1, self.settings.diffusion_rounds // self.studies.fd_points)
        if trained.number % every and not trained.last:
            return dict.fromkeys(_METRICS, np.nan)
        self.denoiser.set_weights(trained.weights)
        return self.distances()

    def distances(self) -> Metrics:
        numbers = np.repeat(np.arange(len(self.stains.sources)), self.studies.fd_samples)
        steps = self.settings.diffusion_steps
        drawn = stain_model.sample_standardised(self.denoiser, numbers, LEARNING_SEED, steps)
        if not np.isfinite(drawn).all():
            raise UserError("the stain model draws numbers that are not finite: lower --diffusion-learning-rate")
        return distances_of(drawn, numbers, self.stains)

    def predicted(self, trained: Trained) -> pd.DataFrame:
        return pd.DataFrame()

    def summary(self, row: Mapping[str, Any], weights: Callable[[], list[np.ndarray]]) -> dict[str, Any]:
        return {"fd": float(row["fd"])}
