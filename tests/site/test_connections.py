"""A coordinator that wants a connection made from a site: to a listener of its own, which sees whether anybody came.

The one thing in the worker that calls others is its reader of files in a store on the net. Its environment says where
to ask for leave, here of us, and it is in the network of this machine, as on a kernel that allows no private one: what
holds it back then is the gate, or the sandbox alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.engine.closed import FORBIDDEN
from tests.site.attacker import attacking
from tffapps.engine import closed_worker, remote, sandbox
from tffapps.site import confinement


class Listener:
    """At a port of this machine; counts who comes, and sends everybody away."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.came = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._socket.accept()[0].close()
                self.came.set()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def listener():
    one = Listener()
    yield one
    one.close()


def registers(place: str):
    """Offers a dataset to a server of TensorFlow's data service."""

    @tff.tensorflow.computation
    def asks():
        data = tf.data.Dataset.range(1)._variant_tensor
        return tf.raw_ops.RegisterDatasetV2(
            dataset=data, address=f"grpc://{place}", protocol="grpc", external_state_policy=0, element_spec=b"",
            requested_dataset_id="", metadata=b"",
        )  # fmt: skip

    return asks


def reads_from_afar(place: str):
    """A dataset whose elements are another machine's."""

    @tff.tensorflow.computation
    def asks():
        of = tf.data.experimental.service.from_dataset_id(
            "parallel_epochs", f"grpc://{place}", tf.constant("1"), tf.TensorSpec([], tf.int64)
        )
        return of.reduce(np.int64(0), lambda total, one: total + one)

    return asks


ASKED = {registers: "RegisterDatasetV2", reads_from_afar: "DataServiceDatasetV4"}


@tff.tensorflow.computation
def reads_from_a_store():
    return tf.io.read_file("gs://bucket/file")


def tried(attacker, computation) -> str:
    """What comes of it within seconds; who waits for a server waits long."""
    said: list[str] = []

    def run() -> None:
        try:
            attacker.tries(computation)
            said.append("done")
        except (remote.WorkFailed, ConnectionError) as error:
            said.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(5)
    return said[0] if said else "waits"


@pytest.mark.parametrize("guarded", ["nothing", "sandbox", "gate"])
def test_nobody_is_called(guarded, noise, folder, listener, monkeypatch):
    if sandbox.lacks():
        pytest.skip(f"no {sandbox.lacks()} here")
    leads_here = {"GCE_METADATA_HOST": listener.place, "no_proxy": "*"}
    closed = confinement.of_the_worker
    monkeypatch.setattr(
        confinement, "of_the_worker", lambda *names: dataclasses.replace(closed(*names), environment=leads_here)
    )
    for name, value in leads_here.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(closed_worker, "_PROGRAM", FORBIDDEN)  # the network of this machine
    monkeypatch.setattr(closed_worker, "_warn", lambda line: None)
    with attacking(noise, folder, gate=guarded == "gate", sandboxed=guarded != "nothing") as attacker:
        if guarded == "gate":
            assert "the operation ReadFile" in attacker.refused(reads_from_a_store)
            for asks, operation in ASKED.items():
                assert f"the operation {operation}" in attacker.refused(asks(listener.place))
        else:
            assert tried(attacker, reads_from_a_store) != "done"
        assert listener.came.wait(0.5) == (guarded == "nothing")
