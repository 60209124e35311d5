"""What is in a computation or a pipeline that came in: its operations and texts, wherever in it they are, and which
operations are given texts or make some.

TFF's computations are trees whose leaves are TensorFlow graphs; a pipeline is one graph. A graph has nodes, and
functions with nodes of their own, which others call, map over datasets or loop. Everything that is there is counted,
whether it would run or not. Nothing is evaluated, and neither TensorFlow nor TFF is imported.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

from tffapps.engine.tff_messages import graph_pb2

_STRING, _RESOURCE, _VARIANT = 7, 20, 21  # of TensorFlow's data types
_TENSORFLOW, _LITERAL = "tensorflow", "literal"
_TREE = ("lambda", "block", "reference", "call", "struct", "selection")
_FUNCTION = re.compile(r"(?:[a-z]|__)[\w.-]*")  # no operation's name begins like this
_DEEPEST = 200
_LONGEST_LENGTH = 35  # bits; so many letters are in no message


class Unreadable(ValueError):
    """What is no computation, or of a kind that no coordinator of this project sends."""


@dataclasses.dataclass
class Content:
    operations: set[str] = dataclasses.field(default_factory=set)
    texts: set[bytes] = dataclasses.field(default_factory=set)
    of_texts: set[str] = dataclasses.field(default_factory=set)  # operations that are told to work on texts


def of_computation(computation: Any) -> Content:
    """Of TFF's message `Computation`."""
    found = Content()
    _walk(computation, found, 0)
    return found


def of_sequence(sequence: Any) -> Content:
    """Of TFF's message `Value.Sequence`."""
    if sequence.zipped_saved_model or not sequence.serialized_graph_def:
        raise Unreadable("a sequence that is no graph")
    found = Content()
    _graph(sequence.serialized_graph_def, found)
    return found


def texts_of_array(array: Any) -> set[bytes]:
    """Of TFF's message `Array`."""
    if array.dtype == _STRING and array.content:
        raise Unreadable("an array of packed texts")
    return set(array.string_list.value)


def _walk(computation: Any, found: Content, depth: int) -> None:
    if depth > _DEEPEST:
        raise Unreadable(f"a computation that is nested more than {_DEEPEST} deep")
    kind = computation.WhichOneof("computation")
    if kind == _TENSORFLOW:
        _graph(computation.tensorflow.graph_def.value, found)
    elif kind == _LITERAL:
        found.texts |= texts_of_array(computation.literal.value)
    elif kind in _TREE:
        for part in _parts(kind, getattr(computation, kind)):
            _walk(part, found, depth + 1)
    else:
        raise Unreadable(f"a computation of the kind {kind}")


def _parts(kind: str, block: Any) -> Iterator[Any]:
    if kind == "lambda":
        yield block.result
    elif kind == "block":
        yield from (local.value for local in block.local)
        yield block.result
    elif kind == "call":
        yield block.function
        if block.HasField("argument"):
            yield block.argument
    elif kind == "struct":
        yield from (element.value for element in block.element)
    elif kind == "selection":
        yield block.source


def _graph(content: bytes, found: Content) -> None:
    try:
        graph = graph_pb2.GraphDef.FromString(content)
    except Exception:  # protobuf's own error, whose name differs between its implementations
        raise Unreadable("a graph that cannot be read") from None
    functions = {function.signature.name for function in graph.library.function}
    for name in functions:
        if not _FUNCTION.fullmatch(name):
            raise Unreadable(f"a function that is called {name!r:.60}, as operations are")
    for function in graph.library.function:
        _nodes(function.node_def, functions, found)
        declared = [one for each in function.signature.attr for one in (each.default_value, each.allowed_values)]
        of_arguments = [one for each in function.arg_attr.values() for one in each.attr.values()]
        _attributes([*function.attr.values(), *declared, *of_arguments], functions, found)
    _nodes(graph.node, functions, found)


def _nodes(nodes: Any, functions: set[str], found: Content) -> None:
    for node in nodes:
        if node.op not in functions:
            found.operations.add(node.op)
            if any(_STRING in (value.type, *value.list.type) for value in node.attr.values()):
                found.of_texts.add(node.op)
        _attributes(node.attr.values(), functions, found)


def _attributes(values: Any, functions: set[str], found: Content) -> None:
    for value in values:
        kind = value.WhichOneof("value")
        if kind == "placeholder":  # would be filled in by whoever calls the function, or by a default
            raise Unreadable("a graph that leaves open what is in it")
        tensors = {"tensor": [value.tensor], "list": value.list.tensor}.get(kind, ())
        called = {"func": [value.func], "list": value.list.func}.get(kind, ())
        for tensor in tensors:
            _tensor(tensor, found)
        for function in called:
            if function.name not in functions:
                raise Unreadable(f"a call of {function.name!r:.60}, which is not in the graph")
            _attributes(function.attr.values(), functions, found)


def _tensor(tensor: Any, found: Content) -> None:
    if tensor.dtype in (_RESOURCE, _VARIANT):
        raise Unreadable("a constant that is neither numbers nor texts")
    found.texts.update(tensor.string_val)
    if tensor.dtype == _STRING and tensor.tensor_content:
        found.texts.update(_packed(tensor.tensor_content, math.prod(one.size for one in tensor.tensor_shape.dim)))


def _packed(content: bytes, count: int) -> list[bytes]:
    """Texts as TensorFlow packs them: all lengths, as varints, then all letters."""
    lengths: list[int] = []
    place = 0
    try:
        while len(lengths) < count:
            length = shift = 0
            while True:
                byte = content[place]
                place += 1
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
                if shift > _LONGEST_LENGTH:
                    raise Unreadable("a constant of texts that cannot be read")
            lengths.append(length)
    except IndexError:
        raise Unreadable("a constant of texts that cannot be read") from None
    if sum(lengths) != len(content) - place:
        raise Unreadable("a constant of texts that cannot be read")
    ends = list(itertools.accumulate(lengths, initial=place))
    return [content[begin:end] for begin, end in itertools.pairwise(ends)]
