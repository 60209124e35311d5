"""Weight files made to do harm, damaged ones and those of other networks: one line, nothing runs, nothing changes."""

from __future__ import annotations

import builtins
import collections
import os
import pickle
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from models import stored, torch_pickle, torchvision_names, vgg
from models.classifiers import build
from models.stored import Stored
from models.torch_pickle import PickleRefused, loads
from models.weights import WeightsError, load
from tests.fuzz.strategies import bounded, check_refusal, damaged
from tests.models.torch_files import ARRAYS, Entry, pickled, pth, safetensors, small, state_of


def failing(path, contents: bytes, model: tf.keras.Model | None = None) -> str:
    path.write_bytes(contents)
    model = model or small()
    before = model.get_weights()
    with pytest.raises(WeightsError) as caught:
        vgg.load(model, str(path), seed=5)
    for old, new in zip(before, model.get_weights()):
        np.testing.assert_array_equal(old, new)
    check_refusal(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


class Calls:
    """Pickled, a call of any function."""

    def __init__(self, function, *arguments) -> None:
        self._call = function, arguments

    def __reduce__(self):
        return self._call


def hostile_pickles(marker) -> dict[str, bytes]:
    entries = state_of(ARRAYS)
    touch = f"touch {marker}"
    inside = pickled(entries)[:-1]  # without STOP
    return {
        "os.system": pickle.dumps(Calls(os.system, touch), 2),
        "newest protocol": pickle.dumps({"w": Calls(os.system, touch)}, 5),
        "eval": pickle.dumps(Calls(builtins.eval, f"open({str(marker)!r}, 'w')"), 2),
        "subprocess": pickle.dumps(Calls(subprocess.check_output, ["touch", str(marker)]), 4),
        "after the tensors": inside + b"0" + pickle.dumps(Calls(os.system, touch), 2)[2:],
        "as a value": inside + pickle.dumps(Calls(os.system, touch), 2)[2:-1] + b"s.",
        "old opcode": b"(S'" + touch.encode() + b"'\nios\nsystem\n.",
        "of a class": b"\x80\x02cos\n_wrap_close\n)\x81.",
        "torch.load": pickle.dumps(collections.Counter("ab"), 2),
        "extension": b"\x80\x02\x82\x01.",
        "attribute of a name": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c"
        + bytes([len(touch)])
        + touch.encode()
        + b"\x85R.",
    }


def test_pickles_that_call_something_run_nothing(tmp_path, monkeypatch):
    marker = tmp_path / "ran"
    for name, program in hostile_pickles(marker).items():
        message = failing(tmp_path / "evil.pth", pth(state_of(ARRAYS), program))
        assert "not a state dict" in message, name
        assert not marker.exists(), name
    pickle.loads(hostile_pickles(marker)["os.system"])  # it would have run
    assert marker.exists()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (b"\x80\x02cposix\nsystem\n.", "names posix.system, which no state dict needs; nothing of it was run"),
        (b"\x80\x02ccollections\nOrderedDict\n]\x85R.", "calls collections.OrderedDict as no state dict does"),
        (b"\x80\x02ctorch\nFloatStorage\n)R.", "calls torch.FloatStorage"),
        (b"\x80\x02K\x01)R.", "calls int"),
        (b"\x80\x02}K\x01\x85K\x02s.", "no dict of names"),
        (b"\x80\x02K\x01}b.", "sets attributes"),
        (b"\x80\x02K\x01Q.", "no storage"),
        (b"\x80\x02]K\x01K\x02a.", "extends something that is no list"),
        (b"\x80\x02K\x01K\x02.", "does not end in one value"),
        (b"\x80\x02h\x07.", "damaged"),
        (b"\x80\x02K\x01a.", "damaged"),
        (b"\x80\x02\x87.", "takes more than there is"),
        (b"\x80\x02t.", "damaged"),
        (b"\x80\x02}}", "damaged"),
        (b"\x80\x04]]\x93.", "no text for a name"),
        (b"\x80\x02}.", "no tensors by name"),
        (b"\x80\x02r\xff\xff\xff\x7f.", "damaged"),
        (b"X\xff\xff\xff\x7fab.", "damaged"),
        (b"", "damaged"),
    ],
)
def test_pickles_of_something_else(program, words, tmp_path):
    assert words in failing(tmp_path / "other.pth", pth(state_of(ARRAYS), program))


def test_a_pickle_cannot_grow():
    """Shared tuples doubled fifty times, and a name made of them: never written out."""
    program = b"\x80\x04\x8c\x01aq\x00" + b"".join(
        b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(50)
    )
    with pytest.raises(PickleRefused, match="no text"):
        loads(program + b"h\x32\x93.")
    with pytest.raises(PickleRefused, match="at most"):
        loads(b"\x80\x02" + b"N0" * torch_pickle.MAX_PICKLE)
    with pytest.raises(PickleRefused):
        loads(b"\x80\x02" + b"]" * 200_000 + b"a" * 200_000)


def changed(**changes) -> bytes:
    entries = state_of(ARRAYS)
    name, array = next(iter(ARRAYS.items()))
    entries[name] = Entry.of(array, **changes)
    return pth(entries)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(size=2**40), "claims 1099511627776 numbers of float32, 432 bytes are there"),
        (dict(size=-108), "claims -108 numbers"),
        (dict(storage="torch DoubleStorage"), "claims 108 numbers of float64"),
        (dict(shape=(4, 3, 3, 300)), "reaches beyond its 108 numbers"),
        (dict(shape=(4, 3, 3, 2**29), strides=(0, 0, 0, 0)), "reaches beyond its 108 numbers"),
        (dict(strides=(27, 9, 3, 2)), "reaches beyond its 108 numbers"),
        (dict(offset=1), "reaches beyond its 108 numbers"),
        (dict(offset=-1), "a shape, strides or an offset"),
        (dict(offset=2**70), "a shape, strides or an offset"),
        (dict(strides=(27, 9, 3, -1)), "a shape, strides or an offset"),
        (dict(strides=(27, 9, 3)), "a shape, strides or an offset"),
        (dict(shape=(4, 27)), "a shape, strides or an offset"),
        (dict(shape=(1,) * 40, strides=(1,) * 40), "a shape, strides or an offset"),
        (dict(key="7"), "has no numbers in the file"),
        (dict(key="../data.pkl"), "has no numbers in the file"),
        (dict(shape=(3, 4, 3, 3)), "features.0.weight is (3, 3, 4, 3), (3, 3, 3, 4) is expected"),
        (dict(storage="torch IntStorage"), "features.0.weight holds int32, no weights"),
        (dict(storage="torch ComplexFloatStorage"), "names torch.ComplexFloatStorage"),
        (dict(storage="torch UntypedStorage"), "names torch.UntypedStorage"),
    ],
)
def test_tensors_that_cannot_be(changes, words, tmp_path):
    assert words in failing(tmp_path / "odd.pth", changed(**changes))


def test_missing_and_foreign_tensors(tmp_path):
    path, entries = tmp_path / "v.pth", state_of(ARRAYS)
    del entries["features.2.bias"]
    assert "not the weights of vgg19; features.2.bias is missing" in failing(path, pth(entries))
    sixteen = {**state_of(ARRAYS), "features.17.weight": Entry.of(np.ones((4, 4, 3, 3), np.float32))}
    assert "it has no features.17.weight" in failing(path, pth(sixteen))  # VGG-16's
    strange = {**state_of(ARRAYS), "a\n\x1b[31m": Entry.of(np.ones(3, np.float32))}
    assert r"it has no a\n\x1b[31m" in failing(path, pth(strange))
    broken = {**ARRAYS, "features.0.bias": np.array([1, np.nan, 2, 3], np.float32)}
    assert "not finite" in failing(path, pth(state_of(broken)))
    huge = {**ARRAYS, "features.0.bias": np.array([1, 1e300, 2, 3])}
    assert "not finite" in failing(path, pth(state_of(huge)))


def described(names, shape=(1,)) -> dict[str, Stored]:
    """Arrays that must not be read."""
    return {name: Stored(shape, "float32", lambda: pytest.fail("was read")) for name in names}


def test_deeper_networks_are_refused():
    resnet = build("resnet18", input_shape=(32, 32, 3), classes=3)
    state = described([*(name for name, _ in torchvision_names._backbone(resnet)), "layer1.2.conv1.weight"])
    with pytest.raises(WeightsError, match=r"not the weights of resnet18; it has no layer1\.2\.conv1\.weight"):
        torchvision_names.ordered(Path("x"), state, resnet, torch_order=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [("mobilenetv2", "MobileNetV2 pads, scales and normalises otherwise"), ("tiny", "which are not known for tiny")],
)
def test_networks_that_torchvision_has_not_or_otherwise(name, words, tmp_path):
    path = tmp_path / "v.pth"
    path.write_bytes(pth(state_of(ARRAYS)))
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))], name=name)
    with pytest.raises(WeightsError, match=words):
        load(model, name, str(path), seed=0)


def test_archives_that_are_something_else(tmp_path):
    path, entries = tmp_path / "v.pth", state_of(ARRAYS)
    assert "a TorchScript archive" in failing(path, pth(entries, **{"constants.pkl": b"."}))
    assert "compressed" in failing(path, pth(entries, compression=zipfile.ZIP_DEFLATED))
    zeros = {**entries, "z": Entry(bytes(2**20), "torch FloatStorage", 2**18, (2**18,), (1,))}
    assert "compressed" in failing(path, pth(zeros, compression=zipfile.ZIP_DEFLATED))  # a bomb is that
    assert "two members of one name" in failing(path, pth(entries, byteorder=b"little"))
    big = pth(entries).replace(b"little", b"big   ")
    assert failing(path, big)  # its checksum is wrong now
    legacy = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
    assert "of the kind before version 1.6" in failing(path, legacy)
    assert "a bare pickle" in failing(path, pickle.dumps({"a": 1}, 2))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "holds no arrays" in failing(path, path.read_bytes())


def test_more_bytes_than_any_weights_have(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "MAX_BYTES", 1000)
    for contents in (pth(state_of(ARRAYS)), safetensors(ARRAYS)):
        assert "at most 1000 are read" in failing(tmp_path / "v", contents)
    np.savez_compressed(tmp_path / "v.npz", **ARRAYS)
    assert "at most 1000 are read" in failing(tmp_path / "v.npz", (tmp_path / "v.npz").read_bytes())


def entry(name: str, **changes):
    def change(header):
        return {**header, name: {**header[name], **changes}}

    return change


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (lambda h: {"a": 1}, "not described as safetensors"),
        (lambda h: {}, "holds no tensors"),
        (entry("features.0.bias", dtype="F31"), "features.0.bias is not described"),
        (entry("features.0.bias", more=1), "not described"),
        (entry("features.0.bias", shape=[2**62]), "not described"),
        (entry("features.0.bias", shape=[True]), "not described"),
        (entry("features.0.bias", shape=[-4]), "not described"),
        (entry("features.0.bias", shape=[4.0]), "not described"),
        (entry("features.0.bias", shape=[5]), "cannot lie at"),
        (entry("features.0.bias", data_offsets=[0.0, 16.0]), "no whole number"),
        (entry("features.0.bias", data_offsets=[16, 0]), "cannot lie at 16 to 0"),
        (entry("features.0.bias", data_offsets=[10**9, 10**9 + 16]), "cannot lie at"),
        (entry("features.0.bias", data_offsets=[-16, 0]), "cannot lie at"),
        (entry("features.0.bias", data_offsets=[0, 16]), "overlap"),
        (entry("features.0.bias", dtype="I32"), "holds int32, no weights"),
    ],
)
def test_safetensors_that_cannot_be(header, words, tmp_path):
    path = tmp_path / "odd.safetensors"
    path.write_bytes(safetensors(ARRAYS))
    vgg.load(small(), str(path))
    assert words in failing(path, safetensors(ARRAYS, header))


def test_safetensors_headers_that_cannot_be(tmp_path):
    path = tmp_path / "odd.safetensors"
    for length in (2**24, 2**39, 10**5):
        assert f"its header claims {length} bytes" in failing(path, safetensors(ARRAYS, length=length))
    nested = b"{" + b'"a":[' * 100_000
    assert "header cannot be read" in failing(path, struct.pack("<Q", len(nested)) + nested)
    twice = b'{"a": 1, "a": 2}'
    assert "twice" in failing(path, struct.pack("<Q", len(twice)) + twice)
    assert "header cannot be read" in failing(path, struct.pack("<Q", 9) + b"{nothing}")


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "w", small()


@bounded(150)
@given(contents=st.one_of(damaged(pth(state_of(ARRAYS))), damaged(safetensors(ARRAYS))))
def test_damaged_files(target, contents):
    refused_or_loaded(*target, contents)


@bounded(300)
@given(program=st.one_of(damaged(pickled(state_of(ARRAYS))), st.binary(max_size=60)))
def test_damaged_pickles(target, program):
    refused_or_loaded(*target, pth(state_of(ARRAYS), program))


def refused_or_loaded(path, model, contents: bytes) -> None:
    path.write_bytes(contents)
    try:
        vgg.load(model, str(path))
    except WeightsError as error:
        check_refusal(error)


def test_arrays_are_read_only_when_asked_for():
    """A wrong shape is refused by its description."""
    with pytest.raises(WeightsError, match="is expected"):
        torchvision_names.ordered(Path("x"), described(ARRAYS), small(), torch_order=True)
