"""Styles travel, images do not."""

import dataclasses

import cv2
import numpy as np
import pandas as pd
import pytest

from preprocessing import gram, gram_files, style_transfer
from preprocessing.style_settings import LAYERS
from tests.fnst.conftest import styler_of
from tffapps.data.pool import Pool
from tffapps.errors import UserError
from tffapps.fnst import Augmentation
from tffapps.fnst import exchange as module
from tffapps.fnst.data import images_of
from tffapps.fnst.exchange import rare_and_rich, repeated

S2C2 = Augmentation(2, 2)


def federation_of(**counts):
    rows = [(f"{client}-{label}-{n}.png", label, client, "train") for client, own in counts.items()
            for label, k in own.items() for n in range(k)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["path", "label", "client", "split"])
    return Pool("drawn", table, sorted(set(table.label)), "key", given=True)


def test_rare_is_at_most_as_many_as_contents():
    federation = federation_of(a={"x": 9, "y": 2}, b={"x": 1, "y": 3, "z": 2}, c={"z": 3})
    few, many = rare_and_rich(federation, S2C2)
    assert few == {"a": ["y"], "b": ["x", "z"], "c": []}
    assert many == {"a": ["x"], "b": ["y"], "c": ["z"]}


def test_rare_images_are_repeated_as_often_as_they_would_be_styled():
    federation = federation_of(a={"x": 9, "y": 2}, b={"x": 1, "y": 3}, c={"x": 3, "y": 30})
    again = repeated(federation, Augmentation(4, 2))
    # a's y: styles of b (3 images only) and of c (4); b's x: of a (4) and of c (3 images only).
    assert again.groupby(["client", "label"]).size().to_dict() == {("a", "y"): 2 * 7, ("b", "x"): 1 * 7}


@pytest.fixture(scope="module")
def made(federation, exchange, tmp_path_factory):
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield exchange.make(federation, S2C2, seed=0), place


def test_every_rare_class_gets_an_image_for_each_content_and_style(made, pool, federation):
    found, _ = made
    assert found.table.groupby(["client", "label"]).size().unique().tolist() == [4]
    own = dict(zip(("client1", "client2", "client3", "client4"), pool.classes))
    assert {(c, k) for c, k in zip(found.table.client, found.table.label)} == {
        (client, label) for client in own for label in pool.classes if label != own[client]
    }
    assert all(own[sender] == label for sender, label in zip(found.table.sender, found.table.label))
    for row in found.table.itertuples():  # contents are the client's own
        assert row.content in set(images_of(federation, row.client, row.label).path)
        image = cv2.imread(row.path)
        assert image.shape == (32, 32, 3) and not np.array_equal(image, cv2.imread(row.content))


def test_nothing_but_gram_matrices_is_handed_to_the_server(made, exchange, pool, federation, monkeypatch):
    """All that the server's one function is given: names of clients and classes, the VGG's identity, and a folder."""
    _, place = made
    monkeypatch.chdir(place)
    calls = []
    dispatch = module.dispatch

    def recorded(*arguments):
        calls.append(arguments)
        return dispatch(*arguments)

    monkeypatch.setattr(module, "dispatch", recorded)
    exchange.make(federation, S2C2, seed=0)
    ((folder, wanted, width, sha256),) = calls
    assert set(wanted) == {"client1", "client2", "client3", "client4"}
    assert {label for labels in wanted.values() for label in labels} == set(pool.classes)
    assert width == 4 and sha256 == gram.fingerprint(exchange.placement.styler.encoder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 4 + 12
    for file in files:
        with np.load(file, allow_pickle=False) as content:
            assert set(content.files) == {*LAYERS, "positions", "width", "label", "weights", "sha256"}
        gram_files.load(file, width, sha256)  # refuses anything that is not F Fᵀ of the right shape


def test_what_is_sent_is_the_style_of_the_images_chosen(styler, federation, away):
    rows = images_of(federation, "client2", "serrated")
    styler.measure(away / "sent.npz", rows, "serrated", 3, seed=1)
    sent = gram_files.load(away / "sent.npz", 4)
    images = styler.style_images(rows, 3, seed=1)
    assert len(sent) == 3 and sent.label == "serrated" and sent.weights == "random"
    for matrix, expected in zip(sent.matrices, gram.grams(gram.taps(styler.encoder), images)):
        np.testing.assert_allclose(matrix, expected, rtol=1e-4, atol=1e-4)


def test_images_are_made_once(made, exchange, federation, monkeypatch):
    found, place = made
    monkeypatch.chdir(place)
    monkeypatch.setattr(style_transfer, "transfer", None)  # would fail if it were needed
    again = exchange.make(federation, S2C2, seed=0)
    assert again.key == found.key and again.table.equals(found.table)


def test_images_move_towards_the_style(made, styler, federation, monkeypatch):
    """More steps: the made images' Gram matrices come nearer to those received."""
    found, place = made
    monkeypatch.chdir(place)
    delivery = found.deliveries[0]
    contents = images_of(federation, delivery.receiver, delivery.label).path.to_numpy()
    wanted = styler.load(delivery.file)
    after = styler_of("--style-steps", "60").make(contents, wanted, "more steps")
    content, style = style_transfer.all_pairs(len(contents), len(wanted)).T

    def far(paths):
        own = gram.grams(gram.taps(styler.encoder), styler.read(paths))
        parts = zip(own, wanted.matrices)
        return sum(np.square(a - b[style]).sum(axis=(1, 2)) / np.square(b).sum() for a, b in parts)

    before, now = far(contents[content]), far(after)
    assert (now < before).all() and now.sum() < 0.5 * before.sum()


def test_nobody_has_enough_or_nobody_has_few(exchange, federation, away):
    with pytest.raises(UserError, match="S2C1: no class has more than 1 images at one client and 1 to 1"):
        exchange.make(federation, Augmentation(2, 1), seed=0)


def test_clients_may_have_any_name(exchange, federation, away):
    clients = federation.table.client.replace({"client1": "St. Mary's / A", "client2": ".."})
    odd = dataclasses.replace(federation, table=federation.table.assign(client=clients), key="odd")
    found = exchange.make(odd, S2C2, seed=0)
    assert {"St. Mary's / A", ".."} <= set(found.table.client) and {"St. Mary's / A", ".."} <= set(found.table.sender)
    assert all(away in path.resolve().parents for path in away.rglob("*.npz"))


@pytest.mark.parametrize("text", ["S5", "5x5", "S0C5", "S5C0", "SC", "S5C5C5", ""])
def test_augmentations_are_written_as_in_the_paper(text):
    with pytest.raises(UserError, match="write styles and contents as S5C20"):
        Augmentation.parse(text)
    assert Augmentation.parse("S5-C20") == Augmentation(5, 20) and Augmentation.parse(" s5c20").name == "S5C20"


def test_chosen_weights_reach_style_transfer():
    flags = ["--style-weight", "3", "--content-weight", "0.5", "--style-learning-rate", "0.1"]
    settings = styler_of(*flags).settings
    assert (settings.style_weight, settings.content_weight, settings.learning_rate) == (3, 0.5, 0.1)
    usual = styler_of().settings
    assert (usual.style_weight, usual.content_weight, usual.learning_rate) == (10, 1, 0.005)


def test_in_one_pass_means_are_sent_and_another_network_is_refused(federation, pool, tmp_path):
    """Without the published files, or with a VGG that they were not trained for, nothing is made."""
    styler = styler_of("--transfer", "adain", "--adain-weights", str(tmp_path))
    rows = images_of(federation, "client1", pool.classes[0])
    styler.measure(tmp_path / "means.npz", rows, pool.classes[0], 1, 0)
    grams = styler.load(tmp_path / "means.npz")
    assert grams.means.shape == (1, grams.matrices[3].shape[-1]) and "adain" in styler.described()
    with pytest.raises(UserError, match=r"--adain-weights: .*adain_encoder_relu4_1\.npz: no such file"):
        styler.make(list(rows.path[:1]), grams, "")
    plain = styler_of()
    plain.measure(tmp_path / "plain.npz", rows, pool.classes[0], 1, 0)
    with pytest.raises(UserError, match="no means beside its Gram matrices, which --transfer adain needs"):
        styler.load(tmp_path / "plain.npz")


def test_the_sheet_shows_every_class(made):
    from tffapps.fnst.figures import _of_every_class

    picked = _of_every_class(made[0].table)
    assert {row.label for row in picked} == set(made[0].table.label)
