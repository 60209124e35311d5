"""Values between Python and the in-process engine.

Inside the engine a value is a tensor, a tf.data.Dataset, or a `Struct` of values. A value placed at the clients is
`AtClients`: one value for each, or one for all.
"""

import dataclasses
import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tree

from tffapps.engine.held import Held

Struct = tff.structure.Struct
# As in TFF, arguments are converted within a kind and where nothing is lost, or refused.
_KINDS = {"b": "bool", "i": "integer", "u": "integer", "f": "real", "c": "complex"}


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

    values: list[Any]
    all_equal: bool = False
    member: Any = None  # the type of one value, where some are made later
    sites: tuple[str | None, ...] = ()  # where each is to be used

    def of(self, client: int) -> Any:
        value = self.values[0 if self.all_equal else client]
        return at_once(ingest(value.make(), self.member, set()) if isinstance(value, Deferred) else value)


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
        sites = tuple(part.site if isinstance(part, AtSite) else None for part in value)
        plain = [part.value if isinstance(part, AtSite) else part for part in value]
        values = [part if isinstance(part, Deferred) else ingest(part, member, cardinality) for part in plain]
        return AtClients(values, member=member, sites=sites)
    if isinstance(value_type, tff.StructType):
        return _ingest_struct(value, value_type, cardinality)
    if isinstance(value_type, tff.SequenceType):
        return _ingest_sequence(value, value_type)
    if isinstance(value_type, tff.TensorType):
        return Held.of(value) or _ingest_tensor(value, value_type)
    raise NotImplementedError(f"arguments of type {value_type} are not supported by the in-process engine")


def at_once(value: Any) -> Any:
    """The same, its datasets read now where they offer that (`at_once`): the rows of a few small files, say."""
    if isinstance(value, Struct):
        return Struct([(name, at_once(part)) for name, part in tff.structure.iter_elements(value)])
    return value.at_once() if isinstance(value, tf.data.Dataset) and hasattr(value, "at_once") else value


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
        if any(isinstance(leaf, tf.data.Dataset) for leaf in leaves):
            return Deferred(lambda: value)  # a pipeline, and not what it gives
        file = os.path.join(self._folder.name, f"{self._count}.npz")
        self._count += 1
        np.savez(file, **{f"a{index}": leaf for index, leaf in enumerate(leaves)})
        shape = tree.map_structure(lambda leaf: None, value)
        return Deferred(functools.partial(self._get, file, shape, len(leaves)))  # holds the spill, and not the arrays

    def _get(self, file: str, shape: Any, count: int) -> Any:
        with np.load(file, allow_pickle=False) as content:
            return tree.unflatten_as(shape, [content[f"a{index}"] for index in range(count)])


def materialised(argument: Any) -> Any:
    """The arguments of a computation, as a `Struct`, with nothing left for later: for engines that must have all."""
    if not isinstance(argument, Struct):
        return _materialised_list(argument) if isinstance(argument, list) else argument
    elements = tff.structure.iter_elements(argument)
    return Struct([(name, _materialised_list(value) if isinstance(value, list) else value) for name, value in elements])


def _materialised_list(values: list[Any]) -> list[Any]:
    plain = [value.value if isinstance(value, AtSite) else value for value in values]
    return [value.make() if isinstance(value, Deferred) else value for value in plain]


def _ingest_tensor(value: Any, value_type: tff.TensorType) -> tf.Tensor:
    """TypeError, as from TFF, if the value is of another kind, or does not fit into the dtype or the shape."""
    if isinstance(value, tf.Variable):
        value = value.read_value()
    dtype = tf.as_dtype(value_type.dtype.type)
    if not isinstance(value, tf.Tensor):
        # Strings do not go through NumPy, which drops zeros at the end of bytes.
        value = tf.convert_to_tensor(value if dtype == tf.string else _array(value, value_type))
    elif value.dtype != dtype and _widens(np.dtype(value.dtype.as_numpy_dtype), value_type.dtype):
        value = tf.cast(value, dtype)
    if value.dtype != dtype or not tf.TensorShape(value_type.shape).is_compatible_with(value.shape):
        raise TypeError(f"expected a value of type {value_type}, found {value.dtype.name}{value.shape.as_list()}")
    return value


def _array(value: Any, value_type: tff.TensorType) -> np.ndarray:
    array, dtype = np.asarray(value), value_type.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        fits = array.dtype == dtype or _widens(array.dtype, dtype)
    else:  # Python's numbers have no size: it depends on how large they are
        same_kind = _KINDS.get(array.dtype.kind) == _KINDS.get(dtype.kind)
        fits = not array.size or (same_kind and (array.dtype.kind not in "iu" or (array == array.astype(dtype)).all()))
    if not fits:
        raise TypeError(f"expected a value of type {value_type}, found {array.dtype}{list(array.shape)}")
    return array.astype(dtype, copy=False)


def _widens(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether values of one dtype become those of another without loss, and are of the same kind."""
    return _KINDS.get(given.kind) == _KINDS.get(wanted.kind) and np.can_cast(given, wanted)


def _ingest_struct(value: Any, value_type: tff.StructType, cardinality: set[int]) -> Any:
    types = tff.structure.to_elements(value_type)
    if isinstance(value, Struct):
        given = tff.structure.to_elements(value)
        if any(name not in (None, expected) for (name, _), (expected, _) in zip(given, types)):
            raise TypeError(f"expected the elements {[name for name, _ in types]}, found {[name for name, _ in given]}")
        values = [part for _, part in given]
    elif isinstance(value, dict):
        names = [name for name, _ in types]
        values = [value[name] for name in names] if set(names) == set(value) else list(value.values())
    elif hasattr(type(value), "__attrs_attrs__"):
        values = [getattr(value, attribute.name) for attribute in type(value).__attrs_attrs__]
    else:
        values = list(value)
    if len(values) != len(types):
        raise TypeError(f"expected {len(types)} elements, found {len(values)}")
    return Struct([(name, ingest(part, kind, cardinality)) for (name, kind), part in zip(types, values)])


def _ingest_sequence(value: Any, value_type: tff.SequenceType) -> tf.data.Dataset:
    if not isinstance(value, tf.data.Dataset):
        return _dataset(list(value), value_type.element)
    given = tff.SequenceType(tff.types.tensorflow_to_type(value.element_spec))
    if not value_type.is_assignable_from(given):
        raise TypeError(f"a client's dataset has elements of type {given.element}, expected {value_type.element}")
    return value


def _dataset(elements: list[Any], element_type: tff.Type) -> tf.data.Dataset:
    """A pipeline over elements that are given one by one; shapes may change among them, as those of batches do."""
    if not elements:
        spec = _element_spec(element_type)
        none = tf.nest.map_structure(lambda leaf: tf.zeros([0, *(size or 0 for size in leaf.shape)], leaf.dtype), spec)
        return tf.data.Dataset.from_tensor_slices(none)
    ingested = [ingest(element, element_type, set()) for element in elements]
    nested = [tff.types.type_to_py_container(value, element_type) for value in ingested]
    alike = itertools.groupby(nested, lambda element: [leaf.shape.as_list() for leaf in tf.nest.flatten(element)])
    stacked = [tf.nest.map_structure(lambda *leaves: tf.stack(leaves), *group) for _, group in alike]
    parts = [tf.data.Dataset.from_tensor_slices(tensors) for tensors in stacked]
    return functools.reduce(lambda first, second: first.concatenate(second), parts)


def _element_spec(element_type: tff.Type) -> Any:
    """Of a dataset: structs in the containers of the type, or, where it has none, in dicts and tuples."""

    def spec(kind: tff.Type) -> Any:
        if isinstance(kind, tff.StructType):
            return Struct([(name, spec(part)) for name, part in tff.structure.iter_elements(kind)])
        return tf.TensorSpec(kind.shape, tf.as_dtype(kind.dtype.type))

    return tff.types.type_to_py_container(spec(element_type), element_type)


def egest(value: Any, value_type: tff.Type) -> Any:
    """An engine value as what TFF's own contexts return: NumPy arrays in the containers of the type.

    A sequence stays a dataset, of which nothing is drawn: it may be long, or have no end.
    """
    if isinstance(value_type, tff.FederatedType):
        if value_type.placement is tff.CLIENTS and not value_type.all_equal:
            return [part if isinstance(part, Deferred) else egest(part, value_type.member) for part in value.values]
        if isinstance(value, AtClients):
            value = value.of(0)
        return egest(value, value_type.member)
    if isinstance(value_type, tff.StructType):
        elements = tff.structure.to_elements(value_type)
        plain = Struct([(name, egest(part, kind)) for (name, kind), part in zip(elements, value)])
        return tff.types.type_to_py_container(plain, value_type)
    if isinstance(value, Held):
        return value.to_array()
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
        return tf.data.experimental.from_variant(tensor, _element_spec(value_type.element))
    return tensor
