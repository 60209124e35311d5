"""What the engines use of TFF that `tff` does not export; everything else they use is exported.

- The messages of its wire format, which `remote` and `answers` write and read without TFF's own client.
- Block to block, what `tff.backends.test.replace_secure_intrinsics_with_bodies` does: the exported one goes through the
  serialised form, seconds for a large network.
"""

from tensorflow_federated.proto.v0 import array_pb2, computation_pb2, data_type_pb2, executor_pb2, executor_pb2_grpc
from tensorflow_federated.python.core.backends.test.compiler import (
    _replace_secure_intrinsics_with_insecure_bodies as replace_secure_intrinsics,
)

__all__ = [
    "array_pb2",
    "computation_pb2",
    "data_type_pb2",
    "executor_pb2",
    "executor_pb2_grpc",
    "replace_secure_intrinsics",
]
