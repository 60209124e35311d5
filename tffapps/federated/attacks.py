"""Clients that attack, simulated: what they do to their update, or to the data they train on. Nothing of federation.

    sign-flip    the update times −factor (Li et al. 2019, RSA): away from where the client has learned to go
    scaling      the update times a large factor (Bagdasaryan et al. 2020, without their backdoor)
    free-rider   the model as it came, for an update of 0 (Fraboni et al. 2021, plain)
    label-flip   every label is the next class's (Tolpegin et al. 2020: one class's is another's)
    backdoor     a share of the images gets a patch and the label of a target class (Gu et al. 2017, BadNets), and
                 the update perhaps a factor (Bagdasaryan et al. 2020, model replacement)

What is done to an update is a number that the client's data carries (`WithFactor`), 1 for the honest: one compiled
round serves all of these attacks, strengths and choices of attackers. An attacker claims as many examples as it has.
What the clients of a method send beside their update is not attacked.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from tffapps.federated.lazy import np, tf
from tffapps.federated.method import Method
from tffapps.federated.unequal import WithClassCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, ClientResult
    from tffapps.federated.task import Task

SIGN_FLIP, SCALING, LABEL_FLIP, BACKDOOR, FREE_RIDER = NAMES = (
    "sign-flip",
    "scaling",
    "label-flip",
    "backdoor",
    "free-rider",
)
_STREAM = 613  # of random numbers that decide who attacks, apart from all others of a seed


@dataclasses.dataclass(frozen=True)
class Attack:
    """One of a run, whole, in its key. What it does not use has the value that changes nothing."""

    name: str
    attackers: int
    factor: float = 1.0  # of an attacker's update
    target: str = ""  # backdoor: the class that patched images are to be taken for
    patch: float = 0.0  # its side, as a share of the image's
    share: float = 0.0  # of the images of other classes that an attacker patches


def chosen(seed: int, clients: int, count: int) -> list[int]:
    """Positions of the clients that attack in the runs of a seed."""
    return sorted(np.random.default_rng([seed, _STREAM]).choice(clients, count, replace=False).tolist())


def next_labels(codes: Sequence[int] | np.ndarray, classes: int) -> np.ndarray:
    """Label-flip: all are wrong, and all attackers agree."""
    return (np.asarray(codes) + 1) % classes


def to_patch(codes: Sequence[int] | np.ndarray, target: int, share: float, seed: int, position: int) -> np.ndarray:
    """Places of the images that an attacker patches: a share of those that are not of the target class anyway."""
    others = np.flatnonzero(np.asarray(codes) != target)
    count = int(np.ceil(share * len(others)))
    return np.sort(np.random.default_rng([seed, _STREAM, position]).permutation(others)[:count])


class WithFactor(NamedTuple):
    """A client's data: what its method asks for, and what its update is multiplied by."""

    training: Any
    factor: Any  # float32


def with_factor(data: Any, factor: float) -> Any:
    """The data of a client of `attacked_task`; class counts, where its loss goes by them, stay outermost."""
    if isinstance(data, WithClassCounts):
        return WithClassCounts(WithFactor(data.training, tf.constant(factor, tf.float32)), data.counts)
    return WithFactor(data, tf.constant(factor, tf.float32))


def attacked_task(task: Task) -> Task:
    """The same, of clients whose data carries a factor."""
    spec, number = task.client_spec, tf.TensorSpec([], tf.float32)
    if isinstance(spec, WithClassCounts):
        return dataclasses.replace(task, client_spec=WithClassCounts(WithFactor(spec.training, number), spec.counts))
    return dataclasses.replace(task, client_spec=WithFactor(spec, number))


def attacked_method(method: Method) -> Method:
    """The same method, at clients whose data carries a factor."""
    fields = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    kind: Any = type(method)
    return _attacked_kind(kind)(**fields)


class _Attacked(Method):
    """Before a method in a class's bases. Not a dataclass: the fields are those of the method behind it."""

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        weights = task.model.weights
        given = [variable.read_value() for variable in weights]
        done = super().work(task, data.training, site)
        for variable, value in zip(weights, given):
            variable.assign(multiplied(value, variable, data.factor))
        return done


def multiplied(given: Any, trained: Any, factor: Any) -> Any:
    """The weights to hand in so that the update is `factor` times what it was."""
    return given + factor * (trained - given)


@functools.cache
def _attacked_kind(kind: type[Method]) -> type[Method]:
    return type(f"Attacked{kind.__name__}", (_Attacked, kind), {})
