"""Somebody with the coordinator's certificate at a site, who sends what he likes."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd
import pytest
import tensorflow_federated as tff

from tests.engine.closed import need_namespaces
from tests.site.conftest import PIXELS, files
from tests.site.federation import Member
from tests.site.rounds import batches
from tffapps.engine import remote
from tffapps.engine.tff_messages import executor_pb2
from tffapps.site import log as logs
from tffapps.wire.channel import channel

PATH = "train/0/000000"
IMAGES = tff.SequenceType(
    tff.types.to_type((tff.TensorType(np.float32, [None, PIXELS, PIXELS, 3]), tff.TensorType(np.int32, [None])))
)


class Attacker:
    """Somebody with the coordinator's certificate, who sends what he likes."""

    def __init__(self, folder, site: Member) -> None:
        self.channel = channel(site.address, files(folder, "coordinator"))
        self.worker, self.site = remote.RemoteWorker(self.channel, lambda: True), site

    def tries(self, computation: tff.Computation, *arguments: executor_pb2.Value):
        kind = computation.type_signature.result
        sent = tff.framework.serialize_computation(computation)
        argument = None if not arguments else arguments[0] if len(arguments) == 1 else remote.struct(list(arguments))
        return self.worker.evaluate(sent, argument, kind)

    def refused(self, *asked) -> str:
        """Why; the site's log must say the same."""
        with pytest.raises(remote.Denied, match=r"^refused by the site: .*") as error:
            self.tries(*asked)
        (line,) = [line for line in logs.read(self.site.log) if line["decision"] != "passed"][-1:]
        assert line["who"] == "coordinator" and line["out"] == 0
        assert line["decision"] == str(error.value).replace(" by the site", "", 1)
        return str(error.value).removeprefix("refused by the site: ")


@contextlib.contextmanager
def attacking(noise, folder, **options):
    need_namespaces()
    site = Member(noise, folder, "a", **options)
    attacker = Attacker(folder, site)
    try:
        yield attacker
    finally:
        attacker.channel.close()
        site.close()


def pipeline(*paths: str) -> executor_pb2.Value:
    rows = pd.DataFrame({"path": list(paths), "label": ["class0"] * len(paths)})
    return remote.serialized(batches(rows, shuffle=False), IMAGES)


def array(value: np.ndarray) -> executor_pb2.Value:
    return remote.serialized(value, tff.TensorType(value.dtype, value.shape))
