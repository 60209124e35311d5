"""DICOM: values worked out by hand or by pydicom, real files of several transfer syntaxes, and hostile ones."""

import os
import pathlib

import numpy as np
import pydicom
import pytest
from pydicom.pixels import apply_modality_lut, apply_windowing, pixel_array

from preprocessing import dicom, formats
from preprocessing.errors import Rejected
from tests.preprocessing.medical import write_dicom

FILES = pathlib.Path(pydicom.__file__).parent / "data" / "test_files"
VALUES = np.array([[0, 100, 200], [300, 400, 4095]])
RESCALED = {"RescaleSlope": 2, "RescaleIntercept": -100}


def levels(share):
    return np.rint(np.clip(share, 0, 1) * 65535).astype(np.uint16)


@pytest.mark.parametrize(
    ("tags", "share"),
    [
        ({}, VALUES / 4095),  # from the lowest to the highest
        ({"WindowCenter": 200, "WindowWidth": 201}, (VALUES - 199.5) / 200 + 0.5),
        ({"WindowCenter": [200, 9], "WindowWidth": [200, 1], "VOILUTFunction": "LINEAR_EXACT"}, (VALUES - 100) / 200),
        ({"WindowCenter": 200, "WindowWidth": 400, "VOILUTFunction": "SIGMOID"}, 1 / (1 + np.exp(2 - VALUES / 100))),
        ({**RESCALED, "WindowCenter": 100, "WindowWidth": 201}, (2 * VALUES - 100 - 99.5) / 200 + 0.5),
        ({"WindowCenter": 200, "WindowWidth": 0}, VALUES / 4095),  # no window
        ({"PhotometricInterpretation": "MONOCHROME1"}, 1 - VALUES / 4095),
        ({"PixelPaddingValue": 4095}, VALUES / 400),
    ],
)  # fmt: skip
def test_grey_by_hand(tags, share, tmp_path):
    assert np.array_equal(dicom_of(tmp_path, VALUES, **tags), levels(share))


def dicom_of(folder, values, **tags):
    return formats.load(write_dicom(folder / "x", values, **tags))


def test_eight_bits_stay_as_they_are(tmp_path):
    values = np.array([[3, 77], [200, 250]])
    image = dicom_of(tmp_path, values, bits=8)
    assert image.dtype == np.uint8 and np.array_equal(image, values)


def test_of_many_frames_it_is_the_middle_one(tmp_path):
    values = np.arange(5)[:, None, None] * 10 + np.arange(6).reshape(2, 3)
    tags = {"WindowCenter": 2048, "WindowWidth": 4096, "VOILUTFunction": "LINEAR_EXACT"}
    file = write_dicom(tmp_path / "x", values, **tags)
    assert np.array_equal(formats.load(file), levels(values[2] / 4096))
    assert np.array_equal(formats.load(file, at=1.0), levels(values[4] / 4096))
    assert formats.header(file).slices == 5


def test_a_frame_has_a_window_of_its_own(tmp_path):
    groups = []
    for width in (128, 1024):
        window = pydicom.Dataset()
        window.WindowCenter, window.WindowWidth, window.VOILUTFunction = width / 2, width, "LINEAR_EXACT"
        group = pydicom.Dataset()
        group.FrameVOILUTSequence = [window]
        groups.append(group)
    values = np.stack([VALUES, VALUES])
    file = write_dicom(tmp_path / "x", values, PerFrameFunctionalGroupsSequence=groups)
    assert np.array_equal(formats.load(file, at=0.0), levels(VALUES / 128))
    assert np.array_equal(formats.load(file, at=0.5), levels(VALUES / 1024))


def test_as_pydicom_windows_it():
    dataset = pydicom.dcmread(FILES / "MR_small.dcm")
    values = apply_windowing(apply_modality_lut(pixel_array(dataset), dataset), dataset)
    low, high = -(2**15), 2**15 - 1  # the range of signed 16 bits, onto which pydicom maps a window
    assert np.abs(formats.load(FILES / "MR_small.dcm") - (values - low) / (high - low) * 65535.0).max() <= 0.5


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("MR_small_RLE", "MR_small"), ("MR_small_jp2klossless", "MR_small"), ("MR_small_jpeg_ls_lossless", "MR_small"),
        ("MR_small_bigendian", "MR_small"), ("MR_small_implicit", "MR_small"),
        ("SC_rgb_gdcm_KY", "SC_rgb_rle"), ("SC_rgb_jpeg_gdcm", "SC_rgb_rle"),
    ],
)  # fmt: skip
def test_the_same_image_in_another_transfer_syntax(name, plain):
    assert np.array_equal(formats.load(FILES / f"{name}.dcm"), formats.load(FILES / f"{plain}.dcm"))


def test_palettes_and_colours():
    colours = formats.load(FILES / "examples_palette.dcm")
    assert colours.shape == (350, 800, 3) and colours.dtype == np.uint16
    assert formats.read(FILES / "SC_rgb_rle.dcm").shape == (100, 100, 3)


REFUSED = {
    "rtplan": "without an image", "image_dfl": "deflated", "MR_truncated": "damaged", "no_meta": "not a PNG",
    "JPEG2000-embedded-sequence-delimiter": "not of the size that it gives", "meta_missing_tsyntax": "transfer syntax",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read(name):
    with pytest.raises(Rejected, match=REFUSED[name]):
        formats.load(FILES / f"{name}.dcm")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda dataset: setattr(dataset, "Rows", 65535), "too large: 65535 × 65535"),
        (lambda dataset: dataset.pop("PixelData"), "no pixel data"),
        (lambda dataset: setattr(dataset, "NumberOfFrames", 2**31 - 1), "damaged"),
        (lambda dataset: setattr(dataset, "Rows", 0), "no size"),
        (lambda dataset: setattr(dataset, "SamplesPerPixel", 7), "neither grey nor colour"),
        (lambda dataset: setattr(dataset, "Rows", 63), "not of the size"),
    ],
)
def test_a_file_that_lies(change, why, tmp_path):
    dataset = pydicom.dcmread(FILES / "MR_small_jp2klossless.dcm")
    change(dataset)
    if "65535" in why:
        dataset.Columns = 65535
    dataset.save_as(tmp_path / "x.dcm")
    with pytest.raises(Rejected, match=why) as told:
        formats.load(tmp_path / "x.dcm")
    assert "4MR1" not in str(told.value)  # its patient


def test_a_codec_that_is_missing(monkeypatch):
    import pydicom.pixels

    class Missing:
        is_available = False

    monkeypatch.setattr(pydicom.pixels, "get_decoder", lambda uid: Missing)
    with pytest.raises(Rejected, match=r"compressed as JPEG 2000.*install pylibjpeg"):
        formats.load(FILES / "MR_small_jp2klossless.dcm")


def test_nothing_of_a_person_is_shown(tmp_path, capfd):
    file = write_dicom(tmp_path / "x", VALUES, PatientID="P17", PatientName="Doe^Jane", BurnedInAnnotation="YES")
    found = formats.header(file)
    assert found.owner.startswith("P17") and found.burned_in and "P17" not in repr(found)
    for name in sorted(os.listdir(FILES))[:40]:
        try:
            dicom.pixels(open(FILES / name, "rb"), 0.5)  # noqa: SIM115
        except Rejected as rejected:
            assert "^" not in str(rejected)
    assert capfd.readouterr() == ("", "")
