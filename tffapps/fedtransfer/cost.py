"""What a command costs: see `tffapps.estimate`."""

import numpy as np
import tensorflow as tf

from models import unet
from preprocessing.pix2pix import Training
from preprocessing.pix2pix_settings import settings_for
from tffapps import Common, Flags, Pool
from tffapps.estimate import Cost, Steps, Work
from tffapps.fedtransfer import (
    ExchangeSettings,
    GeneratorSettings,
    SeparateSettings,
    StandinSettings,
    TileSettings,
    TogetherSettings,
    UNetSettings,
)
from tffapps.measured_networks import keras_steps, png_bytes


def costs(flags: Flags, pool: Pool) -> list[Cost]:
    """`pool` has a row for each tile, divided as for the first fold."""
    common, settings, methods = flags[Common], flags[UNetSettings], flags[Common].methods
    precisions = len(flags[ExchangeSettings].generator_precision)
    alone, together = flags[SeparateSettings].alone_rounds, flags[TogetherSettings].rounds
    clients = pool.table.client.nunique()
    train, valid, test = (int((pool.table.split == split).sum()) for split in ("train", "val", "test"))
    training, inference, runs = 0.0, 0.0, 0

    def count(times: int, rounds: int, images: float, validated: float) -> None:
        """`times` runs, each of so many images."""
        nonlocal training, inference, runs
        training += times * rounds * settings.epochs * images
        inference += times * (rounds * validated + test)
        runs += times

    if "separate" in methods:
        count(clients, alone, train / clients, valid / clients)
    for method in ("centralised", "fedavg"):
        if method in methods:
            count(1, together, train, valid)
    if "repeated" in methods:
        count(1, together, clients * train, valid)
    if "fedtransfer" in methods:
        count(precisions, together, clients * train, valid)
    times = len(common.seeds) * flags[TileSettings].folds
    size, channels = _size(flags), flags[TileSettings].channels
    network = _unet(settings, size, channels)
    # Of every run the last round and the one that validation chose stay.
    found = [Cost("U-Nets", network, times * training, times * inference, checkpoints=2 * times * runs)]
    if "fedtransfer" in methods:
        painted = times * precisions * (clients - 1) * train
        found.append(
            Cost(
                "generators",
                _generator(flags[GeneratorSettings], size, channels),
                training=times * flags[GeneratorSettings].generator_epochs * train,
                inference=painted,
                checkpoints=times * clients * (1 + precisions),
                bytes=png_bytes(painted, size),
            )
        )
    return found


def _size(flags: Flags) -> int:
    """Pixels on a side of a tile; of --tile 0, which is as large as the micrographs are, a guess."""
    settings = flags[TileSettings]
    return settings.size or settings.tile or flags[StandinSettings].standin_size


def _unet(settings: UNetSettings, size: int, channels: int) -> Work:
    def make() -> Steps:
        model = unet.build(input_shape=(size, size, channels), width=settings.width, depth=settings.depth)
        return keras_steps(model, lambda outputs: tf.reduce_mean(outputs**2))

    return Work(f"U-Net of width {settings.width}, {size} pixels", make)


def _generator(settings: GeneratorSettings, size: int, channels: int) -> Work:
    def make() -> Steps:
        images = np.random.default_rng(0).integers(0, 256, (settings.generator_batch, size, size, channels), np.uint8)
        labels = (images[..., 0] > 200).astype(np.uint8)
        chosen = settings_for(settings.generator, width=settings.generator_width, batch=len(images), epochs=1)
        training = Training(images, labels, chosen)
        signs = tf.constant(labels[..., np.newaxis] * 2.0 - 1.0, tf.float32)

        def train() -> None:
            training.record.clear()
            training.run()

        weights = 4 * training.generator.count_params()
        return Steps(len(images), train, lambda: training.generator(signs), weights)

    return Work(f"pix2pix {settings.generator} of width {settings.generator_width}, {size} pixels", make)
