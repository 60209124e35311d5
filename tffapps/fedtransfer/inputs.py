"""The U-Net of a run, and tiles as it sees them."""

from __future__ import annotations

import pandas as pd
import tensorflow as tf

from models import unet
from preprocessing.erasing import Erasing
from tffapps.data import images, pipeline
from tffapps.fedtransfer import Settings


class Inputs:
    """For tiles of this height and width; rows have the paths of tiles and of masks."""

    def __init__(self, settings: Settings, size: tuple[int, int]) -> None:
        self._settings = settings
        self._reader = images.Reader(size, settings.channels, ("png",))  # tiles and what is painted
        self._mask_reader = images.MaskReader(size, ("png",))
        self.spec = (
            tf.TensorSpec((None, *size, settings.channels), tf.float32),
            tf.TensorSpec((None, *size), tf.int32),
        )
        self.model = unet.build(input_shape=(*size, settings.channels), width=settings.width, depth=settings.depth)
        self.loss = unet.segmentation_loss(settings.boundary_weight)

    def batches(self, rows: pd.DataFrame, seed: int) -> tf.data.Dataset:
        """To train with."""
        augment = Erasing(self._settings.erasing) if self._settings.erasing else None
        return pipeline.of_files(
            list(rows.path), list(rows["mask"]), self._reader, batch=self._settings.batch,
            epochs=self._settings.epochs, seed=seed, augment=augment, read_label=self._mask_reader,
        )  # fmt: skip

    def in_order(self, rows: pd.DataFrame) -> tf.data.Dataset:
        return pipeline.of_files(
            list(rows.path), list(rows["mask"]), self._reader, batch=self._settings.batch, shuffle=False,
            read_label=self._mask_reader,
        )  # fmt: skip
