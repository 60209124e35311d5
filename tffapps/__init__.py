"""Federated learning for images: five published systems on TensorFlow Federated and Keras.

What a system of your own needs is here by name; each is imported when it is first asked for, so that
`import tffapps` takes no time.
"""

from __future__ import annotations

import atexit
import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tffapps.app import CHOSEN, LAST, OF_PAPER, VALIDATION, App, Common
    from tffapps.classifier import Classifier
    from tffapps.data.pool import STANDIN, Pool
    from tffapps.data.splits import Split
    from tffapps.engine import Engine, open_engine
    from tffapps.errors import Rejected, RunStopped, UserError
    from tffapps.evaluation.evaluator import Evaluator, Metrics, PredictionEvaluator, Trained
    from tffapps.evaluation.predictions import Predictions, TestImages
    from tffapps.federated.aggregation import Aggregation
    from tffapps.federated.cohort import Client, stream
    from tffapps.federated.fedavg import FedAvg
    from tffapps.federated.method import Method
    from tffapps.federated.methods import FEW_LABELS, METHODS, PLAYED
    from tffapps.federated.retraining import Retraining
    from tffapps.federated.task import Task, cross_entropy
    from tffapps.federated.unequal import ClassBalance
    from tffapps.figures import Canvas, curves, picture
    from tffapps.files import as_name, from_name, replacing, short
    from tffapps.finished import with_earlier
    from tffapps.home import cache_folder, data_folder
    from tffapps.inputs import PLAIN, Inputs, engine_options
    from tffapps.network import DEMO_NETWORK, MODEL, MODEL_HELP, CutSettings, Network
    from tffapps.results import over_seeds, with_paper, write_table
    from tffapps.runs import key_of, name_of
    from tffapps.settings import Flags, setting
    from tffapps.study import Initial, Record, Study, Trial
    from tffapps.tuning import Tuner
    from tffapps.wire.messages import Message, understood

__version__ = "0.3.0"
_NAMES = {  # by the module they are from
    "app": "App CHOSEN Common LAST OF_PAPER VALIDATION",
    "classifier": "Classifier",
    "data.pool": "Pool STANDIN",
    "data.splits": "Split",
    "engine": "Engine open_engine",
    "errors": "Rejected RunStopped UserError",
    "evaluation.evaluator": "Evaluator Metrics PredictionEvaluator Trained",
    "evaluation.predictions": "Predictions TestImages",
    "federated.aggregation": "Aggregation",
    "federated.cohort": "Client stream",
    "federated.fedavg": "FedAvg",
    "federated.method": "Method",
    "federated.methods": "FEW_LABELS METHODS PLAYED",
    "federated.retraining": "Retraining",
    "federated.task": "Task cross_entropy",
    "federated.unequal": "ClassBalance",
    "figures": "Canvas curves picture",
    "finished": "with_earlier",
    "files": "as_name from_name replacing short",
    "home": "cache_folder data_folder",
    "inputs": "Inputs PLAIN engine_options",
    "network": "DEMO_NETWORK MODEL MODEL_HELP CutSettings Network",
    "results": "over_seeds with_paper write_table",
    "runs": "key_of name_of",
    "settings": "Flags setting",
    "study": "Initial Record Study Trial",
    "tuning": "Tuner",
    "wire.messages": "Message understood",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@atexit.register
def _replace_default_context() -> None:
    """Before Python takes its modules apart: TFF's own default context needs some of them to end."""
    if "tensorflow_federated" in sys.modules:
        from tffapps.engine import replace_default_context

        replace_default_context()
