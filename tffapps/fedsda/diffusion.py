"""Training the federation's model of its stains: a TFF federation of its own, measured as it goes."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from models import ddpm, stain_diffusion
from tffapps import cli, fedsda
from tffapps.engine import Engine
from tffapps.engine.values import AtSite
from tffapps.errors import UserError
from tffapps.federated.cohort import Client, stream
from tffapps.federated.denoising import Denoising, NoiselessData, denoising_task
from tffapps.federated.moments import Moments, federated_moments
from tffapps.federated.round import Round, build_round
from tffapps.federated.training import train
from tffapps.fedsda import LEARNING_SEED, StainFlags, stain_model
from tffapps.fedsda.stain_source import StainSource
from tffapps.runs import Run
from tffapps.settings import as_dict, pick


@dataclasses.dataclass(frozen=True)
class StainModel:
    """G: draws stain matrices of any client of the federation."""

    clients: tuple[str, ...]
    denoiser: tf.keras.Model
    weights: list[np.ndarray]
    moments: Moments
    steps: int

    def draw(self, numbers: np.ndarray, seed: int) -> np.ndarray:
        """A matrix (3, 2) for each client's number (n)."""
        self.denoiser.set_weights(self.weights)
        return stain_model.draw(self.denoiser, numbers, self.moments, seed=seed, steps=self.steps)


@dataclasses.dataclass(frozen=True)
class Learned:
    model: StainModel
    block: str
    epochs: int
    rounds: pd.DataFrame  # fd and wd by round, where they were measured


class Diffusion:
    """All trainings of denoisers of one command; those alike share their round."""

    def __init__(self, values: dict[str, Any], engine: Engine) -> None:
        self._values, self._engine = values, engine
        self._flags: StainFlags = pick(StainFlags, values)
        self._built: dict[Any, tuple[tf.keras.Model, Round]] = {}

    def learn(
        self, clients: Sequence[str], sources: Sequence[StainSource], block: str, fold: str, epochs: int = 0
    ) -> Learned:
        """From each client's stains. With `epochs`, other than the usual, about as many epochs in all."""
        flags = self._flags
        rounds = flags.diffusion_rounds
        if epochs:
            rounds = min(max(1, -(-flags.diffusion_rounds * flags.diffusion_epochs // epochs)), flags.sweep_rounds)
        epochs = epochs or flags.diffusion_epochs
        method = Denoising(
            optimizer="adamw",
            learning_rate=flags.diffusion_learning_rate,
            weight_decay=flags.diffusion_weight_decay,
            schedule_steps=flags.diffusion_steps,
            equal=flags.diffusion_equal,
        )
        tables = [AtSite(client, source.table()) for client, source in zip(clients, sources)]
        moments = federated_moments(tables, stain_diffusion.NUMBERS)
        denoiser, round_ = self._round(block, len(clients), method)
        settings = {
            **as_dict(method), "method": "stains", "seed": LEARNING_SEED, "block": block, "rounds": rounds,
            "epochs": epochs, "batch": flags.diffusion_batch, "over_rounds": flags.diffusion_schedule,
            "fd_samples": flags.fd_samples, "fd_points": flags.fd_points,
            "stains": hashlib.sha256(" ".join(source.key for source in sources).encode()).hexdigest()[:16],
        }  # fmt: skip
        name = f"stains-{block}-{epochs}-epochs" + (f"-without-{fold}" if fold else "")
        with cli.open_run(fedsda.APP, self._values, name, settings) as run:
            weights = self._train(run, denoiser, round_, clients, sources, moments, rounds, epochs)
            if not run.finished:
                run.finish({"fd": float(run.rounds().fd.iloc[-1])})
            model = StainModel(tuple(clients), denoiser, weights, moments, flags.diffusion_steps)
            return Learned(model, block, epochs, run.rounds())

    def _train(
        self,
        run: Run,
        denoiser: tf.keras.Model,
        round_: Round,
        clients: Sequence[str],
        sources: Sequence[StainSource],
        moments: Moments,
        rounds: int,
        epochs: int,
    ) -> list[np.ndarray]:
        stain_diffusion.start(denoiser, LEARNING_SEED)
        every = max(1, rounds // self._flags.fd_points)

        def evaluate(weights: list[np.ndarray], number: int) -> dict[str, float]:
            if number % every and number != rounds:
                return {"fd": np.nan, "wd": np.nan, "worst_fd": np.nan}
            denoiser.set_weights(weights)
            return self._distances(denoiser, sources, moments)

        cosine = self._flags.diffusion_schedule == "cosine"

        def rate(number: int) -> float:
            return 0.5 * (1 + math.cos(math.pi * (number - 1) / rounds)) if cosine else 1.0

        sites = [
            Client(client, self._data(source, moments, place, epochs, rate))
            for place, (client, source) in enumerate(zip(clients, sources))
        ]
        return train(
            run, round_, denoiser.get_weights(), sites, rounds=rounds, evaluate=evaluate, engine=self._engine,
            min_clients=self._values["min_clients"], headline="fd", tensorboard=self._values["tensorboard"],
        )  # fmt: skip

    def _data(
        self, source: StainSource, moments: Moments, place: int, epochs: int, rate: Callable[[int], float]
    ) -> Callable[[int], NoiselessData]:
        def data(number: int) -> NoiselessData:
            seed = stream(LEARNING_SEED, number, place)
            return source.data(moments, batch=self._flags.diffusion_batch, epochs=epochs, seed=seed, rate=rate(number))

        return data

    def _distances(
        self, denoiser: tf.keras.Model, sources: Sequence[StainSource], moments: Moments
    ) -> dict[str, float]:
        """Of drawn from real stains: means and worst over clients."""
        numbers = np.repeat(np.arange(len(sources)), self._flags.fd_samples)
        drawn = stain_model.sample_standardised(denoiser, numbers, LEARNING_SEED, self._flags.diffusion_steps)
        if not np.isfinite(drawn).all():
            raise UserError("the stain model draws numbers that are not finite: lower --diffusion-learning-rate")
        sets = [drawn[numbers == place] for place in range(len(sources))]
        with ThreadPoolExecutor(len(sources)) as pool:  # sites, if they are, work at the same time
            found = list(pool.map(lambda source, own: source.distances(own, moments), sources, sets))
        return {
            "fd": float(np.mean([one.fd for one in found])),
            "wd": float(np.mean([one.wd for one in found])),
            "worst_fd": float(np.max([one.fd for one in found])),
        }

    def _round(self, block: str, clients: int, method: Denoising) -> tuple[tf.keras.Model, Round]:
        key = (block, clients, method)
        if key not in self._built:
            schedule = ddpm.scaled(self._flags.diffusion_steps)
            denoiser = stain_diffusion.build(block, clients=clients, schedule=schedule)
            self._built[key] = denoiser, build_round(denoising_task(denoiser, stain_diffusion.NUMBERS), method)
        return self._built[key]
