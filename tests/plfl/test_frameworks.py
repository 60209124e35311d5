"""Federations over a small stand-in: what they reduce to, and a frozen base whose features are stored."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from models.cut import split
from tests.conftest import largest_difference
from tffapps import cli
from tffapps.data import knees, oai
from tffapps.data.images import Reader
from tffapps.data.pool import Pool
from tffapps.engine import open_engine
from tffapps.engine.values import HERE
from tffapps.federated.cohort import Client, play, stream
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy
from tffapps.plfl import (
    APP,
    SPLITS,
    CsflSettings,
    FssflSettings,
    GoldSettings,
    LocalSettings,
    PlflSettings,
    PlusSettings,
    TargetSettings,
    division,
    inputs,
)
from tffapps.plfl.frameworks import Frameworks

EPOCHS = 3
FLAGS = ["--profile", "smoke", "--size", "32", "--freeze", "yes", "--epochs", str(EPOCHS)]
FLAGS += ["--optimizer", "sgd", "--learning-rate", "0.05", "--schedule", "constant", "--head", "flatten256"]
FLAGS += ["--batch", "32", "--augment", "affine"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("place")


@pytest.fixture(autouse=True)
def in_place(place, monkeypatch):
    """Features are kept below the working folder."""
    monkeypatch.chdir(place)


@pytest.fixture(scope="module")
def pool(place):
    folder = knees.write_knees(place / "knees", images=80, size=32, progress=False)
    return Pool("stand-in", oai.read_oai(folder), list(oai.LABELS.values()), "key")


class Setup:
    """One network with its frameworks, for these flags."""

    def __init__(self, pool, *flags):
        self.flags, self.pool = cli.parse(APP, [*FLAGS, *flags]), pool
        network = inputs.network_of("tiny", self.flags)
        self.inputs = inputs.inputs_of(network, self.flags, len(pool.classes), ("png",))
        self.start = self.inputs.initial(0).weights
        self.frameworks = Frameworks(self.inputs, pool, self.flags)

    def federation(self, name, seed=0):
        return self.frameworks.of(name, division.split(self.pool, SPLITS[name], seed), seed)

    def play(self, round_, clients):
        with open_engine("in-process"):
            return play(round_, round_.start(self.start), clients, 1, len(clients))


@pytest.fixture(scope="module")
def stored(pool):
    return Setup(pool, "--augment", "none", "--lambda-u", "0")


def test_fssfl_without_the_unlabelled_loss_is_supervised_training(stored):
    assert stored.inputs.on_features and len(stored.start) == 4  # the head alone: no BatchNorm
    federation = stored.federation("fssfl")
    found = stored.play(build_round(federation.task, federation.method), federation.clients)
    task = Task.of_batches(stored.inputs.model, stored.inputs.spec, cross_entropy)
    supervised = build_round(task, FedAvg(learning_rate=0.05))
    table = division.split(stored.pool, "fssfl", 0)
    examples, models = [], []
    for client in federation.clients:
        labelled = Client(client.name, lambda number, client=client: client.batches(number).training.labelled)
        alone = stored.play(supervised, [labelled])
        report = found.reports[client.name]
        own = table[(table.client == client.name) & (table.split == "train") & table.labelled]
        # Every labelled image in every epoch, about four unlabelled ones with each two of them.
        assert report["examples"] - report["unlabelled"] == alone.examples == EPOCHS * len(own)
        assert report["unlabelled"] > 1.5 * alone.examples and report["loss"] == pytest.approx(alone.loss, abs=1e-5)
        examples.append(report["examples"])
        models.append(alone.state.weights)
    expected = [np.average(arrays, axis=0, weights=examples) for arrays in zip(*models)]
    assert largest_difference(found.state.weights, expected) < 1e-5
    assert largest_difference(expected, stored.start) > 1e-3


def test_a_known_label_and_no_other_reaches_fssfl(stored):
    """The labels that come with unlabelled images do not exist; those that come with labelled ones are the table's."""
    table = division.split(stored.pool, "fssfl", 0)
    for client in stored.federation("fssfl").clients:
        data = client.batches(1)
        own = table[(table.client == client.name) & (table.split == "train")]
        labels = np.concatenate([labels for _, labels in data.training.labelled.as_numpy_iterator()])
        assert sorted(labels) == sorted([*stored.pool.codes(own[own.labelled])] * EPOCHS)
        assert data.training.unlabelled.element_spec == (stored.inputs.spec[0],) * 2
        tested = np.concatenate([labels for _, labels in data.test.as_numpy_iterator()])
        test = table[(table.client == client.name) & (table.split == "test")]
        assert tested.tolist() == stored.pool.codes(test).tolist()


def same(image, seed):
    return image


def test_stored_features_train_like_whole_images(pool, stored, monkeypatch):
    monkeypatch.setitem(inputs.AUGMENTATIONS, "affine", same)  # else a frozen base without augmentation stores features
    whole = Setup(pool, "--augment", "affine")
    assert not whole.inputs.on_features and whole.inputs.frozen and stored.inputs.on_features
    results = []
    for setup in (whole, stored):
        federation = setup.federation("csfl")
        results.append(setup.play(build_round(federation.task, federation.method), federation.clients))
    images, features = results
    base, head = images.state.weights[:-4], images.state.weights[-4:]
    assert largest_difference(base, whole.start[:-4]) == 0
    assert largest_difference(whole.start[-4:], stored.start) == 0
    assert largest_difference(head, features.state.weights) < 2e-3
    moved = [np.abs(after - before).max() for after, before in zip(head, stored.start)]
    assert min(moved) > 4e-3  # the tolerance would not hide a head that was left alone
    assert images.examples == features.examples and images.loss == pytest.approx(features.loss, abs=2e-3)
    counts = [name for name in images.reports["client1"] if name.startswith("test_")]
    for client in oai.CLIENTS:
        assert sum(images.reports[client][name] for name in counts) > 0
        assert [images.reports[client][name] for name in counts] == [features.reports[client][name] for name in counts]


def test_other_weights_are_other_features(pool):
    """Random bases of two seeds are two bases, and going back to the first gives its features again."""
    setup = Setup(pool, "--augment", "none")
    rows = pool.table[:4]

    def features(seed):
        setup.inputs.initial(seed)
        return next(setup.frameworks.plain(rows).as_numpy_iterator())[0]

    first, other, again = features(0), features(1), features(0)
    assert np.array_equal(first, again) and np.abs(first - other).max() > 0.1
    base, _ = split(setup.inputs.network, "head")
    images = np.stack([Reader((32, 32), 1)(tf.constant(path)) for path in rows.path])
    np.testing.assert_allclose(first, base(images), atol=np.abs(first).max() * 2**-10)


def test_the_server_takes_part_with_its_images_times_epochs(pool):
    without = Setup(pool, "--augment", "none")
    taking_part = Setup(pool, "--augment", "none", "--server-in-average")
    table = division.split(pool, "plfl", 0)
    gold = ((table.client == oai.SERVER) & (table.split == "train")).sum()
    assert taking_part.federation("plfl").method.server_examples == EPOCHS * gold > 0
    assert without.federation("plfl").method.server_examples == 0


def test_every_framework_has_its_rounds_and_clients(stored):
    found = {name: stored.federation(name) for name in ("gold", "csfl", "plfl", "plfl+", "fssfl")}
    gold, local, target = (stored.flags[kind] for kind in (GoldSettings, LocalSettings, TargetSettings))
    csfl, plfl, plus, fssfl = (stored.flags[kind] for kind in (CsflSettings, PlflSettings, PlusSettings, FssflSettings))
    assert {name: (one.rounds, one.settings) for name, one in found.items()} == {
        "gold": (1, (gold,)),
        "csfl": (csfl.csfl_rounds, (csfl, local)),
        "plfl": (plfl.plfl_rounds, (plfl, local, target)),
        "plfl+": (plus.plus_rounds, (plus, target)),
        "fssfl": (fssfl.fssfl_rounds, (fssfl, local)),
    }
    assert {name: one.method.average_from for name, one in found.items() if one.method.average_from} == {"plfl+": 3}
    assert [client.name for client in found["gold"].clients] == ["server"]
    assert all(
        [client.name for client in found[name].clients] == ["client1", "client2"] for name in found if name != "gold"
    )


def test_every_client_and_round_has_random_numbers_of_its_own(stored):
    clients = stored.federation("plfl").clients
    draws = {(client.name, number): tuple(client.batches(number).draw[:20]) for client in clients for number in (1, 2)}
    assert len(set(draws.values())) == 4
    assert tuple(clients[0].batches(1).draw[:20]) == draws["client1", 1]
    assert tuple(stored.federation("plfl", seed=1).clients[0].batches(1).draw[:20]) not in draws.values()
    first, again, second = (
        np.concatenate([rows for _, rows in clients[0].batches(number).training.as_numpy_iterator()])
        for number in (1, 1, 2)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, second)
    assert sorted(first) == sorted(second) == sorted(list(range(len(first) // EPOCHS)) * EPOCHS)


def test_fixmatch_mended_has_fssfls_images_in_fssfls_order(stored):
    """With neutral settings a step is the same (tests/federated/test_mended_fixmatch.py), so the run is."""
    for client, other in zip(stored.federation("fssfl").clients, stored.federation("fixmatch").clients):
        plain, found = client.batches(2).training, other.batches(2).training
        assert (found.steps, found.number) == (plain.steps, 2) and found.prior.sum() == pytest.approx(1)
        for one, same in zip(plain.labelled.as_numpy_iterator(), found.labelled.as_numpy_iterator(), strict=True):
            assert np.array_equal(one[0], same[0]) and np.array_equal(one[1], same[1])
        rows = []
        for one, same in zip(plain.unlabelled.as_numpy_iterator(), found.unlabelled.as_numpy_iterator(), strict=True):
            assert np.array_equal(one[0], same[0]) and np.array_equal(one[1], same[1])
            rows += same[2].tolist()
        assert set(rows) == set(range(found.images))


def labels_of(batches):
    return np.concatenate([labels for _, labels in batches.as_numpy_iterator()])


def test_gold_continued_takes_plfl_plus_steps_without_its_clients(stored):
    """And the ceilings take the same with everybody's labels."""
    plus, continued, central = (stored.federation(name) for name in ("plfl+", "gold+", "central"))
    table, settings = division.split(stored.pool, "plfl", 0), stored.flags[PlusSettings]
    trained = table[table.split == "train"]
    batches = {name: -(-len(rows) // 32) for name, rows in trained.groupby("client")}
    server, in_clients = batches.pop("server"), sum(batches.values())
    assert sum(-(-len(client.batches(1).truth) // 32) for client in plus.clients) == in_clients
    steps = settings.plus_epochs * in_clients + 2 * server
    assert len(list(plus.server_data(1).batches)) == 2 * server
    for one, codes in ((continued, stored.pool.codes(trained[trained.client == oai.SERVER])), (central, None)):
        assert one.rounds == plus.rounds and one.server_data is None and len(one.clients) == 1
        data = one.clients[0].batches(1)
        assert data.steps == len(list(data.batches)) == steps
        known = stored.pool.codes(trained) if codes is None else codes
        assert set(labels_of(data.batches)) == set(known) and np.allclose(data.prior, plus.server_data(1).prior)
        most = np.bincount(known, minlength=3) * -(-steps // -(-len(known) // 32))
        assert (np.bincount(labels_of(data.batches), minlength=3) <= most).all()


def test_gold_may_weigh_its_classes(pool, stored):
    """A step of SGD on one batch: of the gradient of the loss by class, whose mean weight over the images is 1."""
    flags = ["--augment", "none", "--lambda-u", "0", "--gold-epochs", "1", "--batch", "80"]
    plain, weighed = (Setup(pool, *flags, *more) for more in ([], ["--gold-class-weights", "0.5"]))
    moved = []
    for setup in (plain, weighed):
        gold = setup.federation("gold")
        moved.append(setup.play(build_round(gold.task, gold.method), gold.clients).state.weights)
    data = weighed.federation("gold").clients[0].batches(1)
    (features, labels), *others = data.batches.as_numpy_iterator()
    assert not others
    raw = data.prior**-0.5
    weights = (raw / (data.prior * raw).sum())[labels]
    model = weighed.inputs.model
    model.set_weights(weighed.start)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(weights * cross_entropy(labels, model(features, training=True)))
    expected = [w - 0.05 * g for w, g in zip(weighed.start, tape.gradient(loss, model.trainable_variables))]
    assert largest_difference(moved[1], expected) < 1e-5 < 1e-4 < largest_difference(moved[0], expected)


def test_a_logit_adjusted_step_of_gold(pool, stored):
    """The gradient of the cross-entropy of shifted logits; every framework is told shares that it may know."""
    flags = ["--augment", "none", "--lambda-u", "0", "--gold-epochs", "1", "--batch", "80", "--logit-adjust", "0.5"]
    setup = Setup(pool, *flags)
    gold = setup.federation("gold")
    moved = setup.play(build_round(gold.task, gold.method), gold.clients).state.weights
    features, labels = next(gold.clients[0].batches(1).training.batches.as_numpy_iterator())
    model = setup.inputs.model
    model.set_weights(setup.start)
    counts = np.bincount(labels, minlength=3)
    with tf.GradientTape() as tape:
        logits = tf.math.log(model(features, training=True)) + 0.5 * np.log(counts / counts.sum()).astype(np.float32)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    expected = [w - 0.05 * g for w, g in zip(setup.start, tape.gradient(loss, model.trainable_variables))]
    assert largest_difference(moved, expected) < 1e-5
    for name in SPLITS:
        table, federation = division.split(pool, SPLITS[name], 0), setup.federation(name)
        if federation.server_data is not None:
            assert np.array_equal(federation.server_data(1).counts, counts)
        for client in federation.clients:
            rows = table[(table.client == client.name) & (table.split == "train")]
            own = pool.codes(rows[rows.labelled] if "labelled" in rows else rows)
            known = np.bincount(own, minlength=3) if SPLITS[name] in ("csfl", "fssfl") else counts
            assert np.array_equal(client.batches(1).counts, known)
    assert stored.federation("gold").task.loss_by_counts is None


def test_the_ceiling_is_plfl_plus_with_all_labels(stored):
    labels, plus = stored.federation("labels"), stored.federation("plfl+")
    assert (labels.rounds, len(labels.clients)) == (plus.rounds, len(plus.clients)) and labels.server_data is not None
    for known, unknown in zip(labels.clients, plus.clients):
        expected = np.tile(unknown.batches(1).truth, stored.flags[PlusSettings].plus_epochs)
        assert sorted(labels_of(known.batches(1).batches)) == sorted(expected)


def test_fssfls_supervised_part_has_its_labelled_batches(stored):
    for alone, whole in zip(stored.federation("fssfl-labelled").clients, stored.federation("fixmatch").clients):
        part, data = alone.batches(1), whole.batches(1)
        assert part.training.steps == data.training.steps
        pairs = zip(part.training.batches.as_numpy_iterator(), data.training.labelled.as_numpy_iterator(), strict=True)
        assert all(np.array_equal(one[0], same[0]) and np.array_equal(one[1], same[1]) for one, same in pairs)
        assert np.array_equal(labels_of(part.test), labels_of(data.test))


def test_semifls_clients_have_no_labels_and_its_server_has_gold(stored):
    federation = stored.federation("semifl")
    data = federation.clients[0].batches(1)
    assert all(len(labels) == 0 for _, labels in data.labelled.as_numpy_iterator())
    table = division.split(stored.pool, "plfl", 0)
    gold = table[(table.client == oai.SERVER) & (table.split == "train")]
    given = federation.server_data(1)
    labels = np.concatenate([labels for _, labels in given.batches.as_numpy_iterator()])
    assert sorted(labels) == sorted(2 * stored.pool.codes(gold).tolist())  # two epochs
    others, views = data.others.as_numpy_iterator(), data.unlabelled.as_numpy_iterator()
    orders = [np.concatenate([batch[-1] for batch in each]) for each in (others, views)]
    assert sorted(orders[0]) == sorted(orders[1]) and not np.array_equal(*orders)


def test_given_clients_are_all_there_and_draw_each_on_their_own(pool, stored):
    names = ["server", "east", "west", "north"]
    table = pool.table.assign(client=[names[row % 4] for row in range(len(pool.table))], split="train")
    given = dataclasses.replace(pool, table=table, given=True)
    frameworks = Frameworks(stored.inputs, given, cli.parse(APP, FLAGS))
    clients = frameworks.of("plfl", division.split(given, "plfl", 0), 0).clients
    assert [client.name for client in clients] == list(division.clients(given)) == ["east", "north", "west"]
    assert [client.site for client in frameworks.of("gold", table, 0).clients] == [HERE]
    for client, position in zip(clients, (0, 1, 3)):  # 2 is the server's
        truth, draw = client.batches(1).truth, client.batches(1).draw
        assert truth.tolist() == pool.codes(table[table.client == client.name]).tolist()
        assert draw.tolist() == np.random.default_rng(stream(0, 1, position)).random(len(draw), np.float32).tolist()


def test_plfl_clients_see_row_numbers_and_no_labels(pool, stored):
    table = division.split(pool, "plfl", 0)
    relabelled = table.assign(label=np.where(table.client == oai.SERVER, table.label, "severe"))
    for name in ("plfl", "plfl+"):
        first, second = (stored.frameworks.of(name, one, 0).clients[0].batches(1) for one in (table, relabelled))
        for part in ("labelling", "testing", "training"):
            for one, other in zip(*(getattr(data, part).as_numpy_iterator() for data in (first, second))):
                assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])
        assert np.array_equal(first.draw, second.draw) and np.array_equal(first.prior, second.prior)
        assert set(second.truth) == {2} and len(set(first.truth)) == 3
        gold = table[(table.client == oai.SERVER) & (table.split == "train")]
        shares = pd.Series(pool.codes(gold)).value_counts(normalize=True).sort_index()
        np.testing.assert_allclose(first.prior, shares, rtol=1e-6)
