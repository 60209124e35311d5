import cv2
import numpy as np
import pytest

from tffapps.data.micrograph_labels import BOUNDARY, DARK, GRAIN, LIGHT, Coding, coding_of, read_label
from tffapps.errors import UserError


def cross(size=40, boundary=0, grain=255):
    """Four grains: a cross two pixels wide, a little less than a tenth of the pixels."""
    label = np.full((size, size), grain, np.uint8)
    label[size // 2 : size // 2 + 2] = boundary
    label[:, size // 2 : size // 2 + 2] = boundary
    return label


@pytest.fixture
def write(tmp_path):
    def write(*labels, suffix=".png"):
        paths = [str(tmp_path / f"{number}{suffix}") for number in range(len(labels))]
        for path, label in zip(paths, labels):
            cv2.imwrite(path, label)
        return paths

    return write


@pytest.mark.parametrize(
    ("boundary", "grain", "found"), [(0, 255, DARK), (255, 0, LIGHT), (1, 0, LIGHT), (40, 200, DARK)]
)
def test_the_boundary_is_what_there_is_less_of(write, boundary, grain, found):
    label = cross(boundary=boundary, grain=grain)
    coding, sizes = coding_of("iron", write(label, label[:30]))
    assert (coding.boundary, coding.low, coding.high) == (found, min(boundary, grain), max(boundary, grain))
    assert sizes == [(40, 40), (30, 40)]
    share = (np.count_nonzero(label == boundary) + np.count_nonzero(label[:30] == boundary)) / 2800
    assert coding.share == pytest.approx(share)
    mask = coding.mask(label)
    assert mask.dtype == np.uint8
    np.testing.assert_array_equal(mask, np.where(label == boundary, BOUNDARY, GRAIN))


def test_a_label_of_one_grain_is_one(write):
    coding, _ = coding_of("iron", write(cross(), np.full((8, 8), 255, np.uint8)))
    assert coding.boundary == DARK and not coding.mask(np.full((8, 8), 255, np.uint8)).any()


def test_jpeg_noise_and_smoothed_edges_are_taken_for_the_nearer_value(write):
    label = cross(200)
    (path,) = write(label, suffix=".jpg")
    assert len(np.unique(read_label(path))) > 2
    coding, _ = coding_of("iron", [path])
    np.testing.assert_array_equal(coding.mask(read_label(path)) > 0, label == 0)
    ring = np.full((200, 200), 255, np.uint8)
    cv2.circle(ring, (100, 100), 70, 0, 5, cv2.LINE_AA)
    smooth = cv2.GaussianBlur(ring, (0, 0), 0.8)
    coding, _ = coding_of("iron", write(smooth))
    assert coding.boundary == DARK and len(np.unique(smooth)) > 50
    assert np.mean((coding.mask(smooth) > 0) != (ring < 128)) < 0.005


@pytest.mark.parametrize("form", ["colour", "alpha", "16 bits", "16 bits of two numbers", "bmp"])
def test_other_forms_of_a_grey_label(write, form):
    label, suffix = cross(), ".png"
    if form == "colour":
        stored = np.repeat(label[..., None], 3, axis=-1)
    elif form == "alpha":
        stored = np.dstack([label, label, label, np.full_like(label, 7)])
    elif form == "16 bits":
        stored = label.astype(np.uint16) * 257
    elif form == "16 bits of two numbers":
        stored = (label // 255).astype(np.uint16)
    else:
        stored, suffix = label, ".bmp"
    (path,) = write(stored, suffix=suffix)
    coding, _ = coding_of("iron", [path])
    np.testing.assert_array_equal(coding.mask(read_label(path)) > 0, label == 0)


def third(value=128, share=0.02):
    label = cross()
    label[:4, : round(share * 1600 / 4)] = value
    return label


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (third(), r"1\.png: a third value, 128, in 2\.0 % of the label's pixels; keep two values only, 0 and 255"),
        (np.linspace(0, 255, 1600).reshape(40, 40).astype(np.uint8), r"1\.png: no label: 7\d % of its pixels"),
        (cross(boundary=255, grain=0), r"1\.png: more dark than other pixels, but in 2 of iron's 3 labels the dark"),
        (cross(boundary=0, grain=1), r"1\.png: a label of the values 0 and 1; keep two values only, 0 and 255"),
        (np.dstack([cross(), cross(), 255 - cross()]), r"1\.png: a coloured label"),
        (cross().astype(np.float32), r"1\.tiff: a label with values of type float32"),
    ],
)
def test_what_is_no_label_is_named(write, label, expected):
    paths = write(cross(), label, cross(), suffix=".tiff" if label.dtype == np.float32 else ".png")
    with pytest.raises(UserError, match=expected):
        coding_of("iron", paths)


def test_labels_that_cannot_be_read_or_say_nothing(tmp_path, write):
    paths = write(cross(), cross())
    whole = (tmp_path / "1.png").read_bytes()
    (tmp_path / "1.png").write_bytes(whole[:60])
    with pytest.raises(UserError, match=r"1\.png: truncated PNG.*save the label again"):
        coding_of("iron", paths)
    (tmp_path / "1.png").unlink()
    with pytest.raises(UserError, match=r"1\.png: cannot be opened"):
        coding_of("iron", paths)
    with pytest.raises(UserError, match=r"every label has the one value 255: no boundary"):
        coding_of("iron", write(np.full((9, 9), 255, np.uint8)))


def test_a_coding_cuts_in_the_middle():
    values = np.array([[0, 127, 128, 255]], np.uint8)
    assert Coding(DARK, 0, 255, 0.1).mask(values).tolist() == [[255, 255, 0, 0]]
    assert Coding(LIGHT, 0, 255, 0.1).mask(values).tolist() == [[0, 0, 255, 255]]
