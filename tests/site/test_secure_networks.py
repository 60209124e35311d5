"""Four sites, each in a network of its own, and a coordinator that reaches them over a bridge."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.engine.closed import need_namespaces
from tests.site.conftest import PIXELS
from tests.site.federation import flags_for
from tests.site.quartet import NAMES, draw, heard, whole_numbers
from tests.test_commands import environment
from tffapps import classify, cli
from tffapps.site import certs

pytestmark = pytest.mark.slow
PORT, BRIDGE, SUBNET = 9000, f"tff{os.getpid() % 10_000}", "10.211.37"
RUN = [
    "--profile=smoke", f"--size={PIXELS}", "--batch=4", "--seeds=0", "--learning-rate=0.01", "--model=tiny",
    "--head=conv", "--methods=fedavg", "--aggregator=secure",
]  # fmt: skip


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def hosts():
    """By site: the name of its network and its address there; the coordinator is on this side of the bridge."""
    need_namespaces()
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("networks are made with ip, by the administrator")
    made: list[list[str]] = []
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        made.append(["link", "delete", BRIDGE])
        ip("address", "add", f"{SUBNET}.1/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        found = {}
        for number, name in enumerate(NAMES, 2):
            network, end = f"{BRIDGE}{name}", f"{BRIDGE}v{name}"
            ip("netns", "add", network)
            made.insert(0, ["netns", "delete", network])
            ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", network)
            ip("link", "set", end, "master", BRIDGE, "up")
            ip("-n", network, "address", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
            ip("-n", network, "link", "set", "eth0", "up")
            found[name] = (network, f"{SUBNET}.{number}")
        yield found
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no networks can be made here: {error.stderr.decode().strip()}")
    finally:
        for words in made:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(*words)


@pytest.fixture(scope="module")
def federation(hosts, tmp_path_factory):
    root = tmp_path_factory.mktemp("networks")
    folder, images = root / "certificates", draw(root / "images")
    certs.write(folder, NAMES, hosts={name: [address] for name, (_, address) in hosts.items()})
    processes = {}
    (root / "policy.ini").write_text("[privacy]\nonly_masked = yes\n")
    try:
        for name, (network, address) in hosts.items():
            (root / name).mkdir()
            program = [
                "ip", "netns", "exec", network, sys.executable, "-m", "tffapps.site", "serve", f"--data={images}",
                f"--name={name}", f"--listen={address}:{PORT}", f"--cert={folder / name}.pem",
                f"--key={folder / name}.key", f"--ca={folder / 'ca.pem'}", f"--policy={root / 'policy.ini'}",
            ]  # fmt: skip
            with open(root / name / "log.txt", "w") as log:
                processes[name] = subprocess.Popen(
                    program, cwd=root / name, env=environment(), stdout=log, stderr=log, start_new_session=True
                )
        deadline = time.monotonic() + 90
        while not all("listening on" in (root / name / "log.txt").read_text() for name in NAMES):
            assert time.monotonic() < deadline, {name: (root / name / "log.txt").read_text() for name in NAMES}
            time.sleep(0.2)
        yield folder, images
    finally:
        for process in processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)


def uniform(numbers):
    return stats.kstest(numbers.view(np.uint64) / 2.0**64, "uniform").pvalue


def test_four_networks(hosts, federation, tmp_path, monkeypatch):
    folder, images = federation
    engine = flags_for(folder, *(f"{address}:{PORT}" for _, address in hosts.values()))
    with working_in(tmp_path), heard(monkeypatch) as messages:
        assert cli.main(classify.APP, [*RUN, "--rounds=2", f"--data={images}", "--results=here"]) == 0
        assert cli.main(classify.APP, [*RUN, "--rounds=2", *engine, "--results=there"]) == 0
    here, there = (record(tmp_path / place / "classify", "fedavg-federation-seed0") for place in ("here", "there"))
    assert (there[0].pop("bytes_up") == 2 * here[0].pop("bytes_up")).all()  # masked, a number has eight bytes
    pd.testing.assert_frame_equal(there[0], here[0], atol=1e-3)
    assert largest_difference(there[1], here[1]) < 1e-3
    sent = whole_numbers(messages)
    assert len(sent) == 8 and min(map(len, sent)) > 100_000
    differences = [a - b for number, a in enumerate(sent) for b in sent[:number]]
    assert min(uniform(each[:200_000]) for each in (*sent, *differences)) > 1e-6
