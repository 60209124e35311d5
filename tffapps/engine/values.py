"""Values between Python and the in-process engine.

Inside the engine a value is a tensor, a tf.data.Dataset, or a `Struct` of values. A value placed at the clients is
`AtClients`: one value for each, or one for all.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tree
from tensorflow_federated.python.common_libs.structure import Struct


@dataclasses.dataclass(frozen=True)
class Deferred:
    """One client's argument that is made (read from a file, say) when its turn comes, and not held before or after.

    A computation that is called with such arguments gives what it returns of each client in the same way.
    """

    make: Callable[[], Any]


HERE = ""  # the site of what belongs to the coordinator


@dataclasses.dataclass(frozen=True)
class AtSite:
    """One client's argument that means something at one site only, such as a pipeline over the site's own files.

    An engine with sites does that client's work there and nowhere else (`HERE`: in this process); to the others the
    name says nothing.
    """

    site: str
    value: Any


@dataclasses.dataclass(frozen=True)
class AtClients:
    """A client-placed value that came in from outside."""

    values: list
    all_equal: bool = False
    member: Any = None  # the type of one value, where some are made later
    sites: tuple[str | None, ...] = ()  # where each is to be used

    def of(self, client: int) -> Any:
        value = self.values[0 if self.all_equal else client]
        return ingest(value.make(), self.member, set()) if isinstance(value, Deferred) else value


def ingest(value: Any, value_type: tff.Type, cardinality: set[int]) -> Any:
    """A Python argument as an engine value; adds the length of every list of clients to `cardinality`."""
    if isinstance(value_type, tff.FederatedType):
        if value_type.placement is not tff.CLIENTS:
            return ingest(value, value_type.member, cardinality)
        if value_type.all_equal:
            return AtClients([ingest(value, value_type.member, cardinality)], all_equal=True)
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"expected a list with one value for each client, found {type(value).__name__}")
        cardinality.add(len(value))
        member = value_type.member
        sites = tuple(one.site if isinstance(one, AtSite) else None for one in value)
        plain = [one.value if isinstance(one, AtSite) else one for one in value]
        values = [one if isinstance(one, Deferred) else ingest(one, member, cardinality) for one in plain]
        return AtClients(values, member=member, sites=sites)
    if isinstance(value_type, tff.StructType):
        return _ingest_struct(value, value_type, cardinality)
    if isinstance(value_type, tff.SequenceType):
        return _ingest_sequence(value, value_type)
    if isinstance(value_type, tff.TensorType):
        if isinstance(value, tf.Variable):
            value = value.read_value()
        if isinstance(value, tf.Tensor):
            return value
        return tf.convert_to_tensor(np.asarray(value, value_type.dtype) if value_type.dtype != np.str_ else value)
    raise NotImplementedError(f"arguments of type {value_type} are not supported by the in-process engine")


def any_deferred(argument: Any) -> bool:
    """Whether some of the arguments of a computation are made later."""
    values = argument if isinstance(argument, Struct) else [argument]
    lists = (value for value in values if isinstance(value, list))
    return any(isinstance(value, Deferred) for values in lists for value in values)


class Spill:
    """Files for values that are to be handed over one by one; they are gone with the last of them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tffapps-")
        self._count = 0

    def put(self, value: Any) -> Deferred:
        """Writes the arrays of a Python value, and says how to have it back."""
        leaves = tree.flatten(value)
        file = os.path.join(self._folder.name, f"{self._count}.npz")
        self._count += 1
        np.savez(file, **{f"a{index}": leaf for index, leaf in enumerate(leaves)})
        shape = tree.map_structure(lambda leaf: None, value)
        return Deferred(functools.partial(self._get, file, shape, len(leaves)))  # holds the spill, and not the arrays

    def _get(self, file: str, shape: Any, count: int) -> Any:
        with np.load(file, allow_pickle=False) as content:
            return tree.unflatten_as(shape, [content[f"a{index}"] for index in range(count)])


def made(argument: Any) -> Any:
    """The arguments of a computation, as a `Struct`, with nothing left for later: for engines that must have all."""
    if not isinstance(argument, Struct):
        return _all_made(argument) if isinstance(argument, list) else argument
    elements = tff.structure.iter_elements(argument)
    return Struct([(name, _all_made(value) if isinstance(value, list) else value) for name, value in elements])


def _all_made(values: list) -> list:
    plain = [value.value if isinstance(value, AtSite) else value for value in values]
    return [value.make() if isinstance(value, Deferred) else value for value in plain]


def _ingest_struct(value: Any, value_type: tff.StructType, cardinality: set[int]) -> Struct:
    types = tff.structure.to_elements(value_type)
    if isinstance(value, Struct):
        values = [value[index] for index in range(len(value))]
    elif isinstance(value, dict):
        values = [value[name] for name, _ in types] if all(name for name, _ in types) else list(value.values())
    elif hasattr(type(value), "__attrs_attrs__"):
        values = [getattr(value, attribute.name) for attribute in type(value).__attrs_attrs__]
    else:
        values = list(value)
    if len(values) != len(types):
        raise TypeError(f"expected {len(types)} elements, found {len(values)}")
    return Struct([(name, ingest(one, kind, cardinality)) for (name, kind), one in zip(types, values)])


def _ingest_sequence(value: Any, value_type: tff.SequenceType) -> tf.data.Dataset:
    if not isinstance(value, tf.data.Dataset):
        signature = tff.types.type_to_tf_tensor_specs(value_type.element)
        elements = list(value)
        return tf.data.Dataset.from_generator(lambda: iter(elements), output_signature=signature)
    given = tff.SequenceType(tff.types.tensorflow_to_type(value.element_spec))
    if not value_type.is_assignable_from(given):
        raise TypeError(f"a client's dataset has elements of type {given.element}, expected {value_type.element}")
    return value


def egest(value: Any, value_type: tff.Type) -> Any:
    """An engine value as what TFF's own contexts return: NumPy arrays in the containers of the type."""
    if isinstance(value_type, tff.FederatedType):
        if value_type.placement is tff.CLIENTS and not value_type.all_equal:
            return [one if isinstance(one, Deferred) else egest(one, value_type.member) for one in value.values]
        if isinstance(value, AtClients):
            value = value.of(0)
        return egest(value, value_type.member)
    if isinstance(value_type, tff.StructType):
        elements = tff.structure.to_elements(value_type)
        plain = Struct([(name, egest(one, kind)) for (name, kind), one in zip(elements, value)])
        return tff.types.type_to_py_container(plain, value_type)
    if isinstance(value, tf.data.Dataset):
        return list(value.as_numpy_iterator())
    return value.numpy() if isinstance(value, tf.Tensor) else value


def flatten(value: Any) -> Iterator[tf.Tensor]:
    """The tensors of an engine value, datasets as variants."""
    if isinstance(value, Struct):
        for element in value:
            yield from flatten(element)
    elif isinstance(value, tf.data.Dataset):
        yield tf.data.experimental.to_variant(value)
    else:
        yield value


def pack(value_type: tff.Type, tensors: Iterator[tf.Tensor]) -> Any:
    """The inverse of `flatten`."""
    if isinstance(value_type, tff.StructType):
        return Struct([(name, pack(kind, tensors)) for name, kind in tff.structure.iter_elements(value_type)])
    tensor = next(tensors)
    if isinstance(value_type, tff.SequenceType):
        return tf.data.experimental.from_variant(tensor, tff.types.type_to_tf_tensor_specs(value_type.element))
    return tensor
