"""What becomes of answers that are to be summed: whole numbers, noised, masked, before they leave the site's process.

The worker runs a graph that the coordinator wrote; this does not. Asked for a sum (`wire.sums`), the site takes its
worker's next answer to that computation apart and sends numbers of the agreed form in its place, or nothing.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import pathlib
import threading
from collections.abc import Callable
from typing import Any

from tffapps.engine import shared_work
from tffapps.secure_sums import agreement as agreements
from tffapps.secure_sums.form import Form
from tffapps.secure_sums.identity import Identity
from tffapps.secure_sums.seat import Seat
from tffapps.site import numbers
from tffapps.site.budget import Budget
from tffapps.site.relay import COMPUTE, CREATE_VALUE, Call, Made, Refused
from tffapps.wire import sums
from tffapps.wire.certificates import Certificates
from tffapps.wire.jobs import MADE

_HASH, _PARTS, _TRAINS = "hash of the computation", "hashes of what is broadcast", "of images for training"
_TRAINING = (b"train/", f"{MADE}/".encode())  # paths of the worker's folder


@dataclasses.dataclass(frozen=True)
class _Expected:
    """What the next answer to a computation is to become; the sum it is masked for, or none."""

    computation: str
    form: Form
    session: str
    number: int
    masked: bool


class Sums:
    """A guard of the relay, and the method that prepares what it does.

    `only_masked`: what is computed of training images leaves in a secure sum, or not at all. Where the budget has an
    end, it leaves noised, or not at all. `longest` bounds what goes into a secure sum: nobody behind it can.
    """

    def __init__(
        self,
        name: str,
        certificates: Certificates,
        budget: Budget,
        only_masked: bool = False,
        longest: float | None = None,
    ) -> None:
        self._name, self._certificates, self._budget, self._only_masked = name, certificates, budget, only_masked
        self._longest = math.inf if longest is None else longest
        self._log = logging.getLogger(f"tffapps.site.{name}")
        self._seats: dict[str, Seat] = {}
        self._expected: dict[str, _Expected] = {}
        self._lock = threading.Lock()

    @property
    def methods(self) -> dict[str, Callable[[str, bytes], bytes]]:
        """What the site answers itself, by name."""
        return {sums.SUM: self._asked}

    def request(self, call: Call) -> None:
        if call.method == COMPUTE and call.value is not None:
            self._check_plain(call, call.value)
        if call.method != CREATE_VALUE or call.made is None:
            return
        call.made.notes[_TRAINS] = any(path in call.content for path in _TRAINING)
        sent = call.message.value
        if call.made.computation:
            call.made.notes[_HASH] = shared_work.hashed(sent)
        elif sent.WhichOneof("value") == "struct" and call.caller in self._expected:
            call.made.notes[_PARTS] = shared_work.parts(sent)

    def answer(self, call: Call, content: bytes) -> bytes:
        with self._lock:
            expected = self._expectation(call)
            if expected is None:
                self._check_plain(call, call.value)
                return content
            del self._expected[call.caller]
        with _refusing():
            if expected.masked:
                self._check_work(call, expected)
            if expected.form.noise is not None:
                self._budget.spend(expected.form.noise)
                call.spent = {"noise": expected.form.noise.multiplier}
            row = numbers.row(content)
            whole = expected.form.numbers(row, self._longest)
            if expected.form.noise is None and expected.form.shortened(row, self._longest) is not row:
                call.what += ", shortened"
            if expected.masked:
                whole = self._seat(call.caller).mask(expected.session, expected.number, whole)
            call.what += ", masked" if expected.masked else ", noised"
        return numbers.answer(whole)

    def _expectation(self, call: Call) -> _Expected | None:
        """Of this answer, if it is the one that something else is to be made of."""
        computation = call.value.parts[0].notes.get(_HASH) if call.value is not None and call.value.parts else None
        expected = self._expected.get(call.caller)
        return expected if expected is not None and expected.computation == computation else None

    def _check_plain(self, call: Call, value: Made | None) -> None:
        """Refuses an answer that would leave as it is, if this site does not give such."""
        if value is None or self._expectation(call) is not None or not _trains(value):
            return
        if self._only_masked or self._budget.ends:
            how = " and ".join(["masked"] * self._only_masked + ["noised"] * self._budget.ends)
            raise Refused(f"what is computed of this site's training images leaves {how}, or not at all")

    def _asked(self, caller: str, content: bytes) -> bytes:
        try:
            request = sums.from_bytes(content)
        except ValueError as error:
            raise Refused(f"no step of a sum ({error})") from None
        with _refusing():
            if request.get("step") == "form":
                return sums.to_bytes(self._expect(caller, request))
            return sums.to_bytes(self._seat(caller).answer(request))

    def _expect(self, caller: str, request: dict[str, Any]) -> dict[str, Any]:
        form, masked = Form.from_fields(request.get("form")), request.get("masked") is not False
        agreed = self._seat(caller).agreement() if masked else None
        if masked:
            if agreed is None or (agreed.session, agreed.number) != (request.get("session"), request.get("number")):
                raise Refused("a form for a secure sum that nobody has agreed on")
            if form.noise is not None and form.noise.shared_by > agreed.threshold:
                raise Refused(f"noise that {form.noise.shared_by} share, and {agreed.threshold} members are enough")
        elif form.noise is None or form.noise.shared_by != 1:
            raise Refused("numbers that are neither masked nor noised as a whole")
        if self._only_masked and not masked:
            raise Refused("this site gives its numbers to secure sums alone")
        if form.noise is not None:
            self._budget.check(form.noise)
        elif self._budget.ends:
            raise Refused("this site has a budget of differential privacy, and gives no numbers without noise")
        with self._lock:
            self._expected[caller] = _Expected(
                str(request.get("computation")),
                form,
                agreed.session if agreed else "",
                agreed.number if agreed else 0,
                masked,
            )
        return {}

    def _check_work(self, call: Call, expected: _Expected) -> None:
        """Only what all members have agreed to do is summed."""
        made = call.value.parts if call.value is not None else ()
        notes = [part.notes for part in made]
        if len(notes) != 2 or _HASH not in notes[0] or _PARTS not in notes[1]:
            raise Refused("an answer to be summed that is not one of a computation and its arguments")
        agreed = self._seat(call.caller).agreement()
        work = shared_work.digest(notes[0][_HASH], notes[1][_PARTS], expected.form.to_fields())
        if agreed is None or agreed.work != work:
            raise Refused("an answer to be summed of other work than the members have agreed on")

    def _seat(self, caller: str) -> Seat:
        with self._lock:
            if caller not in self._seats:
                chain, key = (pathlib.Path(file).read_bytes() for file in self._certificates.paths()[:2])
                identity = Identity.from_pem(self._name, chain, key)
                self._seats[caller] = Seat(
                    identity, lambda chain, name: sums.why_not_a_site(self._certificates, chain, name), self._note
                )
            return self._seats[caller]

    def _note(self, agreement: agreements.Agreement) -> None:
        self._log.info("asked for secure sum %d with %s", agreement.number, ", ".join(agreement.members))


def _trains(value: Made) -> bool:
    return bool(value.notes.get(_TRAINS)) or any(map(_trains, value.parts))


class _refusing:
    """A refusal of a sum is one of the relay."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, agreements.Refused):
            raise Refused(str(error)) from None
