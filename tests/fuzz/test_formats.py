"""DICOM, TIFF and NIfTI files that are damaged or lie: an array, or a refusal in one line."""

from __future__ import annotations

import io
import pathlib

import nibabel
import numpy as np
import pydicom
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st

from preprocessing import formats
from preprocessing.errors import Rejected
from tests.fuzz.strategies import bounded, check_refusal, damaged

FILES = pathlib.Path(pydicom.__file__).parent / "data" / "test_files"
DICOM = (
    "MR_small", "MR_small_RLE", "MR_small_jp2klossless", "MR_small_jpeg_ls_lossless", "SC_rgb_small_odd_jpeg",
    "JPEGLSNearLossless_08", "rtdose_rle", "SC_rgb_jpeg_gdcm",
)  # fmt: skip


def _samples() -> list[bytes]:
    values = np.random.default_rng(0).integers(0, 4096, (2, 3, 9, 7), np.uint16)
    samples = [(FILES / f"{name}.dcm").read_bytes() for name in DICOM]
    for options in ({"ome": True, "metadata": {"axes": "ZCYX"}}, {"imagej": True}, {"compression": "zlib"}):
        stream = io.BytesIO()
        tifffile.imwrite(stream, values, **options)
        samples.append(stream.getvalue())
    samples.append(nibabel.Nifti1Image(values.astype(np.int16), np.eye(4)).to_bytes())
    return samples


SAMPLES = _samples()


def check(contents: bytes) -> bool:
    try:
        image = formats.load(contents)
    except Rejected as rejected:
        check_refusal(rejected)
        return False
    assert image.dtype in (np.uint8, np.uint16) and image.size and image.ndim in (2, 3)
    return True


@bounded(60)
@given(contents=st.sampled_from(SAMPLES).flatmap(damaged))
def test_damaged_files(contents):
    check(contents)


@bounded(30)
@given(contents=st.sampled_from([each[:1500] for each in SAMPLES]).flatmap(damaged), place=st.sampled_from(SAMPLES))
def test_damaged_headers(contents, place):
    """Where sizes, lengths and types stand."""
    check(contents + place[1500:])


@pytest.mark.parametrize("place", range(len(SAMPLES)))
def test_whole_files(place):
    assert check(SAMPLES[place])
