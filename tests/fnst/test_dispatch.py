"""The server passes Gram matrices on, and nothing else reaches it."""

import numpy as np
import pytest

from preprocessing import gram_files
from preprocessing.style_settings import LAYERS
from tffapps.errors import UserError
from tffapps.fnst.dispatch import dispatch, sent_file

WIDTH = 2


def send(folder, client, label, styles=2, seed=0):
    rng = np.random.default_rng(seed)
    matrices = []
    for multiple in gram_files.MULTIPLES:
        features = rng.random((styles, 9, multiple * WIDTH), np.float32)
        matrices.append(np.einsum("npc,npd->ncd", features, features))
    grams = gram_files.Grams(matrices, (9,) * len(LAYERS), label, WIDTH, "random", "abc")
    file = folder / "sent" / client / f"{label}.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    gram_files.save(file, grams)
    return file


def test_every_client_gets_the_classes_it_wants_from_all_others(tmp_path):
    sent = {(c, k): send(tmp_path, c, k, seed=n) for n, (c, k) in enumerate([("a", "x"), ("b", "x"), ("b", "y")])}
    found = dispatch(tmp_path, {"a": ["x", "y"], "c": ["y"], "d": []}, WIDTH, "abc")
    assert {(d.sender, d.receiver, d.label) for d in found} == {("b", "a", "x"), ("b", "a", "y"), ("b", "c", "y")}
    for delivery in found:
        original = sent[delivery.sender, delivery.label].read_bytes()
        assert delivery.file.read_bytes() == original and delivery.bytes == len(original) and delivery.styles == 2
    received = sorted(path.relative_to(tmp_path / "received").as_posix() for path in tmp_path.glob("received/*/*"))
    assert received == ["a/x--b.npz", "a/y--b.npz", "c/y--b.npz"]


@pytest.mark.parametrize(
    ("name", "contents", "complaint"),
    [
        ("x.npz", b"\x89PNG\r\n\x1a\n picture", "damaged, or not an .npz"),
        ("photo.png", b"\x89PNG\r\n\x1a\n picture", "damaged, or not an .npz"),
    ],
)
def test_anything_else_is_refused(tmp_path, name, contents, complaint):
    (tmp_path / "sent" / "a").mkdir(parents=True)
    (tmp_path / "sent" / "a" / name).write_bytes(contents)
    with pytest.raises(UserError, match=complaint):
        dispatch(tmp_path, {"b": ["x"]}, WIDTH)
    assert not (tmp_path / "received").exists()


def test_another_vgg_and_a_wrong_name_are_refused(tmp_path):
    file = send(tmp_path, "a", "x")
    with pytest.raises(UserError, match=r"a sent what the server does not take.*another VGG"):
        dispatch(tmp_path, {"b": ["x"]}, WIDTH, "def")
    with pytest.raises(UserError, match="another VGG: its width is 2, here it is 4"):
        dispatch(tmp_path, {"b": ["x"]}, 4)
    file.rename(file.with_name("y.npz"))
    with pytest.raises(UserError, match="holds styles of x"):
        dispatch(tmp_path, {"b": ["x"]}, WIDTH)


def test_no_name_leads_out_of_the_folder(tmp_path):
    """Across sites both are what a site calls them."""
    file = sent_file(tmp_path, "..", "../../x")
    assert file.resolve().parents[2] == tmp_path.resolve() and file.parent.parent == tmp_path / "sent"
