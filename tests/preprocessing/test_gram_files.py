"""What is sent arrives; what has been tampered with is refused, in one line that names the file."""

from __future__ import annotations

import dataclasses
import io
import zipfile

import numpy as np
import pytest

from preprocessing.gram_files import MULTIPLES, Grams, GramsRejected, load, save
from preprocessing.style_settings import LAYERS

WIDTH, COUNT, SHA = 2, 3, "ab" * 32


def made(label="normal"):
    generator = np.random.default_rng(0)
    features = [generator.random((COUNT, 5, WIDTH * multiple)).astype(np.float32) for multiple in MULTIPLES]
    return Grams([f.transpose(0, 2, 1) @ f for f in features], (5,) * 5, label, WIDTH, "random", SHA)


@pytest.fixture
def path(tmp_path):
    save(tmp_path / "g.npz", made())
    return tmp_path / "g.npz"


def refused(path, line, width=WIDTH, **expected):
    with pytest.raises(GramsRejected) as error:
        load(path, width, **expected)
    assert str(error.value).startswith(f"{path}: ") and line in str(error.value) and "\n" not in str(error.value)


def rewrite(path, **changes):
    """The file again, with arrays changed, or left out where None."""
    with np.load(path) as file:
        arrays = {**{name: file[name].copy() for name in file.files}, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def changed(path, layer, change):
    """The file again, after `change` to one layer's array."""
    with np.load(path) as file:
        array = file[layer].copy()
    rewrite(path, **{layer: change(array)})


def put(array, place, value):
    array[place] = value
    return array


def test_there_and_back(path):
    found, sent = load(path, WIDTH, SHA), made()
    assert (found.label, found.positions, found.width, found.weights, found.sha256) == (
        "normal", (5,) * 5, WIDTH, "random", SHA,
    )  # fmt: skip
    assert len(found) == COUNT
    for one, other in zip(found.matrices, sent.matrices):
        np.testing.assert_array_equal(one, other)


def test_means_travel_where_they_are_sent(tmp_path):
    sent = made()
    means = np.sqrt(np.diagonal(sent.matrices[3], axis1=1, axis2=2) / 5 / 2).astype(np.float32)
    file = tmp_path / "m.npz"
    save(file, dataclasses.replace(sent, means=means))
    np.testing.assert_array_equal(load(file, WIDTH).means, means)
    for wrong, line in (
        (means * 2, "mean4_1 is negative or larger than its Gram matrices allow"),
        (-means, "mean4_1 is negative"),
        (means * np.nan, "mean4_1 is negative"),
        (means[:, :-1], "mean4_1 is float32 (3, 15), expected float32 (3, 16)"),
    ):
        rewrite(file, mean4_1=wrong)
        refused(file, line)


def test_a_channel_that_is_never_active(path):
    def dead(matrix):
        matrix[:, 1], matrix[:, :, 1] = 0, 0
        return matrix

    changed(path, "relu2_1", dead)
    assert load(path, WIDTH).matrices[1][0, 1, 1] == 0


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda a: a[:, :-1], "relu3_1 is float32 (3, 7, 8), expected float32 (3, 8, 8)"),
        (lambda a: a[:-1], "relu3_1 is float32 (2, 8, 8), expected float32 (3, 8, 8)"),
        (lambda a: a[0], "relu3_1 is float32 (8, 8), expected float32 (n, c, c)"),
        (lambda a: a.astype(np.float64), "relu3_1 is float64 (3, 8, 8), expected float32"),
        (lambda a: a.astype(object), "relu3_1 is pickled objects (3, 8, 8), expected float32"),
        (lambda a: put(a, (1, 2, 2), np.nan), "relu3_1 holds values that are not finite"),
        (lambda a: put(a, (1, 2, 2), np.inf), "relu3_1 holds values that are not finite"),
        (lambda a: put(a, (1, 2, 3), a[1, 2, 3] + 0.1), "relu3_1 is not symmetric"),
        (lambda a: -a, "relu3_1 is not F Fᵀ: its diagonal must be positive"),
        (lambda a: a * 0, "relu3_1 is not F Fᵀ: its diagonal must be positive"),
        (lambda a: a * (1 + 9 * (1 - np.eye(8, dtype=np.float32))), "relu3_1 is not F Fᵀ: an entry is larger"),
        (lambda a: a[:0], "relu3_1 claims the shape (0, 8, 8)"),
    ],
    ids=[
        "shape",
        "count",
        "dimensions",
        "double",
        "pickle",
        "nan",
        "inf",
        "asymmetric",
        "negative",
        "zero",
        "large",
        "0",
    ],
)
def test_arrays_that_are_not_gram_matrices(change, line, path):
    changed(path, "relu3_1", change)
    refused(path, line)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"relu3_1": None}, "wrong names"),
        ({"relu3_2": np.zeros(3)}, "wrong names"),
        ({"positions": np.zeros(5, np.int64)}, "positions are (0, 0, 0, 0, 0), all must be above 0"),
        ({"positions": np.ones(4, np.int64)}, "positions is int64 (4,), expected int64 (5,)"),
        ({"width": np.array(2.0)}, "width is float64 (), expected int64 ()"),
        ({"label": np.array("../../etc")}, "label '../../etc' cannot be part of a file's name"),
        ({"label": np.array("a\nb")}, "label is not a short line of text"),
        ({"label": np.array("x" * 999)}, "label is <U999 (), expected a short text"),
        ({"label": np.array({}, object)}, "label is pickled objects (), expected a short text"),
    ],
)
def test_other_things_that_are_wrong(changes, line, path):
    rewrite(path, **changes)
    refused(path, line)


def test_another_vgg(path):
    refused(path, "another VGG: its width is 2, here it is 64", width=64)
    refused(path, "another VGG: its weights are 'random', abababababab…", sha256="cd" * 32)


def test_a_bomb_is_not_unpacked(path, monkeypatch):
    with np.load(path) as file:
        arrays = {**{name: file[name] for name in file.files}, "relu1_1": np.zeros((2000, 50, 50), np.float32)}
    np.savez_compressed(path, **arrays)
    assert path.stat().st_size < 10**6
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it was read"))
    refused(path, "too large: 200", max_bytes=10**6)


def test_a_header_that_claims_more_than_there_is(path):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, array, version=(1, 0))
            text = data.getvalue()
            if name == "relu1_1":  # a terabyte
                assert b"(3, 2, 2), }      " in text
                text = text.replace(b"(3, 2, 2), }      ", b"(999999, 512, 512)")
                text = text.replace(b"(999999, 512, 512)", b"(999999,512,512)}\x20")
            file.writestr(f"{name}.npy", text)
    refused(path, "relu1_1 claims the shape (999999, 512, 512), which is not what it holds")


@pytest.mark.parametrize("cut", [0, 1, 100, -1, -30, -2000])
def test_truncated(cut, path):
    path.write_bytes(path.read_bytes()[:cut])
    refused(path, "damaged, or not an .npz")


def test_a_byte_changed_on_the_way(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(GramsRejected, match="damaged"):
        load(path, WIDTH)


def test_no_file(tmp_path):
    refused(tmp_path / "none.npz", "no such file")


def test_what_nobody_would_take_is_not_written(tmp_path):
    with pytest.raises(GramsRejected, match="cannot be part of a file's name"):
        save(tmp_path / "g.npz", made(label="a/b"))
    broken = made()
    broken.matrices[LAYERS.index("relu4_1")][0, 0, 0] = np.nan
    with pytest.raises(GramsRejected, match="relu4_1 holds values that are not finite"):
        save(tmp_path / "g.npz", broken)
    assert not list(tmp_path.iterdir())
