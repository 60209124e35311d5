"""An honest run beside attackers of three kinds, each a process of its own: it ends with the numbers without them."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
import tensorflow_federated as tff

from tests.conftest import largest_difference
from tests.engine.closed import need_namespaces
from tests.site import test_gate as gate
from tests.site.attacker import PATH, pipeline
from tests.site.conftest import files
from tests.site.federation import Member
from tests.site.rounds import clients, table_of
from tests.site.test_answers import text, writing
from tests.test_commands import ROOT, environment
from tffapps.engine import Engine, open_engine, remote
from tffapps.federated.cohort import play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.site import data
from tffapps.site import log as logs

TRIES = {
    "an image": (gate.one_image, True), "raw file": (gate.raw_file, False), "secret file": (gate.secret_file, False),
    "writes": (gate.writes, False), "connects": (gate.connects, False), "runs Python": (gate.runs_python, False),
    "looks around": (gate.looks_around, False), "unknown": (gate.made_up, True),
}  # fmt: skip


@contextlib.contextmanager
def started(*words: object) -> Iterator[tuple[str, subprocess.Popen]]:
    """Its first line, and the program, which ends with the block unless it was ended in it."""
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.site.hostile", *map(str, words)], cwd=ROOT, env=environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield program.stdout.readline().strip(), program
    finally:
        with contextlib.suppress(ValueError):  # it was ended
            program.communicate(timeout=20)


@pytest.fixture
def requests(tmp_path):
    """A folder with what a coordinator would have computed if it could."""
    folder = tmp_path / "requests"
    folder.mkdir()
    for name, (computation, of_an_image) in TRIES.items():
        made = computation() if computation is gate.made_up else tff.framework.serialize_computation(computation)
        (folder / f"{name}.computation").write_bytes(remote.computation_value(made).SerializeToString())
        if of_an_image:
            (folder / f"{name}.argument").write_bytes(pipeline(PATH).SerializeToString())
    return folder


@pytest.fixture
def answers(noise, tmp_path):
    """Files of what site b publishes, as it should, and of a graph that writes a file; the latter, not there yet."""
    target = tmp_path / "written"
    published = json.dumps({**data.describe(data.load(noise, "b"), "b"), "formats": ["png"]}).encode()
    contents = {"first": text(published), "later": writing(target)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content.SerializeToString())
    return tmp_path / "first", tmp_path / "later", target


def two_rounds(engine: Engine, round_, weights, images: pathlib.Path, asked=None):
    state, everyone = round_.start(weights), clients(table_of(engine, images))
    for number in (1, 2):
        outcome = play(round_, state, everyone, number, 1, asked=asked)
        state = outcome.state
    return outcome


def test_an_honest_run_beside_attackers(requests, answers, noise, folder, tiny_task, tiny_weights):
    need_namespaces()
    round_, (first, later, target) = build_round(tiny_task, FedAvg(learning_rate=0.1)), answers
    with open_engine("in-process") as engine:
        alone = two_rounds(engine, round_, tiny_weights, noise, asked=[0])
    with contextlib.ExitStack() as stack:
        site = Member(noise, folder, "a")
        stack.callback(site.close)
        stack.enter_context(started("stranger", site.port))
        address, _ = stack.enter_context(started("site", folder, "b", first, later))
        begun, attacker = stack.enter_context(started("coordinator", site.address, folder, requests))
        assert begun == "begun"
        with open_engine(f"{site.address},{address}", files(folder, "coordinator")) as engine:
            outcome = two_rounds(engine, round_, tiny_weights, noise)
            said = json.loads(attacker.communicate(timeout=20)[0])
        assert said["passes"] > 2 and said["found"].keys() == TRIES.keys()
        for name, results in said["found"].items():
            assert all(result.startswith("refused by the site: ") for result in results), name
        assert not target.exists() and not (site._folder / "train/written").exists()
        refused = [line for line in logs.read(site.log) if line["decision"].startswith("refused: ")]
        assert len(refused) >= len(TRIES) * said["passes"] and logs.check(site.log).lines > len(refused)
    assert list(outcome.reports) == ["a"] and "refused what site b answered: " in outcome.left_out["b"]
    assert largest_difference(outcome.state.weights, alone.state.weights) < 1e-5
