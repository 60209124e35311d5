"""CCST for a federation: a decoder that all clients train together, and every client's style.

No image leaves a client: what is sent are the decoder's weights, by FedAvg, and each client's style, two numbers for
each channel of VGG-19's relu4_1. Both are kept with the runs and used again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from models import adain as networks
from models import vgg
from models.weights import WeightsError
from preprocessing import adain
from tffapps import cli, fedsda
from tffapps.data import pipeline
from tffapps.data.made import stacks
from tffapps.engine import Engine
from tffapps.errors import UserError
from tffapps.federated.cohort import Client, stream
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import Round, build_round
from tffapps.federated.task import Task
from tffapps.federated.training import train
from tffapps.fedsda import LEARNING_SEED, SideFlags
from tffapps.fedsda.data import Fold
from tffapps.settings import as_dict, pick

_IMAGES = 32  # encoded at once for a style


class StyleTransfer:
    """The encoder, and the round that trains its decoder: built once for all folds."""

    def __init__(self, values: dict[str, Any], engine: Engine) -> None:
        self._values, self._engine = values, engine
        self._flags: SideFlags = pick(SideFlags, values)
        self.encoder = vgg.build(networks.LAYER, width=self._flags.ccst_width)
        try:
            used = vgg.load(self.encoder, self._flags.ccst_weights, seed=LEARNING_SEED)
        except WeightsError as error:
            raise UserError(f"--ccst-weights: {error}") from error
        self.weights, self._sha256 = used.label, used.sha256
        scale = networks.scale_of(self.encoder)
        self._decoder = networks.decoder(self._flags.ccst_width, LEARNING_SEED, scale)
        self._start = self._decoder.get_weights()
        self._model = adain.training_model(self.encoder, self._decoder)
        self._method = FedAvg(optimizer="adam", learning_rate=self._flags.ccst_learning_rate)
        self._round: Round | None = None

    def learn(self, fold: Fold, data_key: str, formats: tuple[str, ...]) -> Learned:
        """The decoder and the styles of a federation."""
        flags, size = self._flags, (self._flags.ccst_size, self._flags.ccst_size)
        settings = {
            **as_dict(self._method), "method": "ccst-decoder", "seed": LEARNING_SEED, "data": data_key,
            "fold": fold.name, "rounds": flags.ccst_rounds, "batch": flags.ccst_batch, "size": flags.ccst_size,
            "width": flags.ccst_width, "weights": self.weights, "weights_sha256": self._sha256,
        }  # fmt: skip
        if self._round is None:
            spec = pipeline.element_spec(size, 3)
            self._round = build_round(Task.of_batches(self._model, spec, adain.loss_is_output), self._method)

        def client(place: int, name: str) -> Client:
            paths = list(fold.train.path[fold.train.client == name])

            def batches(number: int) -> tf.data.Dataset:
                return pipeline.batches(
                    paths, np.zeros(len(paths)), size=size, channels=3, batch=flags.ccst_batch,
                    seed=stream(LEARNING_SEED, number, place), formats=formats,
                )  # fmt: skip

            return Client(name, batches)

        with cli.open_run(fedsda.APP, self._values, f"ccst-decoder-{fold.name}", settings) as run:
            weights = train(
                run, self._round, self._start, [client(*pair) for pair in enumerate(fold.clients)],
                rounds=flags.ccst_rounds, evaluate=lambda weights, number: {}, engine=self._engine,
                min_clients=self._values["min_clients"], tensorboard=self._values["tensorboard"],
            )  # fmt: skip
            if not run.finished:
                run.finish({"loss": float(run.rounds().training_loss.iloc[-1])})
        return Learned(self, weights, [self._style(fold, name) for name in fold.clients])

    def transfer(
        self, weights: Sequence[np.ndarray], stack: np.ndarray, mean: np.ndarray, std: np.ndarray
    ) -> np.ndarray:
        self._decoder.set_weights(weights)
        return adain.transfer(self.encoder, self._decoder, stack, mean, std, self._flags.ccst_alpha)

    def _style(self, fold: Fold, client: str) -> adain.Style:
        paths = list(fold.train.path[fold.train.client == client])
        return adain.style_of(self.encoder, (stack for _, stack in stacks(paths, batch=_IMAGES, rejects={})))


class Learned:
    """What CCST needs to give any image any client's style."""

    def __init__(self, network: StyleTransfer, weights: list[np.ndarray], styles: list[adain.Style]) -> None:
        self._network, self._weights, self._styles = network, weights, styles
        parts = [*weights, *(part for style in styles for part in style), *network.encoder.get_weights()]
        self.key = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]

    def transfer(self, stack: np.ndarray, clients: np.ndarray) -> np.ndarray:
        """uint8 images (n, height, width, 3) in the styles of these clients (n), by their numbers."""
        mean = np.stack([self._styles[client].mean for client in clients])
        std = np.stack([self._styles[client].std for client in clients])
        return self._network.transfer(self._weights, stack, mean, std)
