"""Images that are too large are refused by their headers: no decoder is asked."""

import struct
import zlib

import cv2
import numpy as np
import pytest
import tifffile

from preprocessing import formats, headers, knee_command
from preprocessing.errors import Rejected, UserError
from preprocessing.files import read_image
from preprocessing.image_bytes import decode
from tests.fuzz.test_images import bmp, chunk, jpeg, png
from tests.preprocessing.medical import write_dicom
from tffapps.data import made, unreadable

PNG_BOMB = (
    b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 23_000, 23_000, 1, 0, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(bytes(23_000 * 2876))) + chunk(b"IEND", b"")
)  # fmt: skip


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    """By name, files that claim to be larger than is allowed."""
    folder = tmp_path_factory.mktemp("bombs")
    contents = {"real.png": PNG_BOMB, "x.png": png(60_000, 60_000), "x.jpg": jpeg(65_500, 65_500)}
    contents["x.bmp"] = bmp(-40_000, 40_000)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    tifffile.imwrite(folder / "x.tif", iter([b"x"]), shape=(50_000, 50_000), dtype=np.uint8, compression="zlib",
                     rowsperstrip=50_000)  # fmt: skip
    write_dicom(folder / "x.dcm", np.zeros((2, 2)), Rows=50_000, Columns=50_000)
    return folder


NAMES = ["real.png", "x.png", "x.jpg", "x.bmp", "x.tif", "x.dcm"]


@pytest.fixture
def no_decoder(monkeypatch):
    """Whoever decodes fails the test."""

    def refuse(*arguments, **options):
        raise AssertionError("a decoder was called")

    for name in ("imdecode", "imdecodemulti", "imread"):
        monkeypatch.setattr(cv2, name, refuse)
    monkeypatch.setattr(tifffile.TiffPage, "asarray", refuse)
    monkeypatch.setattr("pydicom.pixels.pixel_array", refuse)
    monkeypatch.setattr(unreadable, "_shape_function", lambda channels: refuse)


@pytest.mark.parametrize("name", NAMES)
def test_nobody_decodes_it(name, bombs, no_decoder):
    file = bombs / name
    with pytest.raises(Rejected, match=r"too large: \d+ × \d+ pixels, 67108864 allowed.*TFFAPPS_MAX_PIXELS"):
        formats.read(file)
    for reader in (lambda: decode(read_image(file), cv2.IMREAD_COLOR), lambda: made.decode(read_image(file))):
        with pytest.raises(Rejected, match="too large"):
            reader()
    (reason,) = unreadable.find_unreadable([str(file)], 3).values()
    assert reason.startswith("too large: ")


def test_a_command_lists_it(bombs, tmp_path, capsys, no_decoder):
    assert knee_command.main([str(bombs), str(tmp_path / "out"), "--workers", "1"]) == 1
    lines = (tmp_path / "out" / "rejected.csv").read_text().splitlines()
    assert len(lines) == 1 + len(NAMES) and all("too large" in line for line in lines[1:])
    assert "Traceback" not in capsys.readouterr().err


def test_the_way_out(tmp_path, monkeypatch):
    (tmp_path / "x.png").write_bytes(cv2.imencode(".png", np.zeros((30, 40), np.uint8))[1].tobytes())
    monkeypatch.setenv("TFFAPPS_MAX_PIXELS", "1199")
    with pytest.raises(Rejected, match="40 × 30 pixels, 1199 allowed"):
        formats.read(tmp_path / "x.png")
    monkeypatch.setenv("TFFAPPS_MAX_PIXELS", "1200")
    assert formats.read(tmp_path / "x.png").shape == (30, 40)
    monkeypatch.setenv("TFFAPPS_MAX_BYTES", "20")
    with pytest.raises(Rejected, match=r"too large: .* bytes, 20 allowed.*TFFAPPS_MAX_BYTES"):
        read_image(tmp_path / "x.png")
    for wrong in ("many", "0", "-1", "1e9", "٣"):
        monkeypatch.setenv("TFFAPPS_MAX_BYTES", wrong)
        with pytest.raises(UserError, match=r"TFFAPPS_MAX_BYTES=.*must be a whole number above 0"):
            formats.read(tmp_path / "x.png")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".tiff", ".jp2"])
def test_the_size_in_a_header(suffix):
    image = np.zeros((30, 44, 3), np.uint8)
    if suffix == ".jp2":
        from io import BytesIO

        from PIL import Image

        stream = BytesIO()
        Image.fromarray(image).save(stream, "JPEG2000")
        contents = stream.getvalue()
    else:
        contents = cv2.imencode(suffix, image)[1].tobytes()
    assert headers.size_of(contents) == (44, 30)
