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
from tffapps.fedsda.alignments import AmplitudeAlignment, StainAlignment, StyleAlignment, Unaligned
from tffapps.fedsda.ccst import PublishedTransfer, TrainedTransfer
from tffapps.fedsda.data import FEDERATION, Fold, PatchPool
from tffapps.fedsda.placement import Here
from tffapps.study import Study

SEPARATION = StainSettings(lambda_matrix=0.02)


class KnownStains:
    """A stain model that draws from the true distributions of the stand-in's centres, and notes what it drew."""

    settings = "those of the stain model"

    def __init__(self):
        self.numbers, self.matrices = [], []

    def of(self, fold):
        return self

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

    def of(self, fold):
        return self

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


def flags_of(*flags):
    return cli.parse(APP, ["--profile", "smoke", *flags])


def at_home(separation=SEPARATION):
    """A placement that has measured no patch."""
    nothing = pd.DataFrame(columns=["path", "label", "client", "split"])
    return Here(PatchPool("nothing", nothing, [], "no patches"), separation)


def restained(fold, seed=0, stains=None, separation=SEPARATION):
    return StainAlignment(flags_of(), at_home(separation), stains or KnownStains()).of(fold, seed)


def styled(fold, *flags, styles=None):
    return StyleAlignment(flags_of(*flags), styles or Painter()).of(fold, 0)


def normalised(fold, *flags, seed=0):
    return AmplitudeAlignment(flags_of(*flags)).of(fold, seed)


def kept(aligned):
    return (aligned.train.path == aligned.train.source).to_numpy()


def of_clients(fold, *clients):
    return Fold(fold.name, *(table[table.client.isin(clients)] for table in (fold.train, fold.test)))


def stack(paths):
    return np.stack([cv2.imread(path)[..., ::-1] for path in paths])


def made(folder):
    """When each image was made."""
    return {file: file.stat().st_mtime_ns for file in (folder / "data" / "cache" / "aligned").rglob("*.*")}


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
    aligned = Unaligned().of(fold, 0)
    assert aligned.train.path.tolist() == aligned.train.source.tolist() == fold.train.path.tolist()
    assert aligned.test is fold.test and kept(aligned).all() and aligned.key == ""
    assert not list(here.iterdir())


# ---- fedsda ----


@pytest.fixture(scope="module")
def aligned(fold, tmp_path_factory):
    """(the folder, the stains drawn, what was made of them): once for the tests that only look at it."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("aligned")
        patch.chdir(folder)
        model = KnownStains()
        return folder, model, restained(fold, stains=model)


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
    again = restained(fold, 1, other)
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


def test_blank_patches_keep_their_look(fold, aligned):
    folder, _, aligned = aligned
    ok = stain.separate(stack(fold.train.path), SEPARATION).ok
    assert np.array_equal(kept(aligned), ~ok) and kept(aligned).sum() >= 1
    assert all(path.startswith(str(folder / "data" / "cache" / "aligned")) for path in aligned.train.path[ok])


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
    again = restained(fold)
    assert again.train.path.tolist() == aligned.train.path.tolist() and again.key == aligned.key
    assert made(folder) == before


def test_another_separation_makes_other_images(fold, here):
    few = of_clients(fold, "centre0")
    first, second = (restained(few, separation=StainSettings(lambda_matrix=penalty)).train for penalty in (0.1, 0.02))
    kept = set(first.source) & set(first.path)
    assert set(first.path) & set(second.path) == kept and len(kept) <= 1


def test_an_image_that_is_gone_stops_with_its_name(fold, here):
    table = fold.train.copy()
    table.loc[table.index[3], "path"] = str(here / "gone.png")
    with pytest.raises(UserError, match=r"gone\.png: .*; it could be read before: run the command again"):
        restained(Fold(FEDERATION, table, fold.test))


# ---- ccst ----


def test_ccst_gives_every_image_the_styles_of_several_clients(fold, here):
    painter = Painter()
    aligned = styled(fold, "--ccst-styles", "2", styles=painter)
    assert len(aligned.train) == 2 * len(fold.train) and aligned.test is fold.test
    own = aligned.train.client.map({f"centre{number}": number for number in range(3)}).to_numpy()
    styles = pd.Series(np.where(kept(aligned), own, stack(aligned.train.path)[:, 0, 0, 0] // 10))
    by_source = styles.groupby(aligned.train.source.to_numpy())
    assert (by_source.size() == 2).all() and (by_source.nunique() == 2).all()
    counts = pd.crosstab(aligned.train.client.to_numpy(), styles.to_numpy())
    assert counts.shape == (3, 3) and (counts.max(axis=1) - counts.min(axis=1)).max() <= 1
    labels = fold.train.set_index("path").label
    assert aligned.train.label.tolist() == labels[aligned.train.source].tolist()
    assert len(painter.painted) == (~kept(aligned)).sum() and kept(aligned).any()  # its own style is the original
    again = styled(fold, "--ccst-styles", "2", styles=painter)
    assert again.train.path.tolist() == aligned.train.path.tolist() and len(painter.painted) == (~kept(again)).sum()


@pytest.mark.parametrize(("asked", "given"), [("0", 3), ("1", 1), ("9", 3)])
def test_ccst_never_gives_a_style_twice(fold, here, asked, given):
    aligned = styled(fold, "--ccst-styles", asked, styles=Painter())
    assert len(aligned.train) == given * len(fold.train) and aligned.train.path.is_unique


def test_ccst_with_other_networks_makes_other_images(fold, here):
    keys = [styled(fold, styles=painter).key for painter in (Painter(), Painter())]
    other = Painter()
    other.key = "another"
    aligned = styled(fold, styles=other)
    assert keys[0] == keys[1] != aligned.key and len(other.painted) == (~kept(aligned)).sum()


def test_a_decoder_is_learned_once_and_gives_each_client_its_style(fold, here, monkeypatch):
    few = of_clients(fold, "centre0", "centre2")
    pool = PatchPool("drawn", few.train, ["normal", "tumour"], "data", ("png",))
    images = stack(few.train.path[:4])
    with open_engine("in-process") as engine:
        first = TrainedTransfer(Study(APP, flags_of(), engine), pool).of(few)
        key = first.key
        (file,) = here.rglob("rounds.csv")
        record = file.stat().st_mtime_ns, len(pd.read_csv(file))
        monkeypatch.setattr(Study, "round_of", None)  # another command builds none
        again = TrainedTransfer(Study(APP, flags_of(), engine), pool).of(few)
    assert record == (file.stat().st_mtime_ns, 1) and again.key == key
    one, other = (first.transfer(images, np.full(4, number)) for number in (0, 1))
    mixed = first.transfer(images, np.array([0, 1, 0, 1]))
    assert one.shape == images.shape and one.dtype == np.uint8
    assert np.array_equal(mixed[0], one[0]) and np.array_equal(mixed[1], other[1])
    assert not np.array_equal(one[1], other[1])
    assert np.array_equal(again.transfer(images, np.zeros(4, int)), one)


@pytest.mark.parametrize(
    ("encoder", "told"), [("imagenet", "give its file by --ccst-weights"), ("gone.npz", "gone.npz: no")]
)
def test_a_published_decoder_needs_its_encoder(here, encoder, told):
    with pytest.raises(UserError, match=told):
        PublishedTransfer(flags_of("--ccst-decoder", "decoder.npz", "--ccst-weights", encoder))


@pytest.mark.skipif(not os.environ.get("TFFAPPS_REAL_WEIGHTS"), reason="TFFAPPS_REAL_WEIGHTS is not set")
@pytest.mark.slow
def test_ccst_with_the_published_networks_shows_tissue(fold, here):
    few = Fold(FEDERATION, fold.train.groupby("client").head(6), fold.test)
    weights = pathlib.Path(os.environ["TFFAPPS_REAL_WEIGHTS"])
    flags = ["--ccst-decoder", str(weights / "adain_decoder.npz"), "--ccst-side", "192"]
    flags += ["--ccst-weights", str(weights / "adain_encoder_relu4_1.npz")]
    aligned = StyleAlignment(flags_of(*flags), PublishedTransfer(flags_of(*flags))).of(few, 0)
    changed = aligned.train[~kept(aligned)]
    grey = [stack(paths).mean(axis=3).round().astype(np.uint8) for paths in (changed.source, changed.path)]
    before, after = (np.repeat(images[..., None], 3, axis=3) for images in grey)
    assert ssim(before, after).mean() >= 0.5


# ---- amp-norm ----


def test_amp_norm_of_one_client_is_the_identity(fold, here):
    alone = of_clients(fold, "centre1")
    aligned = normalised(alone)
    assert aligned.train.path.tolist() == alone.train.path.tolist() and aligned.test is alone.test
    assert not list(here.iterdir())


def test_amp_norm_changes_test_images_as_well(fold, here):
    aligned = normalised(fold)
    for before, after in ((fold.train, aligned.train), (fold.test, aligned.test)):
        assert after.label.tolist() == before.label.tolist() and len(after) == len(before)
        assert not set(before.path) & set(after.path) and all(map(os.path.isabs, after.path))
        assert np.abs(stack(before.path).astype(int) - stack(after.path)).mean() > 1
    assert aligned.train.source.tolist() == fold.train.path.tolist()
    assert apart(aligned.train) < 0.6 * apart(fold.train)
    assert ssim(stack(aligned.train.source), stack(aligned.train.path)).mean() >= 0.97  # as HarmoFL runs it
    before = made(here)
    again = normalised(fold, seed=1)  # nothing is drawn
    assert again.key == aligned.key and made(here) == before


def test_amp_norm_follows_the_decay_and_the_band(fold, here):
    first, second = (normalised(fold, "--amplitude-decay", decay) for decay in ("0.1", "1"))
    printed = normalised(fold, "--amplitude-band", "0.5")
    assert len({first.key, second.key, printed.key}) == 3 and printed.steps[0].band == 0.5
    assert ssim(stack(printed.train.source), stack(printed.train.path)).mean() < 0.9  # ghosts of other patches


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
        normalised(Fold(FEDERATION, train, test))
