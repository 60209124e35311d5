"""Logit adjustment (Menon et al. 2021) in every framework: a rare class has to win against its rarity in training, and
is not disadvantaged in the end. The class shares are those of labels that whoever trains knows: the server's, or where
clients have labels of their own (csfl, fssfl and its relatives) each client's.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tffapps import ClassBalance, Client, Task
from tffapps.federated.unequal import WithClassCounts


def task(plain: Task, tau: float) -> Task:
    """The same with this loss, at the server as well."""
    made = ClassBalance(loss="logit-adjusted", loss_tau=tau).task(plain)
    if plain.server_spec is None:
        return made
    counts = made.client_spec.counts
    return dataclasses.replace(made, server_spec=WithClassCounts(plain.server_spec, counts))


def client(plain: Client, counts: np.ndarray) -> Client:
    """The same, told how many images of each class are known."""
    return dataclasses.replace(plain, batches=told(plain.batches, counts))


def told(data: Callable[[int], Any], counts: np.ndarray) -> Callable[[int], WithClassCounts]:
    """Of a client's data, or of the server's, in a round."""
    return lambda number: WithClassCounts(data(number), counts)
