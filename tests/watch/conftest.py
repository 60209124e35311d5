"""Folders of runs as `tffapps.runs` writes them, and a server that shows them."""

import contextlib
import http.client
import json
import threading

import pytest

from tffapps.runs import Run
from tffapps.watch.runs import Runs
from tffapps.watch.server import Server


def round_row(number: int, **values) -> dict:
    return {
        "round": number, "accuracy": 0.5 + number / 100, "training_loss": 1 / number, "examples": 30, "clients": 3,
        "left_out": "", "bytes_down": 1000, "bytes_up": 2000, "seconds": 2.0, "training_seconds": 1.0,
        "peak_memory_mb": 400 + number, **values,
    }  # fmt: skip


def make_run(root, name: str, rounds: int, *, of: int = 10, finished: bool = False, seed: int = 0, last=None) -> Run:
    """It is open, and so it runs; the caller closes it."""
    labels = {"method": name, "seed": seed}
    run = Run(root, name, {"labels": labels, "rounds": of}, {"app": "classify", "labels": labels})
    for number in range(1, rounds + 1):
        run.add_round(round_row(number, **((last or {}) if number == rounds else {})))
    if finished:
        run.finish({})
    return run


@contextlib.contextmanager
def serving(folder):
    with Server(Runs(folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path: str, *, method: str = "GET", host: str | None = None):
    """Status, headers, body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.port}")
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def listing(server, since: int = 0) -> dict:
    status, _, body = ask(server, f"/runs.json?since={since}")
    assert status == 200
    return json.loads(body)


@pytest.fixture
def at_once(monkeypatch):
    """Every question looks at the disk."""
    monkeypatch.setattr("tffapps.watch.runs._SHORTEST", 0.0)
