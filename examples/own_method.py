"""A method of one's own, from its rule to its row in the table, without touching the package.

    python -m examples.own_method --methods fedavg,clipped --largest 0.5 --data my_images --results my_results

`Method` (tffapps/federated/method.py) says what else may differ from FedAvg: the whole local training, the client's or
the server's optimiser, numbers that clients report, what they keep, what the server remembers.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import ClassVar

from tffapps import classify, cli
from tffapps.federated.method import Method
from tffapps.federated.methods import METHODS
from tffapps.settings import setting


@dataclasses.dataclass(frozen=True)
class Clipped(Method):
    """FedAvg whose clients shorten every gradient that is longer than `largest`."""

    name: ClassVar[str] = "clipped"

    largest: float = setting(1.0, "largest norm of a local gradient", above=0)

    def gradients(self, loss_and_gradients, variables, start):
        import tensorflow as tf  # here, so that --help need not wait for it

        loss, gradients = loss_and_gradients()
        return loss, tf.clip_by_global_norm(gradients, self.largest)[0]


METHODS[Clipped.name] = Clipped
APP = dataclasses.replace(
    classify.APP,
    settings=(*classify.APP.settings, Clipped),  # its fields are flags now
    methods=(*METHODS, *classify.REFERENCES),
)

if __name__ == "__main__":
    sys.exit(cli.main(APP))
