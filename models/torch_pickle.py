"""The pickle inside a PyTorch file, read by an interpreter that knows tensors and plain values and nothing else.

A pickle is a program for a small stack machine, and Python's own `pickle` runs whatever functions it names. Here the
opcodes are walked through one by one (`pickletools.genops` only parses them), and a name is never looked up: the few
that a state dict needs stand for what is done below, every other one is refused. Nothing is imported, called or built
but dicts, lists, tuples, numbers, texts and the two descriptions `Tensor` and `Storage`.
"""

from __future__ import annotations

import dataclasses
import pickletools
from typing import Any

from models.stored import DAMAGE, shown

MAX_PICKLE = 2**23  # bytes; that of a DenseNet-201 has 0.3 MB
# Which numbers a storage holds, by its name in PyTorch. None of whole numbers is a weight; they may lie beside some.
STORAGES = {
    "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "bfloat16",
    "torch.FloatStorage": "float32",
    "torch.DoubleStorage": "float64",
    "torch.BoolStorage": "bool",
    "torch.ByteStorage": "uint8",
    "torch.CharStorage": "int8",
    "torch.ShortStorage": "int16",
    "torch.IntStorage": "int32",
    "torch.LongStorage": "int64",
}
_DICT = "collections.OrderedDict"
_TENSOR = "torch._utils._rebuild_tensor_v2"
_PARAMETER = "torch._utils._rebuild_parameter"
_NAMES = {_DICT, _TENSOR, _PARAMETER, *STORAGES}


class PickleRefused(ValueError):
    """Why a pickle is not a state dict's."""


@dataclasses.dataclass(frozen=True)
class Storage:
    """Numbers in a row, kept in a member of the archive."""

    dtype: str
    key: str  # the member's name
    size: int  # in elements


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Some of a storage's elements. The values come from the file and are not yet checked."""

    storage: Storage
    offset: Any
    shape: Any
    strides: Any


@dataclasses.dataclass(frozen=True)
class _Name:
    text: str


def loads(data: bytes) -> Any:
    """The value that the pickle describes. Raises `PickleRefused`."""
    if len(data) > MAX_PICKLE:
        raise PickleRefused(f"its pickle has {len(data)} bytes, a state dict's has at most {MAX_PICKLE}")
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            machine.do(opcode.name, argument)
        return machine.result()
    except PickleRefused:
        raise
    except DAMAGE as error:
        raise PickleRefused(f"its pickle is damaged ({shown(error)})") from error


class _Machine:
    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks under each MARK
        self._memo: dict[int, Any] = {}

    def result(self) -> Any:
        if len(self._stack) != 1 or self._below:
            raise PickleRefused("its pickle does not end in one value")
        return self._stack[0]

    def do(self, opcode: str, argument: Any) -> None:
        if opcode in _VALUES:
            self._stack.append(argument)
        elif opcode in _CONSTANTS:
            self._stack.append(_CONSTANTS[opcode])
        elif opcode in _MEMO_PUTS:
            self._memo[len(self._memo) if argument is None else argument] = self._stack[-1]
        elif opcode in _MEMO_GETS:
            self._stack.append(self._memo[argument])
        elif opcode in _TUPLES:
            self._stack[len(self._stack) - _TUPLES[opcode] :] = [self._last(_TUPLES[opcode])]
        elif opcode in _STEPS:
            _STEPS[opcode](self, argument)
        elif opcode not in _NOTHING_TO_DO:
            raise PickleRefused(f"its pickle uses {opcode}, which no state dict needs")

    def _last(self, number: int) -> tuple[Any, ...]:
        if len(self._stack) < number:
            raise PickleRefused("its pickle takes more than there is")
        return tuple(self._stack[len(self._stack) - number :])

    def _since_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._below.pop()
        return items

    def _mark(self, _: Any) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _new_dict(self, _: Any) -> None:
        self._stack.append({})

    def _new_list(self, _: Any) -> None:
        self._stack.append([])

    def _tuple(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(tuple(items))

    def _name(self, argument: str) -> None:
        self._push_name(*argument.split(" ", 1))  # as pickletools joins module and name

    def _name_on_stack(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._push_name(module, name)

    def _push_name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:  # the text of a nested value could be endless
            raise PickleRefused("its pickle gives something that is no text for a name")
        text = f"{module}.{name}"
        if text not in _NAMES:
            raise PickleRefused(f"its pickle names {shown(text)}, which no state dict needs; nothing of it was run")
        self._stack.append(_Name(text))

    def _set_items(self, _: Any) -> None:
        items = self._since_mark()
        self._put(items[::2], items[1::2])

    def _set_item(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._put([key], [value])

    def _put(self, keys: list[Any], values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not dict or len(keys) != len(values) or not all(type(key) in (str, int) for key in keys):
            raise PickleRefused("its pickle fills something that is no dict of names")
        target.update(zip(keys, values))

    def _append(self, _: Any) -> None:
        value = self._stack.pop()
        self._extend([value])

    def _appends(self, _: Any) -> None:
        self._extend(self._since_mark())

    def _extend(self, values: list[Any]) -> None:
        if type(self._stack[-1]) is not list:
            raise PickleRefused("its pickle extends something that is no list")
        self._stack[-1].extend(values)

    def _call(self, _: Any) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        name = function.text if isinstance(function, _Name) else type(function).__name__
        number = len(arguments) if type(arguments) is tuple else -1
        if name == _DICT and number == 0:
            self._stack.append({})
        elif name == _TENSOR and number in (6, 7) and isinstance(arguments[0], Storage):
            self._stack.append(Tensor(*arguments[:4]))
        elif name == _PARAMETER and number == 3 and isinstance(arguments[0], Tensor):
            self._stack.append(arguments[0])
        else:
            raise PickleRefused(f"its pickle calls {shown(name)} as no state dict does")

    def _build(self, _: Any) -> None:
        self._stack.pop()  # a state dict's _metadata: versions of modules
        if type(self._stack[-1]) is not dict:
            raise PickleRefused("its pickle sets attributes of something that is no dict")

    def _persistent(self, _: Any) -> None:
        """("storage", type, key, device, number of elements): all that a PyTorch file keeps outside its pickle."""
        found = self._stack.pop()
        if type(found) is not tuple or len(found) != 5 or found[0] != "storage":
            raise PickleRefused("its pickle refers to something that is no storage")
        kind, key, size = found[1], found[2], found[4]
        if not isinstance(kind, _Name) or kind.text not in STORAGES or type(key) is not str or type(size) is not int:
            raise PickleRefused("its pickle describes a storage as PyTorch does not")
        self._stack.append(Storage(STORAGES[kind.text], key, size))


_VALUES = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"}
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_MEMO_PUTS = {"BINPUT", "LONG_BINPUT", "MEMOIZE"}
_MEMO_GETS = {"BINGET", "LONG_BINGET"}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NOTHING_TO_DO = {"PROTO", "FRAME", "STOP"}
_STEPS = {
    "MARK": _Machine._mark,
    "EMPTY_DICT": _Machine._new_dict,
    "EMPTY_LIST": _Machine._new_list,
    "TUPLE": _Machine._tuple,
    "GLOBAL": _Machine._name,
    "STACK_GLOBAL": _Machine._name_on_stack,
    "SETITEM": _Machine._set_item,
    "SETITEMS": _Machine._set_items,
    "APPEND": _Machine._append,
    "APPENDS": _Machine._appends,
    "REDUCE": _Machine._call,
    "BUILD": _Machine._build,
    "BINPERSID": _Machine._persistent,
}
