"""Files of arrays that are damaged or hold something else: loaded or refused by who reads them, nothing written."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import classifiers, pix2pix
from preprocessing import generator_files, gram_files, pix2pix_folder
from preprocessing.pix2pix import Training
from preprocessing.pix2pix_settings import settings_for
from preprocessing.stain_settings import StainSettings
from preprocessing.style_settings import LAYERS
from tests.fuzz.strategies import bounded, check_refusal, damaged
from tffapps.errors import UserError
from tffapps.fedsda import stains
from tffapps.fedstyle import global_model
from tffapps.runs import Run

TYPES = ["<f4", "<f8", "<f2", "<i8", "|i1", "|b1", "<U5", "|S3", "<c8", "<M8[s]", ">f4"]
odd_arrays = st.builds(
    lambda kind, shape, fill: np.full(shape, fill).astype(kind),
    st.sampled_from([kind for kind in TYPES if kind != "<M8[s]"]),
    st.sampled_from([(), (0,), (1,), (2,), (5,), (1, 2, 2), (3, 0), (2, 64, 64, 3)]),
    st.sampled_from([0, 1, -1, 127, 300]),
)


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    contents = io.BytesIO()
    np.savez(contents, **arrays)
    return contents.getvalue()


def unpacked(contents: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(contents), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@st.composite
def other(draw, contents: bytes):
    """The same file with some arrays missing, of another kind, or with odd numbers in them, or with damage."""
    if draw(st.booleans()):
        return draw(damaged(contents))
    arrays = unpacked(contents)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(arrays)))
        what = draw(st.sampled_from(["drop", "replace", "more", "number", "type", "shape"]))
        if what == "drop" and len(arrays) > 1:
            del arrays[name]
        elif what == "replace":
            arrays[name] = draw(odd_arrays)
        elif what == "more":
            arrays[draw(st.sampled_from(["w99", "a99", "x", "arr_99"]))] = draw(odd_arrays)
        elif what == "number" and arrays[name].dtype.kind == "f" and arrays[name].size:
            arrays[name] = arrays[name].copy()
            arrays[name].flat[0] = draw(st.sampled_from([np.nan, np.inf, -1e30, 1e38]))
        elif what == "type" and arrays[name].dtype.kind in "fiu":
            arrays[name] = arrays[name].astype(draw(st.sampled_from(["<f8", "<i4", "<c8", "<U3", ">f4"])))
        elif what == "shape":
            arrays[name] = arrays[name][..., None]
    return packed(arrays)


def loaded_or_refused(load, refusal, folder):
    """Whether it was loaded; the folder stays as it is."""
    before = sorted(folder.rglob("*"))
    try:
        load()
        return True
    except refusal as rejected:
        check_refusal(rejected)
        return False
    finally:
        assert sorted(folder.rglob("*")) == before


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def _grams() -> bytes:
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for name, multiple in zip(LAYERS, gram_files.MULTIPLES):
        maps = rng.random((2, multiple, 9), np.float32)
        arrays[name] = (maps @ maps.transpose(0, 2, 1)).astype("<f4")
    texts = {name: np.array(name) for name in ("label", "weights", "sha256")}
    return packed({**arrays, "positions": np.full(5, 9, "<i8"), "width": np.array(1, "<i8"), **texts})


GRAMS = _grams()


@bounded(40)
@given(contents=other(GRAMS))
def test_gram_matrices(folder, contents):
    (folder / "g.npz").write_bytes(contents)
    loaded_or_refused(lambda: gram_files.load(folder / "g.npz", 1), gram_files.GramsRejected, folder)


def test_the_gram_matrices_themselves(folder):
    (folder / "g.npz").write_bytes(GRAMS)
    assert len(gram_files.load(folder / "g.npz", 1)) == 2


@pytest.fixture(scope="module")
def generator(folder):
    """The bytes of a generator's file."""
    generator_files.save(folder / "own.npz", pix2pix.build(pix2pix.Architecture("unet", (16, 16), 1, 1)), "int8")
    return (folder / "own.npz").read_bytes()


@bounded(30)
@given(data=st.data())
def test_generators(folder, generator, data):
    (folder / "n.npz").write_bytes(data.draw(other(generator)))
    loaded_or_refused(lambda: generator_files.load(folder / "n.npz"), generator_files.GeneratorRejected, folder)


@pytest.fixture(scope="module")
def training():
    images = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 1), np.uint8)
    return Training(images, (images[..., 0] > 127).astype(np.uint8), settings_for("unet", width=1, epochs=1))


@bounded(30)
@given(data=st.data())
def test_checkpoints_of_generators(folder, training, data):
    path = folder / pix2pix_folder.CHECKPOINT
    pix2pix_folder._save(training, path, training.fingerprint())
    before = training.state()
    path.write_bytes(data.draw(other(path.read_bytes())))
    if not loaded_or_refused(lambda: pix2pix_folder._restore(training, path), UserError, folder):
        assert all(np.array_equal(a, b) for a, b in zip(training.state(), before))
    training.restore(before)


STATE = packed({"a0": np.ones((2, 3), np.float32), "a1": np.array(3)})


@bounded(40)
@given(newest=other(STATE), kept=other(STATE) | st.just(STATE))
def test_checkpoints_of_runs(tmp_path_factory, newest, kept):
    """The newest that can be read, or the one before."""
    with Run(tmp_path_factory.mktemp("run"), "a", {}) as run:
        for number in (1, 2):
            run.keep(number, 0, [np.array(number)])
            run.add_round({"round": number})
            run.save(number, [np.array(number)])
        (run.folder / "checkpoint-2.npz").write_bytes(newest)
        (run.folder / "kept-2-0.npz").write_bytes(kept)
        number, arrays = run.latest()
        assert number in (1, 2) and run.rounds()["round"].tolist() == [1, 2][:number]
        assert number == 2 or (arrays[0] == 1 and run.kept(0)[0] == 1)


ROUNDS, SUMMARY = b"round,accuracy\n1,0.5\n2,0.75\n", b'{"accuracy": 0.75}'


@bounded(40)
@given(rounds=damaged(ROUNDS) | st.binary(max_size=40), summary=damaged(SUMMARY) | st.binary(max_size=20))
def test_records_of_runs(tmp_path_factory, rounds, summary):
    with Run(tmp_path_factory.mktemp("run"), "a", {}) as run:
        run.save(1, [np.array(1)])
        (run.folder / "rounds.csv").write_bytes(rounds)
        (run.folder / "finished.json").write_bytes(summary)
        for read in (run.rounds, run.summary):
            loaded_or_refused(read, UserError, run.folder)
        try:
            assert run.latest()[0] == 1
        except UserError as error:
            check_refusal(error)


@pytest.fixture(scope="module")
def model():
    """The bytes of a model that can be asked."""
    about = {"model": "tiny", "size": 8, "head": "gap", "artists": ["a", "b"], "seed": 0}
    network = classifiers.build("tiny", input_shape=(8, 8, 3), classes=2, head="gap")
    weights = {f"w{number}": value for number, value in enumerate(network.get_weights())}
    width = network.layers[-1].input_shape[-1]
    return packed(
        {
            "about": np.array(json.dumps(about)), "styles": np.ones((2, width), np.float32),
            "there": np.ones(2, np.float32), "samples": np.zeros((2, 3, 64, 64, 3), np.uint8), **weights,
        }
    )  # fmt: skip


@bounded(40)
@given(data=st.data())
def test_models_to_be_asked(folder, model, data):
    (folder / "m.npz").write_bytes(data.draw(other(model)))
    loaded_or_refused(lambda: checked_model(folder / "m.npz"), UserError, folder)


def checked_model(path):
    found = global_model.load(path)
    count, width = len(found.artists), found.network.layers[-1].input_shape[-1]
    assert found.styles.shape == (count, width) and found.there.shape == (count,)
    assert found.samples.dtype == np.uint8 and found.samples.shape == (count, 3, 64, 64, 3)
    assert np.isfinite(found.styles).all() and np.isfinite(found.there).all()


ABOUT = st.sampled_from(["model", "size", "head", "artists"])


@bounded(40)
@given(
    name=ABOUT,
    value=st.sampled_from([None, "", "x", [], ["a"], ["a", ["b"]], {}, -1, 0, 1e999, 10**30, True, "9" * 5000]),
)
def test_what_a_model_says_about_itself(folder, model, name, value):
    arrays = unpacked(model)
    arrays["about"] = np.array(json.dumps({**json.loads(str(arrays["about"])), name: value}))
    (folder / "m.npz").write_bytes(packed(arrays))
    loaded_or_refused(lambda: checked_model(folder / "m.npz"), UserError, folder)


@bounded(30)
@given(data=st.data())
def test_stains_that_were_measured_before(tmp_path_factory, data):
    """They are measured anew."""
    place = tmp_path_factory.mktemp("stains")
    first = stains.measure([], StainSettings(), "key", place)
    (file,) = place.rglob("*.npz")
    file.write_bytes(data.draw(other(file.read_bytes())))
    again = stains.measure([], StainSettings(), "key", place)
    assert again.matrices.shape == first.matrices.shape and again.ok.tolist() == again.reasons.tolist() == []


def test_a_member_that_is_encrypted_or_packed_oddly(folder):
    """zipfile raises RuntimeError for the one and NotImplementedError for the other."""
    for flag, place in ((b"\x01", 6), (b"\x63", 8)):
        contents = bytearray(STATE)
        with zipfile.ZipFile(io.BytesIO(STATE)) as file:
            start = file.start_dir
        contents[place : place + 1] = flag
        contents[start + place + 2 : start + place + 3] = flag
        with Run(folder, "odd", {}, fresh=True) as run:
            run.save(1, [np.array(1)])
            run.save(2, [np.array(2)])
            (run.folder / "checkpoint-2.npz").write_bytes(contents)
            assert run.latest()[0] == 1
