"""Federated learning for images: five published systems on TensorFlow Federated and Keras.

What a system of your own needs is here by name; each is imported when it is first asked for, so that
`import tffapps` takes no time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tffapps.app import App, Common
    from tffapps.data.pool import Pool
    from tffapps.engine import open_engine
    from tffapps.errors import UserError
    from tffapps.federated.method import Method
    from tffapps.settings import Flags, setting
    from tffapps.study import Initial, Record, Study, Trial

__version__ = "0.2.0"
__all__ = [
    "App", "Common", "Flags", "Initial", "Method", "Pool", "Record", "Study", "Trial", "UserError", "__version__",
    "open_engine", "setting",
]  # fmt: skip

_MODULES = {
    "App": "app",
    "Common": "app",
    "Flags": "settings",
    "Initial": "study",
    "Method": "federated.method",
    "Pool": "data.pool",
    "Record": "study",
    "Study": "study",
    "Trial": "study",
    "UserError": "errors",
    "open_engine": "engine",
    "setting": "settings",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
