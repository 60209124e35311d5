"""NIfTI: which slice, which way round, which values; and files that lie."""

import gzip

import nibabel
import numpy as np
import pytest
from nibabel.orientations import axcodes2ornt, ornt_transform

from preprocessing import formats
from preprocessing.errors import Rejected

VOLUME = np.random.default_rng(0).normal(size=(11, 12, 13)).astype(np.float32)  # left-right, back-front, feet-head


def save(path, values, affine=None, **header):
    image = nibabel.Nifti1Image(values, np.eye(4) if affine is None else affine)
    for name, value in header.items():
        image.header[name] = value
    nibabel.save(image, path)
    return path


def shown(flat):
    """Front at the top, right on the left."""
    return flat[::-1, ::-1].T


def spread(values):
    low, high = np.quantile(values.astype(np.float64), [0.005, 0.995])
    return np.rint(np.clip((values.astype(np.float64) - low) / (high - low), 0, 1) * 65535).astype(np.uint16)


@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
def test_the_middle_slice(name, tmp_path):
    file = save(tmp_path / name, VOLUME)
    assert np.array_equal(formats.load(file), spread(shown(VOLUME[:, :, 6])))
    assert np.array_equal(formats.load(file, at=0.0), spread(shown(VOLUME[:, :, 0])))
    found = formats.header(file)
    assert (found.width, found.height, found.slices) == (11, 12, 13)


@pytest.mark.parametrize("axes", ["PIR", "LPS", "SAL", "RSA"])
def test_however_it_is_stored(axes, tmp_path):
    image = nibabel.Nifti1Image(VOLUME, np.eye(4))
    turned = image.as_reoriented(ornt_transform(nibabel.io_orientation(image.affine), axcodes2ornt(axes)))
    nibabel.save(turned, tmp_path / "x.nii.gz")
    assert np.array_equal(formats.load(tmp_path / "x.nii.gz"), spread(shown(VOLUME[:, :, 6])))


def test_the_header_scales_and_has_a_window(tmp_path):
    values = np.arange(24, dtype=np.int16).reshape(4, 6, 1)
    image = nibabel.Nifti1Image(values, np.eye(4))
    image.header.set_slope_inter(2, 10)
    image.header["cal_min"], image.header["cal_max"] = 10, 56
    nibabel.save(image, tmp_path / "x.nii")
    stored = np.asarray(nibabel.load(tmp_path / "x.nii").dataobj)[:, :, 0]
    expected = np.rint(np.clip((shown(stored) - 10) / 46, 0, 1) * 65535)
    assert np.array_equal(formats.load(tmp_path / "x.nii"), expected)


def test_eight_bits_and_several_volumes(tmp_path):
    values = np.random.default_rng(1).integers(0, 2, (5, 6, 3, 4), np.uint8)
    assert np.array_equal(formats.load(save(tmp_path / "x.nii", values)), shown(values[:, :, 1, 0]))


def test_values_that_are_not_finite(tmp_path):
    values = VOLUME.copy()
    values[3:5, :, 6] = np.nan
    image = formats.load(save(tmp_path / "x.nii", values))
    assert image.max() == 65535 and (image[:, [6, 7]] == 0).all()


@pytest.mark.parametrize("packed", [False, True])
def test_what_it_would_unpack_to_is_asked_first(packed, tmp_path):
    header = nibabel.Nifti1Header()
    header.set_data_dtype(np.float64)
    header.set_data_shape((4000, 4000, 30000))
    header["magic"], header["vox_offset"] = b"n+1", 352
    contents = header.binaryblock + bytes(4 + 10**6)
    (tmp_path / "x.nii").write_bytes(gzip.compress(contents) if packed else contents)
    with pytest.raises(Rejected, match=r"too large: 3840000000000 bytes when unpacked.*TFFAPPS_MAX_BYTES"):
        formats.load(tmp_path / "x.nii")


def test_a_truncated_file(tmp_path):
    contents = save(tmp_path / "x.nii.gz", VOLUME).read_bytes()
    (tmp_path / "x.nii.gz").write_bytes(contents[: len(contents) // 4])
    with pytest.raises(Rejected, match="damaged"):
        formats.load(tmp_path / "x.nii.gz")
