"""The U-Net of a command: its initial weights, and tiles as it sees them."""

from typing import NoReturn

import pandas as pd
import tensorflow as tf

from models import unet
from models.weights import WeightsError, fill, fitting_whole
from preprocessing.erasing import Erasing
from preprocessing.turns import Turns
from tffapps import Initial, UserError
from tffapps.data import images, pipeline
from tffapps.fedtransfer import CUT, UNetSettings
from tffapps.fedtransfer.data import FORMATS
from tffapps.use.bundle import Preprocess
from tffapps.use.network import UNET, Description
from tffapps.use.recipe import Halves, Recipe

CLASSES = ("grain", "boundary")  # as models.unet counts them


class Network:
    """For tiles of this height and width; rows have the paths of tiles and of masks."""

    def __init__(self, settings: UNetSettings, size: tuple[int, int], channels: int) -> None:
        self._settings = settings
        self._reader = images.Reader(size, channels, FORMATS)
        self._mask_reader = images.MaskReader(size, FORMATS)
        self._augment = Erasing(settings.erasing) if settings.erasing else None
        self._augment_both = None if settings.augment == "none" else Turns(light=settings.augment == "light")
        self.spec = tf.TensorSpec((None, *size, channels), tf.float32), tf.TensorSpec((None, *size), tf.int32)
        self.model = unet.build(input_shape=(*size, channels), width=settings.width, depth=settings.depth)
        self.loss = unet.segmentation_loss(settings.boundary_weight)
        self.chooses = settings.grains != CUT  # how grains are found, by validation tiles

    def initial(self, weights: str, seed: int) -> Initial:
        """What a seed's runs begin with: random weights, or those of a file."""
        try:
            used = fill(self.model, weights, seed, _no_imagenet, fitting_whole)
        except WeightsError as error:
            raise UserError(f"--weights: {error}") from error
        return Initial(self.model.get_weights(), {"weights": used.label, "weights_sha256": used.sha256})

    def recipe(self, data: str, tile: int, initial: Initial) -> Recipe:
        """Of the bundle of a run: `tile` is the side of the squares that micrographs are cut into."""
        height, width, channels = self.model.input_shape[1:]
        values = {"width": self._settings.width, "depth": self._settings.depth}
        network = Description(UNET, values, (height, width, channels), len(CLASSES))
        return Recipe(
            network, CLASSES, Preprocess((height, width), channels, tile=tile),
            lambda weights: Halves([], list(weights)), data, str(initial.identity["weights"]),
        )  # fmt: skip

    def batches(self, rows: pd.DataFrame, seed: int) -> tf.data.Dataset:
        """To train with."""
        return pipeline.of_files(
            list(rows.path), list(rows["mask"]), self._reader, batch=self._settings.batch,
            epochs=self._settings.epochs, seed=seed, augment=self._augment, read_label=self._mask_reader,
            augment_both=self._augment_both,
        )  # fmt: skip

    def in_order(self, rows: pd.DataFrame) -> tf.data.Dataset:
        """To validate and test with."""
        return pipeline.of_files(
            list(rows.path), list(rows["mask"]), self._reader, batch=self._settings.batch, shuffle=False,
            read_label=self._mask_reader,
        )  # fmt: skip


def _no_imagenet() -> NoReturn:
    raise WeightsError("a U-Net has no ImageNet weights; choose --weights random or --weights FILE")
