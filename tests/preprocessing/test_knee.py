import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from preprocessing.knee import (
    KneeRejected,
    KneeSettings,
    check,
    decode,
    preprocess,
    preprocess_bytes,
    steps,
)
from tests.preprocessing.knees import knee, leg, overlap, png


def reason(image, **parameters):
    settings = KneeSettings(**parameters)
    return check(image, steps(image, settings)["mask"], settings)


@pytest.mark.parametrize("shape", [(224, 224), (96, 160), (3, 5), (1, 1)])
def test_every_step_is_a_grey_picture_of_the_same_size(shape):
    image = cv2.resize(knee(), shape[::-1])
    before = image.copy()
    pictures = steps(image)
    assert list(pictures) == [
        "grey",
        "blur",
        "threshold",
        "closed",
        "contours",
        "largest contour",
        "mask",
        "masked",
        "contrast",
    ]
    assert {(picture.dtype.name, picture.shape) for picture in pictures.values()} == {("uint8", shape)}
    assert np.array_equal(image, before)  # the caller's image is left as it was
    for name in ("threshold", "closed", "mask"):
        assert set(np.unique(pictures[name])) <= {0, 255}
    assert np.array_equal(preprocess(image), pictures["contrast"])


@pytest.mark.parametrize("side", [112, 224, 448])
def test_the_mask_is_the_drawn_leg_at_any_size(side):
    pictures = steps(knee(side))
    assert overlap(pictures["mask"], leg(side)) > 0.95
    assert np.array_equal(pictures["masked"], np.where(pictures["mask"] > 0, pictures["grey"], 0))
    assert reason(knee(side)) is None


def test_without_closing_the_joint_space_costs_half_of_the_knee():
    """Why the closing is there: the table's own steps keep the larger bone alone."""
    image = knee()
    image[112:125] = 30
    by_the_letter = steps(image, KneeSettings(close_width=0))["mask"]
    assert overlap(by_the_letter, leg()) < 0.6
    assert overlap(steps(image)["mask"], leg()) > 0.95


def test_the_hull_fills_a_notch():
    image = knee()
    image[60:160, :60] = 30  # taller than the closing
    assert steps(image)["mask"][110, 45] == 255
    assert steps(image, KneeSettings(convex=False))["mask"][110, 45] == 0


def test_a_negative_is_turned():
    negative = 255 - knee()
    assert np.array_equal(steps(negative)["grey"], knee())
    assert np.array_equal(preprocess(negative), preprocess(knee()))
    assert np.array_equal(steps(negative, KneeSettings(turn_negatives=False))["grey"], negative)


def test_a_knee_cut_off_is_no_negative():
    half = knee(left=-0.3, right=0.4)
    assert np.array_equal(steps(half)["grey"], half)


def test_contrast_is_raised_inside_the_mask_and_in_two_ways():
    image = (knee() * 0.3 + 60).astype(np.uint8)
    clahe, equal = preprocess(image), preprocess(image, KneeSettings(contrast="equalize"))
    inside, outside = leg() > 0, steps(image)["mask"] == 0
    assert clahe[inside].std() > 1.3 * image[inside].std()
    assert equal[inside].std() > 1.3 * image[inside].std()
    assert np.abs(clahe.astype(int) - equal.astype(int))[inside].mean() > 5
    assert outside.any()
    assert max(clahe[outside].max(), equal[outside].max()) < 10
    assert not np.array_equal(clahe, preprocess(image, KneeSettings(clahe_clip=8.0)))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (knee() * 0, "nearly all dark: 100.0% of the pixels are below grey level 25, at most 75.0%"),
        (knee() // 12, "nearly all dark: 100.0%"),
        (255 - knee() // 12, "nearly all bright: 100.0% of the pixels are at grey level 230 or above"),
        (np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8), "noise: neighbouring pixels differ by 1."),
        (knee() * 0 + 140, "knee not found: its mask covers 0.0% of the frame, at least 50.0%"),
        (knee(left=0.4, right=0.6), "knee not found: its mask covers 2"),
        (
            knee(left=-0.1, right=0.6),
            "cut off at the left: the mask touches that side and leaves 40.2% of the frame free at the right",
        ),
        (knee(left=0.4, right=1.1), "cut off at the right: the mask touches that side and leaves 39.7% of"),
        (cv2.rotate(knee(left=-0.1, right=0.6), cv2.ROTATE_90_CLOCKWISE), "cut off at the top"),
        (cv2.rotate(knee(left=0.4, right=1.1), cv2.ROTATE_90_CLOCKWISE), "cut off at the bottom"),
        (knee(20), "too small: 20×20 pixels, at least 32"),
    ],
    ids=["black", "dark", "white", "noise", "blank", "narrow", "left", "right", "top", "bottom", "tiny"],
)
def test_bad_images_are_rejected_with_what_was_measured(image, expected):
    assert (reason(image) or "accepted").startswith(expected)


@pytest.mark.parametrize(
    "parameters", [{"max_dark": 1.0, "min_cover": 0.0}, {"max_dark": 1.0, "min_cover": 0.0, "max_gap": 1.0}]
)
def test_the_limits_are_settings(parameters):
    assert reason(np.zeros((224, 224), np.uint8), **parameters) is None


def test_each_limit_decides():
    assert reason(knee(), min_cover=0.8).startswith("knee not found: its mask covers 7")
    assert reason(knee(left=-0.1, right=0.6), max_gap=0.45) is None
    assert reason(knee(left=0.4, right=0.6), min_cover=0.1) is None
    assert reason(knee(20), min_side=10) is None
    assert reason(knee(ground=15), max_dark=0.2).startswith("nearly all dark: ")


def test_bytes_to_bytes():
    result = decode(preprocess_bytes(png(knee()), contrast="equalize"))
    assert np.array_equal(result, preprocess(knee(), KneeSettings(contrast="equalize")))
    colour = cv2.cvtColor(knee(), cv2.COLOR_GRAY2BGR)
    assert np.array_equal(decode(preprocess_bytes(png(colour))), preprocess(knee()))


def damaged(contents):
    middle = len(contents) // 2
    return contents[:middle] + bytes([contents[middle] ^ 255]) + contents[middle + 1 :]


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (b"", "empty file"),
        (b"hello", "not an image: OpenCV cannot decode its 5 bytes"),
        (png(knee())[:-2000], "truncated PNG: it ends after "),
        (png(knee())[:-12], "truncated PNG: it ends after "),
        (damaged(png(knee())), "damaged PNG: wrong checksum in its part b'IDAT' at byte "),
        (cv2.imencode(".jpg", knee())[1].tobytes()[:-1500], "truncated JPEG"),
        (png(np.zeros((64, 64), np.uint8)), "nearly all dark"),
    ],
    ids=["empty", "text", "cut PNG", "PNG without end", "damaged PNG", "cut JPEG", "dark"],
)
def test_bytes_that_cannot_be_used(contents, expected):
    with pytest.raises(KneeRejected) as caught:
        preprocess_bytes(contents)
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"contrast": "loud"}, "contrast is 'loud'; choose one of clahe, equalize"),
        ({"block": 0}, "block is 0"),
        ({"close_width": -1}, "close_width is -1"),
        ({"min_cover": 50}, "min_cover is 50; it is a share"),
    ],
)
def test_wrong_settings(parameters, expected):
    with pytest.raises(ValueError, match=expected):
        KneeSettings(**parameters)


@pytest.mark.parametrize("image", [np.zeros((9, 9, 3), np.uint8), np.zeros((9, 9)), np.zeros((0, 9), np.uint8)])
def test_only_grey_bytes_are_taken(image):
    with pytest.raises(TypeError, match="a uint8 image of shape"):
        steps(image)


REAL = Path(os.environ.get("TFFAPPS_REAL_DATA") or "/nowhere") / "knee"


@pytest.mark.real
@pytest.mark.skipif(not REAL.is_dir(), reason="TFFAPPS_REAL_DATA names no folder with knee/")
def test_few_real_images_are_rejected_and_cut_off_ones_are():
    files = sorted(REAL.rglob("*.png"))
    images = [decode(file.read_bytes()) for file in files[:: max(1, len(files) // 60)][:60]]
    assert len(images) == 60
    assert sum(reason(image) is not None for image in images) < 0.05 * 60
    third = images[0].shape[1] // 3
    cut = [np.hstack([image[:, third:], np.zeros_like(image[:, :third])]) for image in images]
    assert sum(reason(image) is not None for image in cut) > 0.9 * 60
