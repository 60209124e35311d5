"""What clients keep between rounds, put into arguments and taken out of answers in the site's own process.

Two guards of the relay (`wire.states` says what a coordinator writes):

    Keeper      the first of all: puts the arrays of a state where an argument names them, and takes the order out
    Taker       the last of all: keeps those arrays of an answer that are ordered to stay, and sends a handle instead

The gate is between them: it sees arguments and answers whole, and is told by a note which arrays are a state's. So what
leaves is judged without them: a state gives a coordinator no room in an answer. A state begins with arrays that
were sent, and is as large as these for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from tffapps.engine.tff_messages import data_type_pb2, executor_pb2
from tffapps.site.relay import COMPUTE, CREATE_VALUE, Call, Made, Refused
from tffapps.site.state_store import StateStore
from tffapps.wire import states

NOTE = "state"
_STRING, _UINT8 = data_type_pb2.DT_STRING, data_type_pb2.DT_UINT8


@dataclasses.dataclass(frozen=True)
class Held:
    """Of an argument: which of its arrays are a state's, and what is to be held of the answer."""

    places: tuple[int, ...]  # among the arrays of the argument, in the order of the state
    handle: str  # of the state that was put in; "": a first one, which was sent
    hold: range | None  # places among the arrays of the answer; None: nothing is held

    @property
    def put_in(self) -> bool:
        return bool(self.handle)


class Keeper:
    """`willing`: whether anything is kept."""

    def __init__(self, store: StateStore, willing: bool = True) -> None:
        self._store, self._willing = store, willing
        self.taker = Taker(store)

    @property
    def methods(self) -> dict[str, Callable[[str, bytes], bytes]]:
        """What the site answers itself, by name."""
        return {states.FORGET: self._forget}

    def request(self, call: Call) -> None:
        if call.method != CREATE_VALUE or call.made is None or call.made.computation:
            return
        value = call.message.value
        order = _order(value)
        arrays = list(_arrays(value))
        named = {place: _leaf(array) for place, array in enumerate(arrays) if array.dtype == _STRING}
        if order is None and not named:
            return
        if not self._willing:
            raise Refused("this site's updates leave masked or noised alone: its clients keep nothing between rounds")
        call.made.notes[NOTE] = self._held(call.caller, order, named, arrays)
        call.replace_message()

    def answer(self, call: Call, content: bytes) -> bytes:
        return content

    def _held(self, caller: str, order: states.Order | None, named: dict[int, states.Leaf], arrays: list[Any]) -> Held:
        if not named:
            assert order is not None
            if order.first is None or order.first.stop > len(arrays):
                raise Refused("an answer to be held of no state")
            return Held(tuple(order.first), "", order.hold)
        (handle, *others), leaves = {leaf.handle for leaf in named.values()}, list(named.values())
        if others or len(set(leaves)) < len(leaves) or (order is not None and order.first is not None):
            raise Refused("an argument with several states, or one of them twice")
        state = self._store.get(caller, handle)
        if max(leaf.place for leaf in leaves) >= len(state):
            raise Refused(f"an array that a state of {len(state)} does not have")
        for place, leaf in named.items():
            arrays[place].CopyFrom(state[leaf.place])
        places = tuple(sorted(named, key=lambda place: named[place].place))
        if order is not None and len(places) < len(state):
            raise Refused("an answer to be held of a part of a state")
        return Held(places, handle, order.hold if order is not None else None)

    def _forget(self, caller: str, content: bytes) -> bytes:
        try:
            handles = states.forgotten(content)
        except ValueError as error:
            raise Refused(str(error)) from None
        self._store.forget(caller, handles)
        return b""


class Taker:
    """The other half of a `Keeper`."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def request(self, call: Call) -> None:
        pass

    def answer(self, call: Call, content: bytes) -> bytes:
        held = of_call(call.value) if call.method == COMPUTE else None
        if held is None or held.hold is None:
            return content
        response = executor_pb2.ComputeResponse.FromString(content)
        arrays = list(_arrays(response.value))[held.hold.start : held.hold.stop]
        handle = self._store.put(call.caller, arrays, held.handle)
        for array in arrays:
            array.Clear()
            array.dtype, array.content = _UINT8, bytes.fromhex(handle)
            array.shape.dim.append(states.HANDLE)
        call.what += ", a state held"
        return response.SerializeToString()


def of_call(value: Made | None) -> Held | None:
    """What is noted of the argument of a call."""
    parts = value.parts if value is not None else ()
    return parts[1].notes.get(NOTE) if len(parts) > 1 else None


def _order(value: Any) -> states.Order | None:
    """What is ordered by the last element of an argument, which is taken out."""
    elements = value.struct.element if value.WhichOneof("value") == "struct" else []
    if not elements or elements[-1].name != states.ORDER:
        return None
    words = elements[-1].value
    try:
        order = states.Order.from_bytes(_text(words.array) if words.WhichOneof("value") == "array" else b"")
    except ValueError as error:
        raise Refused(str(error)) from None
    del elements[-1]
    return order


def _leaf(array: Any) -> states.Leaf:
    try:
        return states.Leaf.parse(_text(array).decode(errors="replace"))
    except ValueError:
        raise Refused("an argument with texts in it") from None


def _text(array: Any) -> bytes:
    texts = array.string_list.value
    return texts[0] if len(texts) == 1 and not array.shape.dim else b""


def _arrays(value: Any) -> Iterator[Any]:
    """Of an argument, as the gate counts them, or of an answer."""
    kind = value.WhichOneof("value")
    if kind == "struct":
        for element in value.struct.element:
            yield from _arrays(element.value)
    elif kind == "array":
        yield value.array
