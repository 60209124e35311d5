"""Sites that go away and come back: left out, named and taken back, with the numbers of the same dropouts here."""

from __future__ import annotations

import os
import signal
import socket
import threading

import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tests.engine.closed import need_namespaces
from tests.site.conftest import files
from tests.site.federation import Member
from tests.site.rounds import clients, table_of
from tests.site.test_engine import across
from tffapps.engine import open_engine
from tffapps.errors import RunStopped, UserError
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round


@pytest.fixture(scope="module")
def round_(tiny_task):
    return build_round(tiny_task, FedAvg(learning_rate=0.1))


def with_second(everyone: list[Client], change) -> list[Client]:
    """The clients a and b, whose data is changed in the second round."""
    first, second = everyone
    return [
        first,
        Client("b", lambda number: change(second.batches(number)) if number == 2 else second.batches(number)),
    ]


def broken(batches: tf.data.Dataset) -> tf.data.Dataset:
    def fail(images, labels):
        with tf.control_dependencies([tf.debugging.assert_less(tf.reduce_max(images), 0.0)]):
            return tf.identity(images), labels

    return batches.map(fail)


def rounds_of_three(engine, round_, weights, images, change, before_third):
    state, everyone = round_.start(weights), with_second(clients(table_of(engine, images)), change)
    outcomes = []
    for number in (1, 2, 3):
        if number == 3:
            before_third()
        outcomes.append(play(round_, state, everyone, number, min_clients=1))
        state = outcomes[-1].state
    return outcomes


def kill_site(site: Member) -> None:
    site.kill()


def kill_worker(site: Member) -> None:
    os.kill(site.worker.pid, signal.SIGKILL)


@pytest.mark.parametrize("blow", [kill_site, kill_worker])
def test_a_site_that_dies_in_a_round_is_left_out_and_taken_back(blow, members, folder, noise, round_, tiny_weights):
    def endless(batches: tf.data.Dataset) -> tf.data.Dataset:
        threading.Timer(1.5, blow, [members[1]]).start()  # in the middle of it: it would never end by itself
        return batches.repeat()

    with open_engine("in-process") as engine:
        here = rounds_of_three(engine, round_, tiny_weights, noise, broken, lambda: None)
    with across(members, folder) as engine:
        back = members[1].start if blow is kill_site else lambda: None
        there = rounds_of_three(engine, round_, tiny_weights, noise, endless, back)
    assert [outcome.took_part for outcome in there] == [outcome.took_part for outcome in here] == [2, 1, 2]
    assert there[1].left_out == {"b": "failed: the connection was lost"} and there[2].left_out == {}
    for mine, theirs in zip(here, there):
        assert largest_difference(mine.state.weights, theirs.state.weights) < 1e-5


def test_without_enough_sites_the_run_stops(members, folder, noise, round_, tiny_weights):
    with across(members, folder) as engine:
        everyone = clients(table_of(engine, noise))
        members[1].kill()
        with pytest.raises(RunStopped, match=r"only 1 of 2 clients .*b: failed: localhost:\d+: Connection refused"):
            play(round_, round_.start(tiny_weights), everyone, 1, min_clients=2)
        members[1].start()
        assert play(round_, round_.start(tiny_weights), everyone, 1, min_clients=2).took_part == 2


def test_a_site_that_comes_back_with_other_data_is_not_taken(members, folder, noise, round_, tiny_weights):
    with across(members, folder) as engine:
        everyone = clients(table_of(engine, noise))
        members[1].kill()
        other = Member(noise, folder, "b", port=members[1].port, fingerprint="another")
        try:
            outcome = play(round_, round_.start(tiny_weights), everyone, 1, min_clients=1)
        finally:
            other.close()
    assert "site b came back with other data" in outcome.left_out["b"]


def opened(addresses: str, shown) -> None:
    with open_engine(addresses, shown):
        pass


@pytest.mark.parametrize(
    ("change", "what"), [({"protocol": 1}, "protocol 1"), ({"frameworks": {"tensorflow": "1.0"}}, "tensorflow 1.0")]
)
def test_a_site_with_another_version(noise, folder, change, what):
    need_namespaces()
    site = Member(noise, folder, "a", **change)
    try:
        with pytest.raises(UserError, match=rf"localhost:\d+: site a has {what}, here is .*install the same"):
            opened(site.address, files(folder, "coordinator"))
    finally:
        site.close()


def test_a_site_under_another_name_than_its_certificates(noise, folder):
    need_namespaces()
    site = Member(noise, folder, "a", name="b")
    try:
        with pytest.raises(UserError, match="site b shows a certificate for a; it must be for its name"):
            opened(site.address, files(folder, "coordinator"))
    finally:
        site.close()


def test_the_same_site_twice(members, folder):
    port = members[0].port
    with pytest.raises(UserError, match="are both called a; give each site once"):
        opened(f"localhost:{port},127.0.0.1:{port}", files(folder, "coordinator"))
    with pytest.raises(UserError, match="is there twice"):
        opened(f"localhost:{port},localhost:{port}", files(folder, "coordinator"))


def test_who_cannot_be_reached_or_trusted(members, folder, other):
    address = members[0].address
    with pytest.raises(UserError, match=r"--cert .*coordinator-old.pem: expired on"):
        opened(address, files(folder, "coordinator-old"))
    with pytest.raises(UserError, match=f"{address}: its certificate is not from --ca"):
        opened(address, files(other, "coordinator"))
    with pytest.raises(UserError, match="not made for a coordinator"):
        opened(address, files(folder, "b"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"localhost:{taken.getsockname()[1]}"
    with pytest.raises(UserError, match=f"{nobody}: Connection refused; is the site running"):
        opened(f"{address},{nobody}", files(folder, "coordinator"))
    with pytest.raises(UserError, match="sites ask who is calling; give --cert, --key and --ca"):
        opened(address, None)
