"""What each side does to the images of a federation: who gets whose stains, what stays, what is kept on disk."""

from __future__ import annotations

import itertools
import os
import pathlib

import cv2
import numpy as np
import pandas as pd
import pytest

from preprocessing import stain, stain_dictionary, stain_pixels
from preprocessing.stain import StainSettings
from tests.preprocessing.stains import patches
from tffapps import cli
from tffapps.data import tissue, wilds
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.evaluation.image_quality import ColourHistogram, colour_distance, ssim
from tffapps.fedsda import APP
from tffapps.fedsda.alignments import Alignments
from tffapps.fedsda.ccst import StyleTransfer
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.placement import OneMachine

SEPARATION = StainSettings(lambda_matrix=0.02)


class KnownStains:
    """A stain model that draws from the true distributions of the stand-in's centres, and notes what it drew."""

    def __init__(self):
        self.numbers, self.matrices = [], []

    def draw(self, numbers, seed):
        by_centre = [tissue.centre_stains(centre, len(numbers), seed + 100) for centre in range(numbers.max() + 1)]
        matrices = np.stack([by_centre[number][row] for row, number in enumerate(numbers)]).astype(np.float32)
        self.numbers.append(numbers)
        self.matrices.append(matrices)
        return matrices


class Painter:
    """A style transfer that paints an image in its client's number, and notes whose style it gave."""

    key = "painter"

    def __init__(self):
        self.painted = []

    def transfer(self, images, clients):
        self.painted += list(clients)
        return np.broadcast_to(10 * np.asarray(clients, np.uint8)[:, None, None, None], images.shape).copy()


@pytest.fixture(scope="module")
def fold(tmp_path_factory):
    """Three centres of 40 patches, a blank one in each."""
    root = tissue.write_tissue(tmp_path_factory.mktemp("t") / "t", patches=40, centres=3, size=48, progress=False)
    table = wilds.read(root).sample(frac=1, random_state=0)  # clients mixed
    return Fold(FEDERATION, table[table.split == "train"], table[table.split == "test"])


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sides_of(fold, *flags, stains=None, styles=None):
    values = cli.parse(APP, ["--profile", "smoke", *flags])
    return Alignments(values, fold, OneMachine(None, SEPARATION).align, lambda: stains, lambda: styles)


def of_clients(fold, *clients):
    return Fold(fold.name, *(table[table.client.isin(clients)] for table in (fold.train, fold.test)))


def stack(paths):
    return np.stack([cv2.imread(path)[..., ::-1] for path in paths])


def made(folder):
    """When each image was made."""
    return {file: file.stat().st_mtime_ns for file in (folder / "data" / "cache").rglob("*.*")}


def apart(table):
    """How far the clients' colours are apart, mean over every two."""
    histograms = []
    for _, paths in table.groupby("client").path:
        histogram = ColourHistogram()
        histogram.add(stack(paths))
        histograms.append(histogram)
    return np.mean([colour_distance(*pair) for pair in itertools.combinations(histograms, 2)])


# ---- none ----


def test_none_is_the_identity(fold, here):
    aligned = sides_of(fold).of("none", 0)
    assert aligned.train.path.tolist() == aligned.train.source.tolist() == fold.train.path.tolist()
    assert aligned.test is fold.test and aligned.kept == len(fold.train) and aligned.key == ""
    assert not list(here.iterdir())


# ---- fedsda ----


@pytest.fixture(scope="module")
def aligned(fold, tmp_path_factory):
    """(the folder, the stains drawn, what was made of them): once for the tests that only look at it."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("aligned")
        patch.chdir(folder)
        model = KnownStains()
        return folder, model, sides_of(fold, stains=model).of("fedsda", 0)


def test_each_clients_patches_are_divided_equally_among_all(fold, aligned):
    _, model, aligned = aligned
    uneven = fold.train.groupby("client").size()
    counts = pd.crosstab(aligned.train.client.to_numpy(), model.numbers[0])
    assert counts.shape == (3, 3) and counts.sum(axis=1).tolist() == uneven.tolist() == [32] * 3
    assert (counts.max(axis=1) - counts.min(axis=1)).tolist() == [1] * 3
    assert counts.idxmin(axis=1).nunique() > 1  # no client's stains are always the rarer ones


def test_the_division_is_another_for_another_seed(fold, aligned, here):
    _, model, aligned = aligned
    other = KnownStains()
    again = sides_of(fold, stains=other).of("fedsda", 1)
    assert not np.array_equal(other.numbers[0], model.numbers[0]) and again.key != aligned.key
    assert np.array_equal(np.bincount(other.numbers[0]), np.bincount(model.numbers[0]))
    changed = (again.train.path != again.train.source).to_numpy()
    first, second = stack(aligned.train.path[changed]), stack(again.train.path[changed])
    assert np.abs(first.astype(int) - second).mean(axis=(1, 2, 3)).min() > 0


def test_test_images_and_labels_stay(fold, aligned):
    _, _, aligned = aligned
    assert aligned.test is fold.test
    for column in ("label", "client", "split", "subject"):
        assert aligned.train[column].tolist() == fold.train[column].tolist()
    assert aligned.train.source.tolist() == fold.train.path.tolist()


def test_blank_patches_keep_their_look_and_are_counted(fold, aligned):
    folder, _, aligned = aligned
    ok = stain.separate(stack(fold.train.path), SEPARATION).ok
    kept = (aligned.train.path == aligned.train.source).to_numpy()
    assert np.array_equal(kept, ~ok) and aligned.kept == kept.sum() >= 1
    assert all(path.startswith(str(folder / "data" / "cache" / "aligned")) for path in aligned.train.path[~kept])


def test_aligned_images_keep_their_density_maps(aligned):
    """Separated again with the stains they were given, against the originals separated with their own."""
    _, model, aligned = aligned
    changed = (aligned.train.path != aligned.train.source).to_numpy()
    before = stain.separate(stack(aligned.train.source[changed]), SEPARATION).densities
    pixels = stain_pixels.planes(stack(aligned.train.path[changed]))
    extended = stain_dictionary.with_ones(stain_pixels.optical_density(pixels))
    after = stain_dictionary.densities(extended, model.matrices[0][changed], SEPARATION.lambda_density)
    for was, now in zip(before.reshape(*after.shape), after):
        assert min(np.corrcoef(was[number], now[number])[0, 1] for number in (0, 1)) > 0.99


def test_aligned_images_keep_their_structure(aligned):
    _, _, aligned = aligned

    def grey(paths):
        return np.stack([np.dstack([cv2.imread(path, cv2.IMREAD_GRAYSCALE)] * 3) for path in paths])

    changed = aligned.train[aligned.train.path != aligned.train.source]
    similar = ssim(grey(changed.source), grey(changed.path))
    assert similar.min() > 0.98 and similar.max() < 1


def test_an_aligned_image_has_the_stains_it_was_given(aligned):
    _, model, aligned = aligned
    changed = (aligned.train.path != aligned.train.source).to_numpy()
    found = stain.separate(stack(aligned.train.path[changed]), SEPARATION).matrices
    given = model.matrices[0][changed]

    def degrees(matrices):
        return np.median(np.degrees(np.arccos(np.clip((found * matrices).sum(axis=1), -1, 1))), axis=0)

    assert (degrees(given) < 2.5).all() and (degrees(np.roll(given, 1, axis=0)) > 5).all()


def test_the_clients_colours_come_together(fold, aligned):
    _, _, aligned = aligned
    assert apart(aligned.train) < apart(fold.train) / 2


def test_a_second_call_makes_nothing_new(fold, aligned, monkeypatch):
    folder, _, aligned = aligned
    monkeypatch.chdir(folder)
    before = made(folder)
    assert len(before) == len(fold.train)
    monkeypatch.setattr(stain, "separate", None)
    again = sides_of(fold, stains=KnownStains()).of("fedsda", 0)
    assert again.train.path.tolist() == aligned.train.path.tolist() and again.key == aligned.key
    assert again.kept == aligned.kept and made(folder) == before


def test_another_separation_makes_other_images(fold, here):
    def aligning(penalty):
        return OneMachine(None, StainSettings(lambda_matrix=penalty)).align

    few, values = of_clients(fold, "centre0"), cli.parse(APP, ["--profile", "smoke"])
    first, second = (
        Alignments(values, few, aligning(penalty), KnownStains, Painter).of("fedsda", 0).train
        for penalty in (0.1, 0.02)
    )
    kept = set(first.source) & set(first.path)
    assert set(first.path) & set(second.path) == kept and len(kept) <= 1


def test_an_image_that_is_gone_stops_with_its_name(fold, here):
    table = fold.train.copy()
    table.loc[table.index[3], "path"] = str(here / "gone.png")
    with pytest.raises(UserError, match=r"gone\.png: .*; it could be read before: run the command again"):
        sides_of(Fold(FEDERATION, table, fold.test), stains=KnownStains()).of("fedsda", 0)


# ---- ccst ----


def test_ccst_gives_every_image_the_styles_of_several_clients(fold, here):
    painter = Painter()
    aligned = sides_of(fold, "--ccst-styles", "2", styles=painter).of("ccst", 0)
    assert len(aligned.train) == 2 * len(fold.train) and aligned.test is fold.test
    styles = pd.Series(stack(aligned.train.path)[:, 0, 0, 0] // 10)
    by_source = styles.groupby(aligned.train.source.to_numpy())
    assert (by_source.size() == 2).all() and (by_source.nunique() == 2).all()
    counts = pd.crosstab(aligned.train.client.to_numpy(), styles.to_numpy())
    assert counts.shape == (3, 3) and (counts.max(axis=1) - counts.min(axis=1)).max() <= 1
    labels = fold.train.set_index("path").label
    assert aligned.train.label.tolist() == labels[aligned.train.source].tolist()
    assert len(painter.painted) == 2 * len(fold.train)
    again = sides_of(fold, "--ccst-styles", "2", styles=painter).of("ccst", 0)
    assert again.train.path.tolist() == aligned.train.path.tolist() and len(painter.painted) == 2 * len(fold.train)


@pytest.mark.parametrize(("asked", "given"), [("0", 3), ("1", 1), ("9", 3)])
def test_ccst_never_gives_a_style_twice(fold, here, asked, given):
    aligned = sides_of(fold, "--ccst-styles", asked, styles=Painter()).of("ccst", 0)
    assert len(aligned.train) == given * len(fold.train) and aligned.train.path.is_unique


def test_ccst_with_other_networks_makes_other_images(fold, here):
    keys = [sides_of(fold, styles=painter).of("ccst", 0).key for painter in (Painter(), Painter())]
    other = Painter()
    other.key = "another"
    aligned = sides_of(fold, styles=other).of("ccst", 0)
    assert keys[0] == keys[1] != aligned.key and len(other.painted) == len(aligned.train)


def test_a_decoder_is_learned_once_and_gives_each_client_its_style(fold, here):
    few = of_clients(fold, "centre0", "centre2")
    values = cli.parse(APP, ["--profile", "smoke"])
    images = stack(few.train.path[:4])
    with open_engine("in-process") as engine:
        network = StyleTransfer(values, engine)
        first = network.learn(few, "data", ("png",))
        (file,) = here.rglob("rounds.csv")
        record = file.stat().st_mtime_ns, len(pd.read_csv(file))
        again = network.learn(few, "data", ("png",))
    assert network.weights == "random" and record == (file.stat().st_mtime_ns, 1) and first.key == again.key
    one, other = (first.transfer(images, np.full(4, number)) for number in (0, 1))
    mixed = first.transfer(images, np.array([0, 1, 0, 1]))
    assert one.shape == images.shape and one.dtype == np.uint8
    assert np.array_equal(mixed[0], one[0]) and np.array_equal(mixed[1], other[1])
    assert not np.array_equal(one[1], other[1])
    assert np.array_equal(again.transfer(images, np.zeros(4, int)), one)


# ---- amp-norm ----


def test_amp_norm_of_one_client_is_the_identity(fold, here):
    alone = of_clients(fold, "centre1")
    aligned = sides_of(alone).of("amp-norm", 0)
    assert aligned.train.path.tolist() == alone.train.path.tolist() and aligned.test is alone.test
    assert not list(here.iterdir())


def test_amp_norm_changes_test_images_as_well(fold, here):
    aligned = sides_of(fold).of("amp-norm", 0)
    for before, after in ((fold.train, aligned.train), (fold.test, aligned.test)):
        assert after.label.tolist() == before.label.tolist() and len(after) == len(before)
        assert not set(before.path) & set(after.path) and all(map(os.path.isabs, after.path))
        assert np.abs(stack(before.path).astype(int) - stack(after.path)).mean() > 1
    assert aligned.train.source.tolist() == fold.train.path.tolist()
    assert apart(aligned.train) < apart(fold.train) / 2
    before = made(here)
    again = sides_of(fold).of("amp-norm", 1)  # nothing is drawn
    assert again.key == aligned.key and made(here) == before


def test_amp_norm_follows_the_decay(fold, here):
    first, second = (sides_of(fold, "--amplitude-decay", decay).of("amp-norm", 0).key for decay in ("0.1", "1"))
    assert first != second


@pytest.mark.parametrize("where", ["a client", "another client", "the test images"])
def test_amp_norm_of_two_sizes_is_refused(fold, here, where):
    larger = here / "larger.png"
    cv2.imwrite(str(larger), patches(1, size=64)[0][0])
    train, test = fold.train.copy(), fold.test.copy()
    if where == "the test images":
        test.loc[test.index[0], "path"] = str(larger)
    else:
        rows = train.index[train.client == "centre1"]
        rows = rows[:1] if where == "a client" else rows
        for row in rows:
            copy = pathlib.Path(f"{row}.png")
            copy.write_bytes(larger.read_bytes())
            train.loc[row, "path"] = str(copy.absolute())
    with pytest.raises(UserError, match=r"^--sides amp-norm: .*(48.*64|64.*48)"):
        sides_of(Fold(FEDERATION, train, test)).of("amp-norm", 0)
