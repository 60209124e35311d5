"""The gate: a guard of the relay that looks at everything a coordinator wants computed before the worker sees it.

    a computation     only operations of the list (operations.txt), none of which opens a file, and TFF's plain blocks
    a pipeline        the same with those that read and decode images; every text in it is one of the site's own paths,
                      and no operation that is given texts makes another of them
    an argument       arrays and pipelines
    a call            its result is what `shapes` allows of what was sent with it, and what the policy allows
    an answer         is what the call said, and no larger than the policy says

The one computation that opens a file by itself is that which reads what the site publishes. Whatever is none of this is
refused in one line. A computation is looked at once, also if it is sent again (by its SHA-256).
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tffapps.engine.tff_messages import executor_pb2
from tffapps.site import graphs, keeper, shapes
from tffapps.site.policy import Policy
from tffapps.site.relay import COMPUTE, CREATE_CALL, CREATE_VALUE, Call, Made, Refused
from tffapps.wire import jobs, protocol

_LIST = Path(__file__).with_name("operations.txt")
_COMPUTATION, _PIPELINE, _DESCRIPTION, _TEXTS = "computation", "pipeline", "description", "texts"
_PATH = re.compile(rb"(?:(?:train|validation|test)/\d{1,6}|%b/[0-9a-f]{20})/\d{6}(?:\.mask)?" % jobs.MADE.encode())
_MAGIC = re.compile(rb"[^/.]{0,4}")  # by which a file's format is told
_READS = "ReadFile"
_NOTE = "gate"
_MOST_REMEMBERED = 500
_UNUSED = ("CreateStruct", "CreateSelection")  # by any coordinator of this project


@dataclasses.dataclass(frozen=True)
class Function:
    """A computation that was let in."""

    result: tuple[shapes.Leaf, ...]
    describes: bool  # gives what the site publishes


@dataclasses.dataclass
class Argument:
    """What was sent for a call."""

    arrays: list[shapes.Leaf] = dataclasses.field(default_factory=list)
    paths: set[bytes] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(frozen=True)
class Asked:
    """A call that was let in."""

    function: Function
    rule: shapes.Allowed | None  # None: what the site publishes


class Gate:
    """Of one site; `folder` is its worker's, `images` and `classes` how many it has.

    `permit` is asked, with the caller, how many images it is about, and whether an update or a report of them leaves,
    before something is computed of images; it raises Refused.
    """

    def __init__(
        self,
        policy: Policy,
        folder: Path,
        images: int,
        classes: int,
        permit: Callable[[str, int, bool], None] = lambda caller, images, update: None,
    ) -> None:
        self._policy, self._folder, self._permit = policy, folder, permit
        self._images, self._classes = images, classes
        lists = operations()
        more = policy.more_operations
        self._texts = lists.pop(_TEXTS)
        self._lists = {name: lists[name] | (more if name != _DESCRIPTION else frozenset()) for name in lists}
        self._functions: dict[str, Function] = {}
        self._paths: set[bytes] = set()  # that were found
        self._lock = threading.Lock()

    def request(self, call: Call) -> None:
        if call.method in _UNUSED:
            raise Refused(f"{call.method} is nothing that a round needs")
        try:
            if call.method == CREATE_VALUE:
                self._value(call)
            elif call.method == CREATE_CALL:
                self._call(call)
            elif call.method == COMPUTE:
                self._compute(call)
        except (graphs.Unreadable, shapes.NotAllowed) as error:
            raise Refused(str(error)) from None

    def answer(self, call: Call, content: bytes) -> bytes:
        asked = _asked(call.value)
        if len(content) > self._policy.largest:
            raise Refused(f"an answer of {len(content)} bytes; the site's policy allows {self._policy.largest}")
        if asked.rule is not None:
            try:
                value = executor_pb2.ComputeResponse.FromString(content).value
                shapes.check_answer(value, asked.function.result, asked.rule)
            except shapes.NotAllowed as error:
                raise Refused(str(error)) from None
        return content

    def _value(self, call: Call) -> None:
        assert call.made is not None
        value, digest = call.message.value, call.made.computation
        if digest:
            with self._lock:
                known = self._functions.get(digest)
            call.made.notes[_NOTE] = function = known or self._function(value.computation)
            with self._lock:
                if len(self._functions) >= _MOST_REMEMBERED:
                    self._functions.clear()
                self._functions[digest] = function
            call.what = "computation"
        else:
            argument = Argument()
            self._argument(value, argument)
            call.made.notes[_NOTE] = argument
            call.what = f"{len(argument.arrays)} arrays" + _of(len(argument.paths))

    def _function(self, computation: Any) -> Function:
        kind = computation.type.WhichOneof("type")
        if kind != "function":
            raise graphs.Unreadable(f"a computation of the type {kind}")
        content, function = graphs.of_computation(computation), computation.type.function
        reads_description = content.texts == {protocol.DESCRIPTION.encode()} and not function.HasField("parameter")
        if reads_description and content.operations <= self._lists[_DESCRIPTION]:
            return Function((), describes=True)
        self._check_operations(content, _COMPUTATION)
        return Function(tuple(shapes.of_type(function.result)), describes=False)

    def _argument(self, value: Any, found: Argument) -> None:
        kind = value.WhichOneof("value")
        if kind == "struct":
            for element in value.struct.element:
                self._argument(element.value, found)
        elif kind == "array":
            if graphs.texts_of_array(value.array):
                raise Refused("an argument with texts in it")
            found.arrays.append(shapes.leaf_of(value.array))
        elif kind == "sequence":
            content = graphs.of_sequence(value.sequence)
            self._check_operations(content, _PIPELINE)
            joining = sorted(content.of_texts - self._texts)
            if joining:
                raise Refused(f"a pipeline with the operation {joining[0]:.60} on texts, of which it could make a path")
            paths = {text for text in content.texts if not _MAGIC.fullmatch(text)}
            if _READS in content.operations and not paths:
                raise Refused("a pipeline that reads files and names none")
            for path in paths:
                self._check_path(path)
            found.paths |= paths
        else:
            raise Refused(f"an argument with a {kind} in it")

    def _check_operations(self, content: graphs.Content, kind: str) -> None:
        others = sorted(content.operations - self._lists[kind])
        if others:
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            raise Refused(f"a {kind} with the operation {others[0]:.60}{more}, which is not on the site's list")

    def _check_path(self, text: bytes) -> None:
        if text in self._paths:
            return
        shown = ascii(text.decode(errors="replace"))[:60]
        if not _PATH.fullmatch(text):
            raise Refused(f"a pipeline over {shown}, which is none of the site's numbered images")
        if not (self._folder / text.decode()).is_file():
            raise Refused(f"a pipeline over {shown}, which the site does not have")
        self._paths.add(text)

    def _call(self, call: Call) -> None:
        assert call.made is not None
        function, *rest = (part.notes.get(_NOTE) for part in call.made.parts)
        argument = rest[0] if rest else Argument()
        if not isinstance(function, Function) or not isinstance(argument, Argument):
            raise Refused("a call of something that is no computation")
        if function.describes:
            call.what = "what the site publishes"
            call.made.notes[_NOTE] = Asked(function, None)
            return
        images = len([path for path in argument.paths if not path.endswith(b".mask")])
        state = keeper.of_call(call.made)
        rule = self._rule(function, argument, max(self._images, images), state)
        if state is not None and state.put_in and not images:
            raise Refused("something of what a client keeps, and of none of its images")
        self._check_rows([function.result[place] for place in sorted(rule.rows)])
        if rule.update and 0 < images < self._policy.least_images:
            raise Refused(f"an update{_of(images)}; the site's policy asks for {self._policy.least_images} at least")
        call.what = ("update" if rule.update else "predictions") + _of(images)
        call.made.notes.update({_NOTE: Asked(function, rule), "images": images})

    def _rule(self, function: Function, argument: Argument, images: int, state: keeper.Held | None) -> shapes.Allowed:
        """What a client keeps is as it was in size, and gives no room to what leaves."""
        if state is None:
            return shapes.allowed(function.result, argument.arrays, images, self._classes)
        kept = [argument.arrays[place] for place in state.places]
        if state.hold is not None and list(function.result[state.hold.start : state.hold.stop]) != kept:
            raise Refused("an answer to be held that is no state of the kind that it came of")
        sent = [leaf for place, leaf in enumerate(argument.arrays) if place not in state.places]
        held = state.hold if state.hold is not None else ()
        rule = shapes.allowed(function.result, sent, images, self._classes, held=held, kept=kept)
        return rule if state.hold is None else dataclasses.replace(rule, update=True)

    def _check_rows(self, rows: Sequence[shapes.Leaf]) -> None:
        if rows and not self._policy.predictions:
            raise Refused("predictions of single images; the site's policy keeps them")
        width = sum(leaf.numbers // leaf.shape[0] for leaf in rows)
        if width > self._policy.widest_prediction:
            most = self._policy.widest_prediction
            raise Refused(f"{width} numbers of every image; the site's policy allows {most}")

    def _compute(self, call: Call) -> None:
        asked, value = _asked(call.value), call.value
        assert value is not None
        images = value.notes.get("images", 0)
        if asked.rule is None:
            call.what = "what the site publishes"
            return
        call.what = ("update" if asked.rule.update else "predictions") + _of(images)
        if images:
            self._permit(call.caller, images, asked.rule.update)


def operations() -> dict[str, frozenset[str]]:
    """The site's list, by what an operation may be in."""
    lists: dict[str, set[str]] = {}
    section: set[str] = set()
    for line in _LIST.read_text().splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 1 and words[0].startswith("["):
            section = lists.setdefault(words[0].strip("[]"), set())
        else:
            section.update(words)
    both = lists.pop("both")
    return {name: frozenset(found if name in (_DESCRIPTION, _TEXTS) else found | both) for name, found in lists.items()}


def _asked(value: Made | None) -> Asked:
    asked = value.notes.get(_NOTE) if value is not None else None
    if not isinstance(asked, Asked):
        raise Refused("only the result of a call can be asked for")
    return asked


def _of(images: int) -> str:
    return f" of {images} images" if images != 1 else " of 1 image"
