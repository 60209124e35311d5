"""What is done to an image before a network sees it, as a bundle stores it: bytes of a file to bytes of a file.

    knee         preprocessing.knee, with its settings
    amplitude    preprocessing.amplitude: the mean amplitude of the training images, in a file of the bundle

A step rejects an image that it cannot prepare, and says why.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from preprocessing.errors import Rejected
from preprocessing.knee_settings import KneeSettings
from tffapps.errors import UserError
from tffapps.use import arrays
from tffapps.use.fields import Fields
from tffapps.use.folder import Folder

_LARGEST = 10_000  # of a setting: a length in pixels, a grey level
AMPLITUDE_FILE, _AMPLITUDE = "amplitude.npz", "amplitude"


class Step(Protocol):
    def __call__(self, contents: bytes) -> bytes:
        """An image file's bytes, prepared. Raises `Rejected`."""

    def as_json(self) -> dict[str, Any]: ...

    def arrays(self) -> Mapping[str, dict[str, np.ndarray]]:
        """What lies beside the description: file → arrays."""


@dataclasses.dataclass(frozen=True)
class Knee:
    """The knee is cut out of an X-ray and its contrast raised."""

    settings: KneeSettings

    def __call__(self, contents: bytes) -> bytes:
        import cv2

        from preprocessing.knee import preprocess_bytes

        try:
            return preprocess_bytes(contents, **dataclasses.asdict(self.settings))
        except cv2.error as error:
            raise Rejected(f"cannot be prepared: OpenCV says {' '.join(error.err.split())}") from None

    def as_json(self) -> dict[str, Any]:
        return {"step": "knee", "settings": dataclasses.asdict(self.settings)}

    def arrays(self) -> Mapping[str, dict[str, np.ndarray]]:
        return {}


@dataclasses.dataclass(frozen=True, eq=False)
class Amplitude:
    """Every image gets the amplitude that all training images have on average (amp-norm)."""

    mean: np.ndarray  # float32 (height, width, 3)
    band: float = 0.5  # L, the share of a side that frequencies are replaced up to

    def __call__(self, contents: bytes) -> bytes:
        from preprocessing import amplitude
        from tffapps.data import made

        try:
            return made.encode(amplitude.normalise(made.decode(contents)[None], self.mean, self.band)[0])
        except ValueError as error:  # of another size
            raise Rejected(str(error)) from None

    def as_json(self) -> dict[str, Any]:
        return {"step": "amplitude", "band": self.band}

    def arrays(self) -> Mapping[str, dict[str, np.ndarray]]:
        return {AMPLITUDE_FILE: {_AMPLITUDE: self.mean}}


def read(fields: Fields, folder: Folder) -> Step:
    """One step of a bundle; a UserError where there is none like it."""
    if fields.text("step", ("knee", "amplitude")) == "knee":
        return Knee(_knee_settings(fields.part("settings")))
    mean = arrays.read(folder, AMPLITUDE_FILE, {_AMPLITUDE: (None, None, 3)})[_AMPLITUDE]
    if mean.min() < 0:
        raise UserError(f"{folder.path / AMPLITUDE_FILE}: holds values that are no amplitudes; fetch the bundle again")
    whole = "band" not in fields.names  # of a bundle from before there were bands
    return Amplitude(mean) if whole else Amplitude(mean, fields.number("band", 0, 0.5))


def _knee_settings(fields: Fields) -> KneeSettings:
    kinds = typing.get_type_hints(KneeSettings)
    if set(fields.names) != set(kinds):
        fields.refuse(next(iter(set(fields.names) ^ set(kinds))), f"the settings {', '.join(kinds)}")
    values: dict[str, Any] = {}
    for name, kind in kinds.items():
        if kind is str:
            values[name] = fields.text(name)
        elif kind is bool:
            values[name] = fields.flag(name)
        else:
            number = fields.number(name, -_LARGEST, _LARGEST)
            values[name] = number if kind is float else fields.whole(name, -_LARGEST, _LARGEST)
    try:
        return KneeSettings(**values)
    except ValueError as error:
        raise UserError(f"{fields.where}: {error}; fetch the bundle again") from None
