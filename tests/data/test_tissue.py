import json

import cv2
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tffapps.data import manifest as manifests
from tffapps.data import standin, tissue, tissue_drawing, wilds
from tffapps.errors import UserError

PATCHES, CENTRES = 100, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("tissue") / "t"
    return tissue.write_tissue(root, patches=PATCHES, centres=CENTRES, progress=False)


@pytest.fixture(scope="module")
def table(folder):
    return wilds.read(folder)


@pytest.fixture(scope="module")
def density(table):
    """Optical density of every patch, (patches, pixels, 3)."""
    images = np.stack([cv2.imread(path, cv2.IMREAD_UNCHANGED)[..., ::-1] for path in table.path])
    assert images.shape == (PATCHES * CENTRES, 96, 96, 3) and images.dtype == np.uint8
    return -np.log(np.maximum(images, 1) / np.float32(255)).reshape(len(images), -1, 3)


@pytest.fixture(scope="module")
def stains(folder, table):
    return tissue.as_matrices(tissue.true_stains(folder).loc[table.path])


def degrees(first, second):
    return np.degrees(np.arccos(np.clip((first * second).sum(axis=-1), -1, 1)))


def auroc(features, table):
    """Of a linear model, on the patients it was not fitted to."""
    tumour, train = (table.label == "tumour").to_numpy(), (table.split == "train").to_numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(features[train], tumour[train])
    return roc_auc_score(tumour[~train], model.decision_function(features[~train]))


def test_the_real_loader_reads_it_back(folder, table):
    assert standin.is_standin(folder)
    manifests.check(table, labels=wilds.LABELS)
    header = (folder / "metadata.csv").read_text().partition("\n")[0]
    assert header == ",patient,node,x_coord,y_coord,tumor,slide,center,split"
    counts = table.groupby(["client", "split", "label"]).size().unstack([1, 2])
    assert list(counts.index) == ["centre0", "centre1", "centre2", "centre3"]
    assert (counts["train"] == 0.4 * PATCHES).all(axis=None) and (counts["test"] == 0.1 * PATCHES).all(axis=None)
    assert (table.groupby("subject")["client"].nunique() == 1).all() and table.subject.nunique() == 10 * CENTRES
    by_slide = table.path.str.extract(r"patches/(patient_\d{3}_node_[0-4])/patch_\1_x_\d+_y_\d+\.png$")[0]
    assert by_slide.notna().all()
    metadata = pd.read_csv(folder / "metadata.csv", index_col=0)
    assert metadata.slide.nunique() == by_slide.nunique() > 10 * CENTRES  # some patients have two
    assert (metadata.groupby("slide")["center"].nunique() == 1).all()
    assert (metadata.patient // 20 == metadata.center).all()


def test_every_patient_has_both_labels(table):
    shares = table.label.eq("tumour").groupby(table.subject).mean()
    assert (shares == 0.5).all()


def test_a_matrix_is_a_stain_matrix(stains, table):
    known = stains[~np.isnan(stains[:, 0, 0])]
    assert len(known) == len(table) - 4  # but for the blank ones
    assert (known >= 0).all()
    assert np.allclose(np.linalg.norm(known, axis=1), 1, atol=1e-5)
    assert (known[:, 0, 0] > known[:, 0, 1] + 0.1).all()  # haematoxylin takes more of the red


def test_centres_lie_apart_and_patches_spread_within_them():
    drawn = np.stack([tissue.centre_stains(centre, 2000, 0) for centre in range(5)])  # (centres, patches, 3, 2)
    means = drawn.mean(axis=1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    for stain in range(2):
        # Two directions at right angles, so the distance is more than the spread in either.
        away = degrees(drawn[..., stain], means[:, None, :, stain])
        spread = np.sqrt((away**2).mean(axis=1) / 2)
        assert (spread > 1.5).all() and (spread < 3).all()
        assert (np.abs(drawn[..., stain] - means[:, None, :, stain]).std(axis=1) > 0.001).all()  # in every direction
    pairs = np.triu_indices(5, 1)
    between = np.stack([degrees(means[pairs[0]][..., stain], means[pairs[1]][..., stain]) for stain in range(2)])
    assert between.max(axis=0).min() > 8  # every two centres differ, in one stain or the other
    assert 8 < between.mean() < 20


def test_the_matrices_are_those_of_the_patches(stains, table, density):
    """Light that two stains took lies in their plane: so it does for a patch's own matrix, not for others'."""
    known = ~np.isnan(stains[:, 0, 0])
    normal = np.cross(stains[..., 0], stains[..., 1])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)

    def off(normal):
        return np.abs(np.einsum("npc,nc->np", density[known], normal)).mean(axis=1)

    own, others = off(normal[known]), off(np.roll(normal[known], 1, axis=0))
    assert own.max() < 0.02
    assert np.mean(own < others) > 0.9 and np.median(others) > 2 * np.median(own)


def test_the_amounts_of_dye_do_not_depend_on_the_centre(stains, table, density):
    known = ~np.isnan(stains[:, 0, 0])
    amounts = np.einsum("nsc,npc->nps", np.linalg.pinv(stains[known]), density[known]).mean(axis=1)  # (patches, 2)
    client = table.client[known].to_numpy()
    for stain in range(2):
        groups = [amounts[client == name, stain] for name in np.unique(client)]
        error = np.std(amounts[:, stain]) * np.sqrt(2 / PATCHES)
        assert max(map(np.mean, groups)) - min(map(np.mean, groups)) < 4 * error


def test_within_a_centre_the_stain_says_nothing_about_the_label(stains, table):
    for client in table.client.unique():
        own = (table.client == client).to_numpy() & ~np.isnan(stains[:, 0, 0])
        tumour = (table.label[own] == "tumour").to_numpy()
        numbers = stains[own].reshape(-1, 6)
        error = numbers.std(axis=0) * np.sqrt(4 / len(numbers))
        assert (np.abs(numbers[tumour].mean(axis=0) - numbers[~tumour].mean(axis=0)) < 4 * error).all()


def nuclear_sizes(density):
    """How much of what is dark in the red stays when discs of growing size must fit into it."""
    features = []
    for red in density[..., 0].reshape(-1, 96, 96):
        red = cv2.GaussianBlur(red, (0, 0), 0.8)
        dark = (red > 0.5 * np.percentile(red, 98)).astype(np.uint8)
        discs = [cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)) for side in (5, 7, 9, 11, 13)]
        opened = [cv2.morphologyEx(dark, cv2.MORPH_OPEN, disc).mean() for disc in discs]
        features.append(np.divide(opened, dark.mean() + 1e-6))
    return np.array(features)


def test_the_size_of_nuclei_tells_the_label_and_colour_hardly_does(table, density):
    sizes, colour = auroc(nuclear_sizes(density), table), auroc(density.mean(axis=1), table)
    assert sizes > 0.9
    assert 0.35 < colour < 0.75
    both = np.concatenate([density.mean(axis=1), density.std(axis=1)], axis=1)
    assert auroc(both, table) < 0.75


def test_colour_tells_the_centre(table, density):
    train = (table.split == "train").to_numpy()
    colour = np.concatenate([density.mean(axis=1), density.std(axis=1)], axis=1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(colour[train], table.client[train])
    assert model.score(colour[~train], table.client[~train]) > 0.8


def test_one_patch_in_a_hundred_is_blank(stains, table, density):
    blank = np.isnan(stains[:, 0, 0])
    assert (table.client[blank].value_counts() == 1).all() and blank.sum() == CENTRES
    assert set(table.label[blank]) == {"normal"}
    assert density[blank].mean(axis=(1, 2)).max() < 0.06 < density[~blank].mean(axis=(1, 2)).min()


def test_tumour_nuclei_are_large_unlike_and_uneven():
    measured = {}
    for name, kind in (("normal", tissue_drawing.LYMPHOCYTE), ("tumour", tissue_drawing.TUMOUR)):
        shapes = tissue_drawing.outlines(kind, np.random.default_rng(0), 400)
        points = np.stack([shapes.real, shapes.imag], axis=-1).astype(np.float32)
        area = np.array([cv2.contourArea(outline) for outline in points])
        edge = np.array([cv2.arcLength(outline, True) for outline in points])
        measured[name] = np.median(area), area.std() / area.mean(), np.median(4 * np.pi * area / edge**2)
    (normal, spread, roundness), (tumour, wider, less) = measured["normal"], measured["tumour"]
    assert 28 < normal < 40 and tumour > 2.5 * normal
    assert wider > 1.6 * spread
    assert roundness > 0.93 and less < 0.9


def test_light_goes_by_beer_and_lambert():
    matrix = np.array([[0.6, 0.0], [0.8, 1.0], [0.0, 0.0]])
    amounts = np.array([[[0.0, 1.0]], [[0.0, 2.0]]], np.float32)  # (stains, 1, 2): a clear pixel and a dark one
    image = tissue_drawing.expose(matrix, amounts)
    assert image.shape == (1, 2, 3) and image.dtype == np.uint8
    assert image[0, 0].tolist() == [255, 255, 255]
    assert image[0, 1].tolist() == [round(255 * np.exp(-0.6)), round(255 * np.exp(-2.8)), 255]
    noisy = tissue_drawing.expose(matrix, np.full((2, 64, 64), 0.5, np.float32), np.random.default_rng(0))
    assert 1 < noisy[..., 1].std() < 2


def test_the_seed_decides_and_the_size_is_kept(tmp_path):
    def files(name, **options):
        root = tissue.write_tissue(tmp_path / name, patches=20, centres=2, size=48, progress=False, **options)
        return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*.*") if file.name[0] != "."}

    first = files("a")
    assert len(first) == 2 * 20 + 2 and first == files("b")
    other = files("c", seed=1)
    assert other["stains.csv"] != first["stains.csv"]
    images = {name for name in first if name.endswith(".png")}
    assert not images & other.keys()
    assert cv2.imread(str(tmp_path / "a" / min(images)), cv2.IMREAD_UNCHANGED).shape == (48, 48, 3)
    assert len(wilds.read(tmp_path / "a")) == 40  # the fewest patches can be divided
    (tmp_path / "a/stains.csv").unlink()
    (tmp_path / "a/metadata.csv").write_text("")
    assert files("a") == first  # a run that was stopped before its tables were written
    assert json.loads((tmp_path / "a" / standin.MARKER).read_text())["name"] == "tissue"


def test_a_folder_of_someone_s_data_is_left_alone(tmp_path):
    (tmp_path / "metadata.csv").write_text("mine")
    with pytest.raises(UserError, match="no stand-in"):
        tissue.write_tissue(tmp_path, patches=20, progress=False)
    assert [file.name for file in tmp_path.iterdir()] == ["metadata.csv"]
    with pytest.raises(UserError, match=r"stains\.csv: no such file; only drawn tissue"):
        tissue.true_stains(tmp_path)
    (tmp_path / "stains.csv").write_text("path,h_red\n")
    with pytest.raises(UserError, match="no column h_green or h_blue or e_red"):
        tissue.true_stains(tmp_path)


@pytest.mark.parametrize("option", [{"patches": 19}, {"centres": 0}, {"centres": 6}, {"size": 31}])
def test_too_small_or_too_large_is_refused(tmp_path, option):
    with pytest.raises(UserError, match=f"{next(iter(option))} .* is too"):
        tissue.write_tissue(tmp_path / "t", **option)
    assert list(tmp_path.iterdir()) == []
