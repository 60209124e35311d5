"""The stains of a training set: what is measured, what cannot be, and nothing twice."""

from __future__ import annotations

import cv2
import numpy as np
import pandas as pd
import pytest

from preprocessing import stain
from preprocessing.stain import REFERENCE, StainSettings
from tests.fedsda.known import WHOLE, stain_models
from tests.preprocessing.stains import BROWN, TYPICAL, densities, patches, render, unit
from tffapps.data import tissue, wilds
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.fedsda.stains import measure

VAHADANE = StainSettings()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The training patches of two centres, a blank one in each."""
    root = tissue.write_tissue(tmp_path_factory.mktemp("t") / "t", patches=20, centres=2, size=48, progress=False)
    return wilds.read(root).query("split == 'train'")


def stack(paths):
    return np.stack([cv2.imread(path)[..., ::-1] for path in paths])


def written(file, image):
    """The path of an RGB or RGBA image."""
    cv2.imwrite(str(file), cv2.cvtColor(image, cv2.COLOR_RGBA2BGRA if image.shape[2] == 4 else cv2.COLOR_RGB2BGR))
    return str(file)


def counted(monkeypatch):
    """The sizes of the stacks that are measured from now on."""
    sizes, original = [], stain.matrices_of
    monkeypatch.setattr(
        stain, "matrices_of", lambda images, *more: sizes.append(len(images)) or original(images, *more)
    )
    return sizes


def odd_patches(folder):
    """By name the path of a usual patch, and of patches whose stains no one can tell."""
    rng = np.random.default_rng(0)
    maps = densities(rng, 64)
    pink = np.stack([np.zeros_like(maps[1]), maps[1]])
    images = {
        "usual": render(unit(TYPICAL), maps, rng),
        "blank": np.full((64, 64, 3), 243, np.uint8),
        "black": np.zeros((64, 64, 3), np.uint8),
        "pink": render(unit(TYPICAL), pink, rng, noise=0),
        "brown": render(unit(BROWN), maps, rng),
    }
    return {name: written(folder / f"{name}.png", image) for name, image in images.items()}


@pytest.mark.parametrize("settings", [VAHADANE, StainSettings(method="macenko")], ids=["vahadane", "macenko"])
def test_the_stains_are_those_of_the_patches_together(table, settings, tmp_path):
    found = measure(table.path, settings, "key", tmp_path)
    matrices, ok, reasons = stain.matrices_of(stack(table.path), settings)
    assert np.array_equal(found.matrices, matrices) and np.array_equal(found.ok, ok)
    assert found.reasons.tolist() == reasons and found.paths == table.path.tolist()
    assert 1 <= (~ok).sum() <= 2 and set(found.matrices[~ok].ravel()) == set(REFERENCE.ravel())


def test_patches_of_two_sizes_keep_their_places(table, tmp_path):
    larger, _ = patches(2, size=72)
    paths = list(table.path[:4])
    paths[1:1] = [written(tmp_path / "a.png", larger[0])]
    paths.append(written(tmp_path / "b.png", larger[1]))
    found = measure(paths, VAHADANE, "key", tmp_path)
    for row, path in enumerate(paths):
        assert np.array_equal(found.matrices[row], stain.matrices_of(stack([path]))[0][0])


def test_a_second_measurement_reads_the_first(table, tmp_path, monkeypatch):
    sizes = counted(monkeypatch)
    first = measure(table.path, VAHADANE, "key", tmp_path)
    assert sum(sizes) == len(table)
    again = measure(table.path, VAHADANE, "key", tmp_path)
    assert sum(sizes) == len(table)
    assert np.array_equal(again.matrices, first.matrices) and np.array_equal(again.ok, first.ok)
    assert again.reasons.tolist() == first.reasons.tolist() and again.paths == first.paths


@pytest.mark.parametrize("change", ["data", "settings", "rows"])
def test_other_data_or_settings_are_measured_anew(table, tmp_path, monkeypatch, change):
    measure(table.path, VAHADANE, "key", tmp_path)
    sizes = counted(monkeypatch)
    rows = table.path[:-1] if change == "rows" else table.path
    settings = StainSettings(lambda_matrix=0.02) if change == "settings" else VAHADANE
    measure(rows, settings, "other" if change == "data" else "key", tmp_path)
    assert sum(sizes) == len(rows)


def test_an_interrupted_measurement_leaves_nothing_behind(table, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stain, "matrices_of", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        measure(table.path, VAHADANE, "key", tmp_path)
    assert not list(tmp_path.rglob("*.*"))
    assert measure(table.path, VAHADANE, "key", tmp_path).ok.sum() >= len(table) - 2


def test_what_cannot_be_measured_has_a_reason_and_the_textbooks_stains(tmp_path):
    paths = odd_patches(tmp_path)
    (tmp_path / "torn.png").write_bytes((tmp_path / "usual.png").read_bytes()[:300])
    paths |= {"torn": str(tmp_path / "torn.png"), "gone": str(tmp_path / "gone.png")}
    found = measure(list(paths.values()), VAHADANE, "key", tmp_path)
    reasons = dict(zip(paths, found.reasons))
    assert reasons["usual"] == ""
    assert reasons["blank"].startswith("too little tissue: 0.0%")
    assert reasons["pink"].startswith("one stain only: ") and reasons["black"].startswith("one stain only: ")
    assert reasons["brown"].startswith("not H&E: the second stain absorbs ")
    assert "truncated" in reasons["torn"] and "no such file" in reasons["gone"].lower()
    assert found.ok.tolist() == [True, *[False] * 6]
    assert (found.matrices[1:] == REFERENCE).all() and not np.allclose(found.matrices[0], REFERENCE)


def test_a_patch_with_opacity_is_measured_like_one_without(tmp_path):
    (image, other), _ = patches(2, size=64)
    opaque = np.dstack([image, np.full((64, 64), 255, np.uint8)])
    half = opaque.copy()
    half[:32, :, 3] = 0
    laid = image.copy()
    laid[:32] = 255
    images = {"plain": image, "opaque": opaque, "half": half, "laid": laid, "other": other}
    found = measure([written(tmp_path / f"{n}.png", x) for n, x in images.items()], VAHADANE, "key", tmp_path)
    plain, same, half, laid, other = found.matrices
    assert found.ok.all() and np.array_equal(plain, same) and np.array_equal(half, laid)
    assert not np.array_equal(plain, half) and not np.array_equal(plain, other)


@pytest.fixture
def clients(tmp_path):
    """Two clients: one whose patches can all be measured, and one of odd patches among which a usual one."""
    paths = odd_patches(tmp_path)
    usual = [written(tmp_path / f"{number}.png", image) for number, image in enumerate(patches(6, size=64)[0])]
    rows = [(path, "good") for path in usual] + [(path, "odd") for path in paths.values()]
    return pd.DataFrame(rows, columns=["path", "client"]), paths


def test_stains_by_client_leave_out_what_could_not_be_measured(clients, tmp_path):
    table, paths = clients
    found = measure(table.path, VAHADANE, "key", tmp_path)
    by_client = found.by_client(table, ["odd", "good"])
    assert [len(own) for own in by_client] == [1, 6]
    assert np.array_equal(by_client[0][0], found.matrices[table.path.tolist().index(paths["usual"])])
    shuffled = table.sample(frac=1, random_state=0)  # rows are found by their path
    assert np.array_equal(found.of(shuffled[shuffled.client == "odd"]), by_client[0])


def test_a_client_without_any_measurable_patch_is_named(clients, tmp_path):
    table, paths = clients
    table = table[table.path != paths["usual"]]
    found = measure(table.path, VAHADANE, "key", tmp_path)
    with pytest.raises(UserError, match=r"^odd: the stains of none of its 4 training patches .*blank\.png: too little"):
        found.by_client(table, ["good", "odd"])


def test_a_client_with_one_measurable_patch_takes_part(clients, tmp_path):
    table, _ = clients
    matrices = measure(table.path, VAHADANE, "key", tmp_path).by_client(table, ["good", "odd"])
    flags = ["--diffusion-rounds", "2", "--diffusion-epochs", "2", "--diffusion-steps", "20", "--fd-samples", "16"]
    with open_engine("in-process") as engine:
        models = stain_models(engine, tmp_path / "results", flags, federation=list(zip(["good", "odd"], matrices)))
        learned = models.learn(WHOLE, "mlp")
        drawn = learned.draw(np.array([0, 1]), 0)
    rounds = learned.record.rounds
    assert rounds.clients.tolist() == [2, 2] and np.isfinite(rounds.fd).all()
    assert rounds.examples.tolist() == [2 * 7] * 2
    assert np.isfinite(drawn).all()
