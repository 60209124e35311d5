"""TIFF and OME-TIFF: values as they were stored, stacks and channels by rule, and files that lie."""

import numpy as np
import pytest
import tifffile
from PIL import Image

from preprocessing import formats
from preprocessing.errors import Rejected

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 65536, (31, 20), np.uint16)
RGB = RNG.integers(0, 256, (31, 20, 3), np.uint8)
STACK = RNG.integers(0, 4096, (2, 5, 3, 31, 20), np.uint16)  # time, slice, channel, height, width
MIDDLE = STACK[0, 2].transpose(1, 2, 0)
INDEXED = Image.fromarray(RGB).quantize(16)


@pytest.fixture
def stored(tmp_path):
    """An array as it is read again from a file that tifffile has written."""

    def stored(values, **options):
        tifffile.imwrite(tmp_path / "x.tif", values, **options)
        return formats.load(tmp_path / "x.tif")

    return stored


PLAIN = {
    "16 bits": (GREY, {}, GREY),
    "deflated": (GREY, {"compression": "zlib", "predictor": True}, GREY),
    "white is 0": (GREY, {"photometric": "miniswhite"}, 65535 - GREY),
    "colour": (RGB, {"photometric": "rgb"}, RGB),
    "tiles": (RGB, {"photometric": "rgb", "tile": (16, 16)}, RGB),
    "plane by plane": (RGB.transpose(2, 0, 1), {"photometric": "rgb", "planarconfig": "separate"}, RGB),
    "big": (GREY, {"bigtiff": True, "byteorder": ">"}, GREY),
    "yes and no": (GREY > 9999, {"photometric": "minisblack"}, np.where(GREY > 9999, 255, 0)),
    "fractions": (np.float32([[-1, 0], [1, 3]]), {}, np.rint(np.array([[0, 0.25], [0.5, 1]]) * 65535)),
    "ImageJ": (STACK, {"imagej": True, "metadata": {"axes": "TZCYX"}}, MIDDLE),
    "OME": (STACK, {"ome": True, "metadata": {"axes": "TZCYX"}}, MIDDLE),
    "OME, 12 bits": (
        STACK, {"ome": True, "compression": "zlib", "metadata": {"axes": "TZCYX", "SignificantBits": 12}},
        np.rint(MIDDLE / 4095 * 65535),
    ),
    "OME, two channels": (
        STACK[:, :, 0], {"ome": True, "metadata": {"axes": "CZYX"}},
        np.dstack([STACK[0, 2, 0], STACK[1, 2, 0], np.zeros((31, 20))]),
    ),
    "OME, colour": (RGB, {"ome": True, "photometric": "rgb"}, RGB),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_values(name, stored):
    values, options, expected = PLAIN[name]
    image = stored(values, **options)
    assert image.dtype == (np.uint8 if expected.max() < 256 else np.uint16)
    assert np.array_equal(image, expected)


@pytest.mark.parametrize(
    ("image", "how", "expected"),
    [
        (Image.fromarray(RGB), "tiff_lzw", RGB),
        (Image.fromarray(GREY), "tiff_lzw", GREY),
        (INDEXED, "tiff_lzw", np.asarray(INDEXED.convert("RGB"))),
        (INDEXED, None, np.asarray(INDEXED.convert("RGB"))),
        (Image.fromarray(GREY > 9999), "group4", np.where(GREY > 9999, 255, 0)),
    ],
)
def test_compressions_of_libtiff(image, how, expected, tmp_path):
    image.save(tmp_path / "x.tif", compression=how)
    assert np.array_equal(formats.load(tmp_path / "x.tif"), expected)


def test_eight_bits_of_sixteen(tmp_path):
    tifffile.imwrite(tmp_path / "x.tif", np.array([[0, 257], [2570, 65535]], np.uint16))
    assert formats.read(tmp_path / "x.tif").tolist() == [[0, 1], [10, 255]]


def test_too_many_channels(stored):
    with pytest.raises(Rejected, match="5 channels; save the one, two or three"):
        stored(STACK[0, :, 0], ome=True, metadata={"axes": "CYX"})


def described(text):
    return {"description": text, "metadata": None}


OME = '<OME><Image><Pixels DimensionOrder="XYCZT" {} ></Pixels></Image></OME>'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (OME.format('SizeC="1" SizeZ="99999999999" SizeT="9"'), "that cannot be"),
        (OME.format('SizeC="1" SizeZ="9"'), "damaged"),  # pages that are not there
        (OME.format('SizeC="a"'), "damaged"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]>" + OME.format(""), "no plain XML"),
        (OME.replace("></Pixels>", "><TiffData><UUID FileName='/etc/passwd'>b</UUID></TiffData></Pixels>")
         .replace("<OME>", "<OME UUID='a'>").format('SizeC="1"'), "planes in other files"),
        ("ImageJ=1.5\nchannels=1\nslices=999999999\n", "that cannot be"),
    ],
)  # fmt: skip
def test_a_description_that_lies(text, why, stored):
    with pytest.raises(Rejected, match=why):
        stored(GREY, **described(text))


def test_a_piece_that_unpacks_to_too_much(tmp_path):
    """20 KB of zeros that become 20 MB, in a picture of 31 × 20."""
    import zlib

    bomb = zlib.compress(bytes(2 * 10**7))
    tifffile.imwrite(tmp_path / "x.tif", iter([bomb]), shape=GREY.shape, dtype=GREY.dtype, compression="zlib")
    with pytest.raises(Rejected, match="unpacks to more"):
        formats.load(tmp_path / "x.tif")
