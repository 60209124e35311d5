"""The messages of TFF's wire format and of TensorFlow's graphs, without importing either: in no time.

A site's own process reads what passes it and computes nothing, so it needs neither. The modules of the messages are
imported from folders that stand for the two packages while this file is read, and forgotten again: whoever imports the
packages later gets them whole.
"""

import importlib
import importlib.util
import sys
import types
from typing import Any

_PACKAGES = ("tensorflow", "tensorflow_federated")


def _load(*names: str) -> list[Any]:
    before = set(sys.modules)
    missing = [name for name in _PACKAGES if name not in sys.modules]
    for name in missing:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}; run set-up again")
        stand_in = types.ModuleType(name)
        stand_in.__path__ = list(spec.submodule_search_locations or [])
        sys.modules[name] = stand_in
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in missing:
                del sys.modules[name]


array_pb2, computation_pb2, executor_pb2, graph_pb2, data_type_pb2 = _load(
    "tensorflow_federated.proto.v0.array_pb2",
    "tensorflow_federated.proto.v0.computation_pb2",
    "tensorflow_federated.proto.v0.executor_pb2",
    "tensorflow.core.framework.graph_pb2",
    "tensorflow_federated.proto.v0.data_type_pb2",
)
