"""Bundles: written whole, shared bases, read back as they were; and whatever is wrong with one is told in a line."""

import json
import os
import pathlib
import random
import struct
import subprocess

import numpy as np
import pytest

from tests.use.conftest import change_json
from tffapps.errors import UserError
from tffapps.use import bundle, card, folder, network, write
from tffapps.use.decision import Decision


def base_of(path: pathlib.Path) -> pathlib.Path:
    (file,) = path.glob("base-*.npz")
    return file


def test_what_is_read_is_what_was_written(kept_bundle, recipe, pictures):
    _, parts = recipe
    loaded = bundle.load(kept_bundle)
    assert loaded.classes == ("blue", "green", "red") and loaded.preprocess.size == (16, 16)
    assert loaded.default_model == "chosen" and loaded.decisions["chosen"] == Decision(2.0, 0.4, 24)
    images = np.random.default_rng(0).random((2, 16, 16, 3), np.float32)
    parts.trained.set_weights([value * 1.5 for value in loaded_weights(kept_bundle, "last")])
    np.testing.assert_array_equal(loaded.model()(images), parts.whole(images))
    assert not np.array_equal(loaded.model("last")(images), loaded.model("chosen")(images))
    assert loaded.novelty().mean.shape == loaded.novelty("last").mean.shape


def loaded_weights(path, name):
    with np.load(path / f"{name}.npz", allow_pickle=False) as content:
        return [content[f"w{number}"] for number in range(len(content.files))]


def test_the_hashes_are_those_of_sha256sum(kept_bundle):
    done = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=kept_bundle, check=False)
    assert done.returncode == 0


def test_runs_of_one_base_share_its_file(kept_bundle, recipe):
    how, parts = recipe
    weights = {"last": parts.trained.get_weights()}
    common = {"system": "classify", "decisions": {"last": Decision()}, "scores": {}, "provenance": {}}
    second = write.write(kept_bundle.parents[1] / "two", how, weights, **common)
    assert os.path.samefile(base_of(second), base_of(kept_bundle)) and not base_of(second).is_symlink()
    assert sorted(os.listdir(second.parent)) == ["bundle"]


def test_a_diverged_model_leaves_no_bundle(recipe, tmp_path):
    how, parts = recipe
    weights = {"last": [value * np.nan for value in parts.trained.get_weights()]}
    with pytest.raises(UserError, match="not finite"):
        write.write(tmp_path, how, weights, system="x", decisions={"last": Decision()}, scores={}, provenance={})
    assert not list(tmp_path.iterdir())


def resave(path, change):
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files}
    change(arrays)
    np.savez(path, **arrays)
    folder.write_sums(path.parent)


def with_line(path, line):
    sums = path / folder.SUMS
    sums.write_text(sums.read_text() + line + "\n")


def linked(path):
    (path / "last.npz").rename(path.parent / "elsewhere.npz")
    (path / "last.npz").symlink_to(path.parent / "elsewhere.npz")


def piped(path):
    (path / "last.npz").unlink()
    os.mkfifo(path / "last.npz")


def bomb(path):
    """What its directory claims of its first array is two gigabytes."""
    contents = bytearray((path / "last.npz").read_bytes())
    struct.pack_into("<I", contents, contents.index(b"PK\x01\x02") + 24, 2**31 - 1)
    (path / "last.npz").write_bytes(contents)
    folder.write_sums(path)


def flipped(path):
    contents = bytearray((path / "last.npz").read_bytes())
    contents[len(contents) // 2] ^= 1
    (path / "last.npz").write_bytes(contents)


def said(**changes):
    return lambda path: change_json(path, lambda about: about.update(changes))


def described(**changes):
    return lambda path: change_json(path, lambda about: about["network"].update(changes))


def seen(**changes):
    return lambda path: change_json(path, lambda about: about["images"].update(changes))


def other_base(name):
    return lambda path: change_json(path, lambda about: about["models"]["last"].update(base=name))


def flatten(path):
    described(head="flatten256")(path)
    seen(height=4096, width=4096)(path)


ZEROS = "0" * 64
SPOILT = {
    "a changed byte": (flipped, "last.npz: changed or damaged: its SHA-256 is not as listed"),
    "a missing file": (lambda path: (path / "chosen.npz").unlink(), "chosen.npz: missing from the bundle"),
    "no hashes": (lambda path: (path / folder.SUMS).unlink(), "not a bundle, it has no SHA256SUMS"),
    "a link": (linked, "last.npz: cannot be read (a link)"),
    "a pipe": (piped, "last.npz: not a file"),
    "a name above": (lambda path: with_line(path, f"{ZEROS}  ../secret"), "is not the hash of a file of the bundle"),
    "an absolute name": (lambda path: with_line(path, f"{ZEROS}  /etc/passwd"), "is not the hash of a file"),
    "a name twice": (lambda path: with_line(path, f"{ZEROS}  last.npz"), "is not the hash of a file"),
    "no text": (lambda path: (path / folder.SUMS).write_bytes(b"\xff\x00\n"), "is not the hash of a file"),
    "no JSON": (lambda path: ((path / "bundle.json").write_text("{"), folder.write_sums(path)), "not JSON"),
    "JSON too deep": (
        lambda path: ((path / "bundle.json").write_text("[" * 100_000), folder.write_sums(path)), "not JSON",
    ),
    "a list": (lambda path: ((path / "bundle.json").write_text("[]"), folder.write_sums(path)), "not a JSON object"),
    "another format": (said(format=2), "format is 2, expected 1, which this version of tffapps reads"),
    "one class": (said(classes=["a"]), "classes is ['a'], expected 2 or more texts"),
    "a class twice": (said(classes=["a", "a", "b"]), "expected 2 or more texts, each once"),
    "a class of two lines": (said(classes=["a\nb", "c", "d"]), "classes is 'a\\nb', expected a short line of text"),
    "more classes than outputs": (said(classes=["a", "b", "c", "d"]), "expected float32 (128, 4)"),
    "no models": (said(models={}), "models is {}, expected last and perhaps chosen"),
    "an unknown network": (described(model="os.system"), "model is 'os.system', expected one of mobilenetv2"),
    "an unknown cut": (described(cut="block9"), "cut is 'block9', expected one of head"),
    "a huge U-Net": (described(kind="unet", width=1024, depth=7), "too small for the network that bundle.json desc"),
    "a huge dense layer": (flatten, "too small for the network that bundle.json describes"),
    "images without pixels": (seen(height=0), "height is 0, expected a whole number from 1 to 4096"),
    "two channels": (seen(channels=2), "channels is 2, expected 1 or 3"),
    "an unknown step": (seen(steps=[{"step": "eval"}]), "step is 'eval', expected one of knee, amplitude"),
    "a step without its file": (seen(steps=[{"step": "amplitude"}]), "SHA256SUMS lists no amplitude.npz"),
    "a knee without settings": (seen(steps=[{"step": "knee", "settings": {"blur": 3}}]), "expected the settings turn_"),
    "a base elsewhere": (other_base("../../base.npz"), "no ../../base.npz"),
    "a base that is none": (other_base("last.npz"), "wrong names"),
    "a temperature of 0": (
        lambda path: change_json(path, lambda about: about["models"]["chosen"].update(temperature=0)),
        "temperature is 0, expected a number from 0.05 to 20",
    ),
    "weights that are not finite": (
        lambda path: resave(path / "last.npz", lambda arrays: arrays["w0"].fill(np.nan)), "w0 holds values that",
    ),
    "weights of another shape": (
        lambda path: resave(path / "last.npz", lambda arrays: arrays.update(w0=arrays["w0"][..., :1])), "w0 is float32",
    ),
    "weights of another type": (
        lambda path: resave(path / "last.npz", lambda arrays: arrays.update(w0=arrays["w0"].astype(np.float64))),
        "w0 is float64",
    ),
    "one array less": (lambda path: resave(path / "last.npz", lambda arrays: arrays.pop("w0")), "wrong names"),
    "pickled objects": (
        lambda path: resave(path / "last.npz", lambda arrays: arrays.update(w0=np.array([print], object))), "pickled",
    ),
    "a zip bomb": (bomb, "too large"),
    "another's novelty": (
        lambda path: resave(path / "novelty-last.npz", lambda arrays: arrays.update(mean=arrays["mean"][:2])),
        "as wide as the mean",
    ),
    "no variance": (
        lambda path: resave(path / "novelty-last.npz", lambda arrays: arrays["variances"].fill(0)), "variances above 0",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def built_once():
    """Of every description: what is tested here is what is put into networks."""
    known, build = {}, network.Description.build

    def kept(description):
        if str(description) not in known:
            known[str(description)] = build(description)
        return known[str(description)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network.Description, "build", kept)
        yield


def use_all(path):
    loaded = bundle.load(path)
    for which in loaded.decisions:
        loaded.model(which)
        loaded.novelty(which)
    return loaded


@pytest.mark.parametrize("spoilt", SPOILT)
def test_a_spoilt_bundle_is_refused_in_one_line(spoilt, bundle_folder):
    spoil, message = SPOILT[spoilt]
    spoil(bundle_folder)
    with pytest.raises(UserError) as refused:
        use_all(bundle_folder)
    text = str(refused.value)
    assert message in text and str(bundle_folder) in text and "\n" not in text and len(text) < 700


def test_no_folder_is_no_bundle(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such folder; give the folder `bundle` of a finished run"):
        bundle.load(tmp_path / "nowhere")


def mutated(value, dice):
    """Something else in the place of a part of a JSON value."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        name = dice.choice(list(value))
        return {**value, name: mutated(value[name], dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        place = dice.randrange(len(value))
        return [*value[:place], mutated(value[place], dice), *value[place + 1 :]]
    return dice.choice([None, True, -1, 0, 1, 2**70, 1e308, "", "x" * 999, "../x", "\x1b[2J", [], [[]], {}, {"": None}])


def test_whatever_it_says_it_is_used_or_refused(bundle_folder):
    """With right hashes: nothing but a UserError comes out."""
    dice, refused = random.Random(3), 0
    original = (bundle_folder / "bundle.json").read_bytes()
    for _ in range(80):
        (bundle_folder / "bundle.json").write_bytes(original)
        about = json.loads(original)
        name = dice.choice(list(about))
        said(**{name: mutated(about[name], dice)})(bundle_folder)
        try:
            document = card.card(bundle.load(bundle_folder))
            assert document.markdown() and "\x1b" not in document.html()
        except UserError as error:
            refused += 1
            assert "\x1b" not in str(error)
    assert 30 < refused < 80


def test_whatever_its_arrays_are_they_are_used_or_refused(bundle_folder):
    dice, refused = random.Random(5), 0
    original = (bundle_folder / "last.npz").read_bytes()
    for _ in range(40):
        contents = bytearray(original[: dice.randrange(len(original))] if dice.random() < 0.2 else original)
        for _ in range(dice.randrange(1, 4)):
            end = len(original)
            place = dice.choice([dice.randrange(200), dice.randrange(end), end - dice.randrange(1, 300)])
            if place < len(contents):
                contents[place] = dice.randrange(256)
        (bundle_folder / "last.npz").write_bytes(contents)
        folder.write_sums(bundle_folder)
        try:
            use_all(bundle_folder)
        except UserError:
            refused += 1
    assert refused > 20
