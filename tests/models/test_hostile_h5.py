"""HDF5 and NumPy files that bring in other files, or claim to be larger than they are: one line, nothing is read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import stored, vgg
from models.weights import WeightsError, load_npz, save_npz
from tests.fuzz.strategies import bounded, check_refusal, damaged

SECRET = np.full((3, 3, 3, 4), 42, np.float32)
KERNEL = "conv1_1/conv1_1/kernel:0"


@pytest.fixture
def small():
    return vgg.build("relu1_1", width=4)


@pytest.fixture
def path(small, tmp_path):
    """A good file beside others whose content is not to be seen."""
    small.save_weights(str(tmp_path / "w.h5"), save_format="h5")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["kernel:0"] = SECRET
        file["conv1_1/kernel:0"] = SECRET
    (tmp_path / "secret.raw").write_bytes(SECRET.tobytes())
    return tmp_path / "w.h5"


def refused(path: Path, model) -> str:
    before = model.get_weights()
    with pytest.raises(WeightsError) as caught:
        vgg.load(model, str(path), seed=3)
    for old, new in zip(before, model.get_weights()):
        np.testing.assert_array_equal(old, new)
    check_refusal(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def test_external_links(path, small):
    with h5py.File(path, "r+") as file:
        del file[KERNEL]
        file[KERNEL] = h5py.ExternalLink("secret.h5", "/kernel:0")
        assert (file[KERNEL][...] == 42).all()  # as HDF5 itself would read it
    assert "conv1_1/conv1_1/kernel:0 is a link to another file" in refused(path, small)
    with h5py.File(path, "r+") as file:  # a whole group
        del file["conv1_1/conv1_1"]
        file["conv1_1/conv1_1"] = h5py.ExternalLink("secret.h5", "/conv1_1")
    assert "a link to another file" in refused(path, small)
    with h5py.File(path, "r+") as file:  # by way of a soft link
        del file["conv1_1/conv1_1"]
        file["hidden"] = h5py.ExternalLink("secret.h5", "/conv1_1")
        file["conv1_1/conv1_1"] = h5py.SoftLink("/hidden")
    assert "hidden is a link to another file" in refused(path, small)


def test_external_storage(path, small):
    with h5py.File(path, "r+") as file:
        del file[KERNEL]
        where = [(str(path.parent / "secret.raw"), 0, SECRET.nbytes)]
        file.create_dataset(KERNEL, SECRET.shape, np.float32, external=where)
        assert (file[KERNEL][...] == 42).all()
    assert "lies in another file" in refused(path, small)


def test_virtual_datasets(path, small):
    with h5py.File(path, "r+") as file:
        del file[KERNEL]
        layout = h5py.VirtualLayout(SECRET.shape, np.float32)
        layout[...] = h5py.VirtualSource(str(path.parent / "secret.h5"), "kernel:0", SECRET.shape)
        file.create_virtual_dataset(KERNEL, layout)
    assert "lies in another file" in refused(path, small)


@pytest.mark.parametrize("options", [{}, {"chunks": (1024,)}, {"chunks": (1024,), "compression": "gzip"}])
@pytest.mark.parametrize("side", [2**26, 2**40])
def test_shapes_that_claim_more_than_there_is(side, options, path, small):
    with h5py.File(path, "r+") as file:
        del file[KERNEL]
        file.create_dataset(KERNEL, (side,), np.float32, **options)
    assert path.stat().st_size < 50_000
    assert "claims" in refused(path, small)


@pytest.mark.parametrize(("place", "length"), [(8, 2**40), (24, 2**40), (24, 2**12 + 1)])
def test_heaps_in_which_the_library_would_look_for_ever(place, length, path, small):
    """The length of the heap itself or of the first object in it; the others are then read out of step."""
    contents = bytearray(path.read_bytes())
    place += contents.index(b"GCOL")
    contents[place : place + 8] = length.to_bytes(8, "little")
    path.write_bytes(contents)
    assert "a heap of it cannot be read" in refused(path, small)


def test_compressed_weights_are_read(path, small):
    with h5py.File(path, "r+") as file:
        values = file[KERNEL][...]
        del file[KERNEL]
        file.create_dataset(KERNEL, data=values, compression="gzip")
    vgg.load(small, str(path), seed=3)
    np.testing.assert_array_equal(small.get_weights()[0], values)


def test_other_things_than_numbers(path, small):
    for value in (np.zeros(SECRET.shape, np.int32), np.array(b"text"), h5py.Empty("f4")):
        with h5py.File(path, "r+") as file:
            del file[KERNEL]
            file[KERNEL] = value
        assert refused(path, small)
    with h5py.File(path, "r+") as file:
        del file[KERNEL]
        file.create_group(KERNEL)
    assert "a group where an array is expected" in refused(path, small)


def test_an_npz_that_claims_more_than_it_has(tmp_path, small):
    path, header = tmp_path / "w.npz", tmp_path / "0000.npy"
    with header.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**20, 2**20)})
        file.write(bytes(100))
    np.savez(path, **{"0001": np.zeros(4, np.float32)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(header, "0000.npy")
    assert "claims the shape (1048576, 1048576)" in refused(path, small)
    np.savez(path, **{"0000": np.array([object()]), "0001": np.zeros(4, np.float32)})
    assert "pickled objects" in refused(path, small)
    with pytest.raises(WeightsError, match="pickled objects"):
        load_npz(small, path)


def test_npz_bombs(tmp_path, small, monkeypatch):
    path = tmp_path / "w.npz"
    np.savez_compressed(path, **{"0000": np.zeros(2**22, np.float32)})
    monkeypatch.setattr(stored, "MAX_BYTES", 2**20)
    assert path.stat().st_size < 2**16 and "at most 1048576 are read" in refused(path, small)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model, a place for a file, and what good files hold."""
    folder, model = tmp_path_factory.mktemp("good"), vgg.build("relu1_1", width=4)
    model.save_weights(str(folder / "w.h5"), save_format="h5")
    model.save_weights(str(folder / "k.weights.h5"))
    save_npz(model, folder / "w.npz")
    return model, folder / "damaged", [file.read_bytes() for file in sorted(folder.iterdir())]


@bounded(150)
@given(data=st.data())
def test_damaged_files(files, data):
    model, path, good = files
    path.write_bytes(data.draw(damaged(data.draw(st.sampled_from(good)))))
    try:
        vgg.load(model, str(path))
    except WeightsError as error:
        check_refusal(error)
