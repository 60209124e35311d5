import os
import tracemalloc
from pathlib import Path

import cv2
import numpy as np
import pytest
from skimage.color import rgb2lab
from skimage.metrics import structural_similarity

from preprocessing import stain, stain_dictionary, stain_pixels
from preprocessing.stain import REFERENCE, StainSettings, compose, matrices_of, normalise, separate, strength
from tests.preprocessing.stains import BROWN, TYPICAL, angles, densities, patches, render, unit

VAHADANE, MACENKO = StainSettings(), StainSettings(method="macenko")


def lasso(x, w, penalty):
    """h (2, pixels) of optical densities x (3, pixels)."""
    extended = stain_dictionary.with_ones(np.float32(x)[None])
    return stain_dictionary.densities(extended, np.asarray(w, float)[None], penalty)[0].astype(float)


def objective(x, w, penalty, h=None):
    """Eq. 3."""
    h = lasso(x, w, penalty) if h is None else h
    return 0.5 * ((x - w @ h) ** 2).sum() + penalty * h.sum()


def tissue_density(image):
    """Optical densities (3, pixels) of the tissue, in double precision and without the code under test."""
    lightness = rgb2lab(image)[..., 0]
    return -np.log(np.maximum(image[lightness < 80].T, 1) / 255)


# ---- the closed forms ----


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ((0.75, 0.25, 0.30), (0.5, 0.25)),  # b = (0.65, 0.55); u = (0.65 - 0.6*0.55, 0.55 - 0.6*0.65) / 0.64
        ((1.00, 0.00, 0.00), (0.9, 0.0)),  # b = (0.90, 0.50); u₂ is below 0
        ((0.00, 1.00, 0.20), (0.0, 0.7)),  # b = (-0.1, 0.70); u₁ is below 0
        ((0.05, 0.05, 0.90), (0.0, 0.0)),  # b = (-0.05, -0.03)
    ],
    ids=["both", "first", "second", "none"],
)
def test_the_four_sign_patterns_by_hand_and_by_trying_all(x, expected):
    w = np.array([[1, 0.6], [0, 0.8], [0, 0]])
    x = np.array(x)[:, None]
    assert lasso(x, w, 0.1)[:, 0] == pytest.approx(expected, abs=1e-6)
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 201), np.linspace(0, 1, 201)), axis=-1).reshape(-1, 2)
    costs = 0.5 * ((x[:, 0] - grid @ w.T) ** 2).sum(axis=1) + 0.1 * grid.sum(axis=1)
    assert grid[costs.argmin()] == pytest.approx(expected, abs=0.0051)


@pytest.mark.parametrize("penalty", [0.0, 0.01, 0.1])
def test_densities_meet_the_conditions_of_a_minimum(penalty):
    rng = np.random.default_rng(0)
    x = rng.gamma(1, 0.4, (3, 4000))
    x[:, :500] *= 0.02
    seen = set()
    for _ in range(5):
        w = unit(rng.random((3, 2)))
        h = lasso(x, w, penalty)
        slope = w.T @ (w @ h - x) + penalty
        assert (h >= 0).all()
        assert slope[h == 0].min() > -1e-4
        assert np.abs(slope[h > 0]).max() < 1e-4
        seen |= set(map(tuple, (h > 0).T))
    assert len(seen) == (3 if penalty == 0 else 4)  # with no penalty some stain always helps


def test_optical_density_and_tissue():
    pixels = np.array([[[[0, 1, 255], [51, 128, 254]]]], np.uint8)
    found = stain_pixels.optical_density(stain_pixels.planes(pixels))
    assert found[0].T.ravel() == pytest.approx([np.log(255), np.log(255), 0, np.log(5), 0.6892, 0.00393], abs=1e-4)
    image = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3), dtype=np.uint8)
    for limit in (0.05, 0.5, 0.8):
        mask = stain_pixels.tissue(stain_pixels.planes(image), limit)[0].reshape(64, 64)
        lightness = rgb2lab(image[0])[..., 0] / 100
        clear = np.abs(lightness - limit) > 1e-4
        assert np.array_equal(mask[clear], (lightness < limit)[clear])


def test_learning_finds_the_lowest_point_of_equation_3():
    """Lower than the truth, and no higher than slow plain alternation gets from any of several random starts."""
    images, truths = patches(3)
    rng = np.random.default_rng(1)
    for image, truth, found in zip(images, truths, separate(images).matrices):
        x = tissue_density(image)
        lowest = objective(x, found, 0.1)
        assert lowest < objective(x, truth, 0.1)
        for _ in range(3):
            w = unit(rng.random((3, 2)))
            for _ in range(60):
                h = lasso(x, w, 0.1)
                for this in (0, 1):
                    pull = np.maximum(x @ h[this] - w[:, 1 - this] * (h[0] @ h[1]), 1e-9)
                    w[:, this] = pull / np.linalg.norm(pull)
            assert lowest < objective(x, w, 0.1) * (1 + 1e-5)


def test_macenko_by_hand():
    """Pixels between two known directions of a plane: those are found, and by percentiles in spite of a stray pixel."""
    w = unit(TYPICAL)
    share = np.linspace(0, 1, 1001)
    x = w @ np.stack([share, 1 - share])

    def found(x, percentile):
        columns = stain_dictionary.macenko(np.float32(x)[None], percentile)[0]
        return columns[:, np.argsort(-columns[0])]

    assert angles(found(x, 0.0), w).max() < 0.01
    stray = np.concatenate([x, 0.3 * w[:, :1] - 0.2 * w[:, 1:]], axis=1)
    assert angles(found(stray, 0.0), w)[0] > 10
    assert angles(found(stray, 1.0), w).max() < 0.5
    assert angles(found(x, 10.0), unit(w @ [[0.9, 0.1], [0.1, 0.9]])).max() < 0.1  # 10 % of the way in from each end


# ---- whole patches ----


@pytest.mark.parametrize("settings", [VAHADANE, MACENKO], ids=["vahadane", "macenko"])
def test_stains_of_drawn_patches(settings):
    images, truths = patches(24)
    result = separate(images, settings)
    assert result.ok.all()
    assert set(result.reasons) == {""}
    assert result.matrices.dtype == result.densities.dtype == np.float32
    assert result.densities.shape == (24, 2, 96, 96)
    assert np.linalg.norm(result.matrices, axis=1) == pytest.approx(1, abs=1e-5)
    assert result.matrices.min() >= 0
    assert result.densities.min() >= 0
    assert (result.matrices[:, 0, 0] > result.matrices[:, 0, 1]).all()  # haematoxylin first
    assert np.median(angles(result.matrices, truths), axis=0).max() < 3
    again = compose(result.matrices, result.densities)
    assert again.dtype == np.uint8
    same = [structural_similarity(one, two, channel_axis=-1) for one, two in zip(images, again)]
    assert np.median(same) > 0.99
    assert min(same) > 0.98


def test_mixed_pixels_draw_the_columns_together():
    """What Eq. 3 costs, as the module says; a smaller penalty costs less."""
    images, truths = patches(16, overlap=0.4)

    def between(matrices):
        return np.median(angles(matrices[..., :1], matrices[..., 1:]))

    strict, mild = (matrices_of(images, StainSettings(lambda_matrix=penalty))[0] for penalty in (0.1, 0.02))
    assert between(strict) < between(mild) < between(truths)
    assert np.median(angles(strict, truths), axis=0).max() < 6
    assert np.median(angles(mild, truths), axis=0).max() < 3


def test_turning_a_patch_does_not_change_its_stains():
    images, _ = patches(4)
    before = separate(images)
    after = separate(np.rot90(images, axes=(1, 2)))
    assert angles(before.matrices, after.matrices).max() < 0.3
    assert np.abs(np.rot90(before.densities, axes=(2, 3)) - after.densities).max() < 0.05


@pytest.mark.parametrize("settings", [VAHADANE, MACENKO], ids=["vahadane", "macenko"])
def test_company_chunks_and_threads_change_nothing(settings, monkeypatch):
    images, _ = patches(9)
    images[3] = 255
    whole = separate(images, settings, workers=1)
    monkeypatch.setattr(stain, "_CHUNK", 2 * 96 * 96)
    for other, order in (
        (separate(images, settings, workers=1), slice(None)),
        (separate(images, settings, workers=3), slice(None)),
        (separate(images[::-1], settings, workers=2), slice(None, None, -1)),
    ):
        assert np.array_equal(other.matrices[order], whole.matrices)
        assert np.array_equal(other.densities[order], whole.densities)
        assert other.reasons[order] == whole.reasons
    matrices, ok, reasons = matrices_of(images, settings)
    assert np.array_equal(matrices, whole.matrices)
    assert np.array_equal(ok, whole.ok)
    assert reasons == whole.reasons
    assert np.array_equal(compose(whole.matrices, whole.densities, 1), compose(whole.matrices, whole.densities, 2))


def test_a_large_patch_is_worked_on_in_blocks(monkeypatch):
    images, _ = patches(1, size=150)
    whole = separate(images)
    monkeypatch.setattr(stain, "_BLOCK", 1000)
    assert np.abs(separate(images).densities - whole.densities).max() < 1e-5


def test_a_sample_of_the_pixels_does():
    images, _ = patches(8)
    settings = StainSettings(sample=3000)
    few, all_ = matrices_of(images, settings)[0], matrices_of(images)[0]
    assert 0 < angles(few, all_).max() < 1.5
    assert np.array_equal(few, matrices_of(images, settings)[0])
    assert not np.array_equal(few, matrices_of(images, StainSettings(sample=3000, seed=1))[0])


def test_memory_does_not_grow_with_the_number_of_patches():
    images, _ = patches(8)

    def peak(count):
        stack = np.tile(images, (count // 8, 1, 1, 1))
        tracemalloc.start()
        matrices_of(stack, workers=1)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    matrices_of(images)
    assert peak(160) < 1.1 * peak(40)


# ---- patches that cannot be separated ----


def one_stain(column):
    rng = np.random.default_rng(0)
    return render(np.repeat(unit(TYPICAL)[:, column : column + 1], 2, axis=1), densities(rng), rng)


def hardly_any():
    image = np.full((96, 96, 3), 240, np.uint8)
    image[:10, :20] = patches(1)[0][0, :10, :20]
    return image


def a_speck():
    image = one_stain(1)
    image[50:53, 50:53] = (60, 20, 200)
    return image


ODD = {
    "white": (np.full((96, 96, 3), 255, np.uint8), "too little tissue: 0.0% of the pixels are below lightness 0.8, at"),
    "a corner": (hardly_any(), "too little tissue: 2.2% of the pixels are below lightness 0.8, at least 5.0% must be"),
    "black": (np.zeros((96, 96, 3), np.uint8), "one stain only: the two colours found are 0.0° apart, at least 3.0°"),
    "one colour": (np.full((96, 96, 3), (200, 80, 160), np.uint8), "one stain only: the two colours found are 0.0°"),
    "grey": (np.repeat(patches(1)[0][0, :, :, 1:2], 3, axis=2), "one stain only: the two colours found are 0.0°"),
    "haematoxylin": (one_stain(0), "one stain only: the two colours found are 1."),
    "eosin": (one_stain(1), "one stain only: the two colours found are 1."),
    "a speck": (a_speck(), "one stain only: the first stain makes up 0.4% of the density, at least 1.0% is needed"),
    "brown": (
        render(unit(BROWN), densities(np.random.default_rng(0)), np.random.default_rng(0)),
        "not H&E: the second stain absorbs 0.76 of blue to 0.58 of green, as brown and yellow do; at most 1.00 times",
    ),
    "colour noise": (np.random.default_rng(0).integers(0, 256, (96, 96, 3), dtype=np.uint8), "not H&E: the first"),
}


@pytest.mark.parametrize("settings", [VAHADANE, MACENKO], ids=["vahadane", "macenko"])
def test_odd_patches_are_named_and_leave_the_others_alone(settings):
    good, _ = patches(1)
    alone = separate(good, settings)
    result = separate(np.stack([good[0], *(image for image, _ in ODD.values()), good[0]]), settings)
    assert np.isfinite(result.matrices).all()
    assert np.isfinite(result.densities).all()
    for index in (0, -1):
        assert np.array_equal(result.matrices[index], alone.matrices[0])
        assert np.array_equal(result.densities[index], alone.densities[0])
    assert result.ok.tolist() == [reason == "" for reason in result.reasons]
    assert result.ok.tolist() == [True, *(False for _ in ODD), True]
    for reason, (name, (_, expected)) in zip(result.reasons[1:-1], ODD.items()):
        assert reason.startswith(expected if settings is VAHADANE else expected.partition(":")[0]), name
    assert np.array_equal(result.matrices[~result.ok], np.broadcast_to(REFERENCE, ((~result.ok).sum(), 3, 2)))
    blank = compose(result.matrices, result.densities)[1]
    assert (blank == 255).all()


def test_each_limit_decides():
    image = patches(1)[0]

    def reason(**limits):
        return matrices_of(image, StainSettings(**limits))[2][0].partition(":")[0]

    assert reason() == ""
    assert reason(min_tissue=0.999) == "too little tissue"
    assert reason(luminosity=0.1) == "too little tissue"
    assert reason(min_angle=45) == "one stain only"
    assert reason(min_share=0.5) == "one stain only"
    assert reason(max_blue=0.1) == "not H&E"


def test_opacity_is_laid_on_white():
    images, _ = patches(2)
    opaque = np.concatenate([images, np.full((2, 96, 96, 1), 255, np.uint8)], axis=3)
    assert np.array_equal(separate(opaque).densities, separate(images).densities)
    opaque[:, 40:, :, 3] = 0
    images[:, 40:] = 255
    cut = separate(opaque)
    assert np.array_equal(cut.densities, separate(images).densities)
    assert (cut.densities[:, :, 40:] == 0).all()
    half = np.array([[[[0, 100, 255, 128]]]], np.uint8)  # c a + 255 (1 - a) with a = 128 / 255
    assert stain_pixels.planes(half)[0, :, 0].tolist() == [127, 177, 255]


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((1, 9, 9, 3)),
        np.zeros((1, 9, 9, 3), np.uint16),
        np.zeros((9, 9, 3), np.uint8),
        np.zeros((1, 9, 9, 1), np.uint8),
        np.zeros((1, 0, 9, 3), np.uint8),
    ],
    ids=["float", "16 bits", "one image", "grey", "no rows"],
)
def test_only_stacks_of_bytes_are_taken(images):
    for function in (separate, matrices_of):
        with pytest.raises(TypeError, match=r"uint8 images of shape \(n, height, width, 3 or 4\) are needed, not"):
            function(images)


def test_small_and_empty_stacks():
    assert separate(np.zeros((0, 8, 8, 3), np.uint8)).densities.shape == (0, 2, 8, 8)
    assert compose(np.zeros((0, 3, 2)), np.zeros((0, 2, 8, 8))).shape == (0, 8, 8, 3)
    tiny = separate(np.array([[[[120, 60, 140]]], [[[250, 250, 250]]]], np.uint8))
    assert not tiny.ok.any()
    assert np.isfinite(tiny.densities).all()


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"method": "reinhard"}, "method is 'reinhard'; choose one of vahadane, macenko"),
        ({"sample": 0}, "sample is 0; it must be above 0"),
        ({"lambda_matrix": -1}, "lambda_matrix is -1; it must be 0 or more"),
        ({"lambda_density": float("nan")}, "lambda_density is nan"),
        ({"min_tissue": 5}, "min_tissue is 5; it is a share"),
        ({"percentile": 50}, "percentile is 50"),
    ],
)
def test_wrong_settings(parameters, expected):
    with pytest.raises(ValueError, match=expected):
        StainSettings(**parameters)


# ---- the way back ----


def test_compose_by_hand():
    w = np.array([[1, 0], [0, 1], [0.5, 0.5]])
    h = np.array([np.log(5), 0.0])[:, None, None]
    assert compose(w, np.stack([h, 0 * h, -h, 99 + h])).reshape(4, 3).tolist() == [
        [51, 255, 114],  # 255 / 5, 255, 255 / √5 = 114.04
        [255, 255, 255],
        [255, 255, 255],  # clipped
        [0, 0, 0],
    ]


def test_normalising():
    images, _ = patches(6)
    result = separate(images)
    target, strong = result.matrices[0], strength(result.densities)[0]
    assert strong == pytest.approx(np.percentile(result.densities[0].reshape(2, -1), 99, axis=1))
    new = normalise(result.densities, target, strong)
    assert np.array_equal(new[0], compose(target, result.densities[:1])[0])  # its own target
    after = separate(new)
    assert angles(after.matrices, target).mean() < 0.5 * angles(result.matrices, target)[1:].mean()
    assert np.abs(strength(after.densities) / strong - 1).max() < 0.1
    nothing = np.zeros((1, 2, 4, 4), np.float32)
    assert (normalise(nothing, target, strong) == 255).all()


def test_the_same_as_spams():
    """spams-bin is not among the requirements: it is slow and its wheels lag behind."""
    spams = pytest.importorskip("spams")
    images, _ = patches(3)
    for image, found in zip(images, separate(images).matrices):
        x = np.asfortranarray(tissue_density(image))
        other = spams.trainDL(x, K=2, lambda1=0.1, mode=2, modeD=0, posAlpha=True, posD=True, verbose=False)
        other = other[:, np.argsort(-other[0])]
        assert np.linalg.norm(other, axis=0) == pytest.approx(1, abs=1e-3)
        assert angles(found, other).max() < 0.5
        assert objective(x, found, 0.1) < objective(x, other, 0.1) * (1 + 1e-5)
        pixels = np.asfortranarray(-np.log(np.maximum(image.reshape(-1, 3).T, 1) / 255))
        other_h = spams.lasso(pixels, D=np.asfortranarray(found, float), lambda1=0.01, mode=2, pos=True).toarray()
        assert np.abs(lasso(pixels, found, 0.01) - other_h).max() < 1e-4


REAL = Path(os.environ.get("TFFAPPS_REAL_DATA") or "/nowhere") / "stains"


@pytest.mark.real
@pytest.mark.skipif(not REAL.is_dir(), reason="TFFAPPS_REAL_DATA names no folder with stains/")
def test_real_patches():
    files = sorted(REAL.rglob("*.jpg"))
    images = np.stack([cv2.imread(str(file))[..., ::-1] for file in files[:: max(1, len(files) // 60)][:60]])
    result = separate(images)
    assert result.ok.mean() > 0.95
    again = compose(result.matrices, result.densities)
    assert np.median([structural_similarity(a, b, channel_axis=-1) for a, b in zip(images, again)]) > 0.95
    shuffled = images[..., [2, 0, 1]]
    assert separate(shuffled).ok.mean() < 0.1  # no longer the colours of H&E
