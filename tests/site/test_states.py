"""What clients keep stays at their sites: the numbers of one machine, and no state on the way."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conftest import largest_difference
from tests.site.attacker import IMAGES, PATH, Attacker, array, pipeline
from tests.site.conftest import files
from tests.site.federation import Member, listening_in, serving
from tests.site.rounds import clients, table_of
from tests.site.test_engine import PIECE, across, pieces
from tffapps.engine import open_engine, remote
from tffapps.engine.held import Held, by_site
from tffapps.engine.tff_messages import array_pb2, data_type_pb2
from tffapps.errors import UserError
from tffapps.federated.cohort import play
from tffapps.federated.fedbn import FedBN
from tffapps.federated.fedstyle import FedStyle
from tffapps.federated.round import build_round
from tffapps.federated.scaffold import Scaffold
from tffapps.site.relay import Refused
from tffapps.site.state_store import StateStore
from tffapps.wire.states import Leaf, Order

METHODS = {Scaffold: 0.1, FedBN: 0.1, FedStyle: 0.01}  # and their rates: FedStyle's losses are large
COORDINATOR = "coordinator"
ROUNDS = 3


@pytest.fixture(scope="module")
def sites(noise, folder):
    with serving(folder, dict.fromkeys(("a", "b"), noise)) as members:
        yield members


class Rounds:
    """Played one by one; `kept` are the words, or the arrays, that clients' states are known by after each."""

    def __init__(self, round_, weights, noise) -> None:
        self.round, self.weights, self.noise = round_, weights, noise
        self.states, self.kept = [round_.start(weights)], [{}]

    def play(self, engine, number: int, least: int = 2):
        """The round of this number, of what there was after the one before."""
        del self.states[number:], self.kept[number:]
        had = self.kept[-1]

        def kept(place: int) -> list[np.ndarray]:
            return had.get(place) or self.round.first_kept(self.weights)

        everyone = clients(table_of(engine, self.noise))
        outcome = play(self.round, self.states[-1], everyone, number, least, None, kept)
        self.states.append(outcome.state)
        self.kept.append({**had, **{place: get() for place, get in outcome.kept.items()}})
        return outcome


def at(member: Member, words: list[np.ndarray]) -> list[np.ndarray]:
    """What a site has for these words, read there."""
    leaves = [Held.of(word).leaf for word in words]
    assert [leaf.place for leaf in leaves] == list(range(len(leaves))) and len({leaf.handle for leaf in leaves}) == 1
    stored = StateStore(member.states, 2**30, 30).get(COORDINATOR, leaves[0].handle)
    return [
        np.frombuffer(each.content, np.float32).reshape(tuple(each.shape.dim))
        if each.content
        else np.asarray(each.float32_list.value[0], np.float32)
        for each in stored
    ]


@pytest.fixture(scope="module")
def here(tiny_task, tiny_weights, noise):
    """By method: the rounds of one machine, and others that are to be played by sites."""
    found = {}

    def played(method) -> tuple[Rounds, Rounds]:
        if method not in found:
            round_ = build_round(tiny_task, method(learning_rate=METHODS[method]), clients=2)
            found[method] = rounds = Rounds(round_, tiny_weights, noise)
            with open_engine("in-process") as engine:
                for number in range(1, ROUNDS + 1):
                    rounds.play(engine, number)
        return found[method], Rounds(found[method].round, tiny_weights, noise)

    return played


def same(there: Rounds, one: Rounds, members) -> None:
    assert largest_difference(there.states[-1].weights, one.states[-1].weights) < 1e-5
    assert not there.states[-1].memory or largest_difference(there.states[-1].memory, one.states[-1].memory) < 1e-5
    for place, member in enumerate(members):
        kept = at(member, there.kept[-1][place])
        assert [value.shape for value in kept] == [value.shape for value in one.kept[-1][place]]
        assert largest_difference(kept, one.kept[-1][place]) < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_a_state_stays_where_it_is(method, sites, folder, here, tiny_weights):
    one, there = here(method)
    (first, second), round_ = sites, one.round
    with listening_in(folder, first) as (address, inward, outward):
        with open_engine(f"{address},{second.address}", files(folder, COORDINATOR)) as engine:
            counts = []
            for number in range(1, ROUNDS + 1):
                counts.append(engine.context.traffic())
                there.play(engine, number)
            sent, received = np.diff([*counts[-1:], engine.context.traffic()], axis=0)[0]
        heard = bytes(inward + outward)
    words = 2 * 150 * len(round_.specs.kept)  # of the last round: handles, and no state
    assert round_.bytes_up(2) <= received < 1.1 * round_.bytes_up(2) + words
    assert round_.bytes_down(2) <= sent < round_.bytes_down(2) + words + 2 * 60_000  # and the pipelines
    same(there, one, sites)
    assert largest_difference(one.kept[-1][0], round_.first_kept(tiny_weights)) > 1e-4
    assert max(there.states[1].weights, key=np.size).tobytes()[:PIECE] in heard  # what does cross is heard
    secret = [piece for value in at(first, there.kept[-1][0]) if value.any() for piece in pieces(value.tobytes())]
    assert len(secret) > 2 and not [piece for piece in secret if piece in heard]
    with across(sites, folder) as engine:
        engine.forget(there.kept[-1].values())
        assert not list(first.states.rglob(next(iter(by_site([there.kept[-1][0]])["a"]))[:32]))


def test_a_round_is_played_again_after_a_crash(noise, folder, here, tmp_path):
    """Of the coordinator in a round whose answers were given, and of a site that is started anew from its folder."""
    one, there = here(Scaffold)
    first = Member(noise, folder, "a", states=tmp_path / "states")
    with serving(folder, {"b": noise}) as others:
        with across([first, *others], folder) as engine:
            for number in (1, 2, 3):
                there.play(engine, number)
        first.kill()
        first.close()
        first = Member(noise, folder, "a", first.port, states=tmp_path / "states")
        members = [first, *others]
        np.savez(tmp_path / "kept.npz", *there.kept[1][0])  # what a coordinator has on its disk
        there.kept[1][0] = list(np.load(tmp_path / "kept.npz").values())
        with across(members, folder) as engine:
            for number in (3, 2, 3):  # round 3 again; then a damaged checkpoint: from that of round 1
                there.play(engine, number)
            same(there, one, members)
            lost = there.kept[1]
            there.play(engine, 4)
            there.kept[3] = {**there.kept[3], 0: lost[0]}  # three rounds ago
            outcome = there.play(engine, 4, least=1)
            assert list(outcome.reports) == ["b"]
            assert outcome.left_out["a"].startswith(f"failed: {members[0].address}: refused by the site: what this ")
            assert "is not here" in outcome.left_out["a"] and "--fresh" in outcome.left_out["a"]
            there.kept[3] = {**there.kept[3], 0: there.kept[3][1]}  # another site's
            outcome = there.play(engine, 4, least=1)
            assert "keeps at site b cannot be used at site a: it does not leave" in outcome.left_out["a"]
        first.close()


SHAPE = (4, 4)
STATE = tff.TensorType(np.float32, SHAPE)


@tff.tensorflow.computation(IMAGES, STATE)
def trained(data, state):
    return data.reduce(0.0, lambda total, batch: total + tf.reduce_sum(batch[0])) + state, tf.constant(1.0)


@tff.tensorflow.computation(IMAGES, STATE)
def grown(data, state):
    return tf.concat([state, state], 0) + data.reduce(0.0, lambda total, batch: total + batch[0][0, 0, 0, 0]), 1.0


@tff.tensorflow.computation(STATE)
def shown(state):
    return tf.reduce_sum(state)  # a report


HELD = tff.StructType([tff.TensorType(np.uint8, [32]), np.float32])


def test_what_an_attacker_gets_of_a_state(noise, folder, sites):
    """Nothing that a round would not give: no room in an answer, no second place, no state of others, no growth."""
    attacker = Attacker(folder, sites[0])

    def ask(computation, *arguments, order=None, kind=None):
        sent = tff.framework.serialize_computation(computation)
        argument = remote.struct(list(arguments), order) if len(arguments) > 1 or order else arguments[0]
        return attacker.worker.evaluate(sent, argument, kind or computation.type_signature.result)

    def word(text: str):
        return remote._text(text)

    data, ones = pipeline(PATH), array(np.ones(SHAPE, np.float32))
    handle, _ = ask(trained, data, ones, order=Order(range(1), range(1)), kind=HELD)
    leaf = Leaf(handle.numpy().tobytes().hex(), 0)
    again, _ = ask(trained, data, word(str(leaf)), order=Order(range(1)), kind=HELD)
    assert again.numpy().tobytes()[:16] == handle.numpy().tobytes()[:16] != again.numpy().tobytes()[16:]
    refused = {
        r"result with float\[4,4\] in it, and no array of this shape": (trained, data, word(str(leaf))),
        "something of what a client keeps, and of none of its images": (shown, word(str(leaf))),
        "no state of the kind that it came of": (grown, data, word(str(leaf)), Order(range(1))),
        "begin the run anew": (trained, data, word(str(Leaf("00" * 32, 0))), Order(range(1))),
        "an array that a state of 1 does not have": (trained, data, word(str(leaf._replace(place=1))), Order(range(1))),
        "several states, or one of them twice": (trained, word(str(leaf)), word(str(leaf)), Order(range(1))),
        "held of no state": (trained, data, ones, Order(range(1))),
        "what is to be held cannot be read": (trained, data, ones, Order(range(5, 4))),
        "an argument with texts in it": (trained, data, word("../../log.jsonl")),
    }
    for why, asked in refused.items():
        order = asked[-1] if isinstance(asked[-1], Order) else None
        with pytest.raises(remote.Denied, match=why):
            ask(*(asked[:-1] if order else asked), order=order, kind=HELD if order else None)
    attacker.channel.close()


def one_array(count: int, value: float = 1.0):
    content = np.full(count, value, np.float32).tobytes()
    return array_pb2.Array(dtype=data_type_pb2.DT_FLOAT, shape={"dim": [count]}, content=content)


def test_the_store_keeps_little_and_to_itself(tmp_path):
    store = StateStore(tmp_path / "states", largest=7 * 4096, days=30)
    handles = [store.put("c", [one_array(3, 0)])]
    for number in range(1, 5):
        handles.append(store.put("c", [one_array(3, number), one_array(1)], handles[-1]))
    assert len({handle[:32] for handle in handles}) == 1
    assert store.get("c", handles[4])[0] == one_array(3, 4) and len(store.get("c", handles[2])) == 2
    store.put("c", [one_array(3, 9)], handles[3])  # the round once more: of another end there is no need
    for caller, gone in (("c", handles[4]), ("c", handles[1]), ("d", handles[3])):
        with pytest.raises(Refused, match="is not here"):
            store.get(caller, gone)
    (files_,) = [list(folder.iterdir()) for folder in (tmp_path / "states" / "c").iterdir()]
    assert len(files_) == 3 and {file.stat().st_mode & 0o777 for file in files_} == {0o600}
    assert (tmp_path / "states").stat().st_mode & 0o777 == 0o700
    with pytest.raises(Refused, match="the site keeps 12288 bytes of states; its policy allows 28672"):
        store.put("c", [one_array(5000)])
    others = [store.put("d", [one_array(1)]) for _ in range(4)]
    with pytest.raises(Refused, match="28672 bytes of states"):  # however small: files are not for nothing
        store.put("d", [one_array(1)])
    store.forget("c", others)  # another's are not to be forgotten
    store.forget("d", others[:1])
    long_ago = time.time() - 31 * 86400
    os.utime(tmp_path / "states" / "d" / others[1][:32] / others[1][32:], (long_ago, long_ago))
    last = store.put("d", [one_array(1)])
    for gone in others[:2]:
        with pytest.raises(Refused, match="is not here"):
            store.get("d", gone)
    place = tmp_path / "states" / "d" / last[:32] / last[32:]
    place.write_bytes(place.read_bytes()[:-1] + b"x")
    with pytest.raises(Refused, match="is damaged"):
        StateStore(tmp_path / "states", 7 * 4096, 30).get("d", last)


def test_a_word_for_an_array(tmp_path):
    leaf = Leaf("ab" * 32, 7)
    held = Held("north wing", leaf)
    assert Held.of(held.to_array()) == held and Held.of(np.zeros(3)) is None and Held.of(np.array("x")) is None
    with pytest.raises(UserError, match="at site north wing cannot be used at site b"):
        held.at("b")
