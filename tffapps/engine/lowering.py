"""From a TFF computation to the small set of building blocks that an engine has to know."""

from typing import Any

import tensorflow_federated as tff

from tffapps.engine import tff_internals


def to_native(computation: tff.Computation) -> tff.Computation:
    """For TFF's C++ worker. Secure sums become plain sums: the protocol is simulated, its numbers are not."""
    without_secure = tff.backends.test.replace_secure_intrinsics_with_bodies(computation)
    return tff.backends.native.desugar_and_transform_to_native(without_secure)


def to_remote(block: tff.framework.ComputationBuildingBlock) -> Any:
    """For TFF's C++ worker, of what has no placements: serialised, its graphs numbered so that sessions are kept."""
    computation = tff.framework.deserialize_computation(block.proto)
    return tff.framework.serialize_computation(tff.backends.native.desugar_and_transform_to_native(computation))


def to_call_dominant(computation: tff.Computation) -> tff.framework.ComputationBuildingBlock:
    """For the in-process engine: a chain of calls to a dozen intrinsics and to TensorFlow graphs."""
    block, _ = tff_internals.replace_secure_intrinsics(computation.to_building_block())
    block, _ = tff.tensorflow.replace_intrinsics_with_bodies(block)
    return tff.framework.to_call_dominant(block)
