"""TensorFlow and NumPy for modules that `--help` reads: imported when something of it is first used.

Flags are made from the methods' classes, so their modules must not wait for TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf
    import tensorflow_federated as tff

__all__ = ["np", "tf", "tff"]


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


if not TYPE_CHECKING:
    np, tf, tff = _Lazy("numpy"), _Lazy("tensorflow"), _Lazy("tensorflow_federated")
