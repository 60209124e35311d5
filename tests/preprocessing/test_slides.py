import io
import sys
import types

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from preprocessing import slides
from preprocessing.errors import UserError
from tests.preprocessing.test_patches import change_tags, cut, picture, read, save


def jpeg(image, **options):
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=95, **options)
    return stream.getvalue()


def tiles(image, encode, side=64):
    height, width = (-(-length // side) * side for length in image.shape[:2])
    padded = np.full((height, width, 3), 255, np.uint8)
    padded[: image.shape[0], : image.shape[1]] = image
    return [encode(padded[y : y + side, x : x + side]) for y in range(0, height, side) for x in range(0, width, side)]


def jpeg_tiles(path, image, encoded, photometric=2):
    """tifffile without its codecs writes no JPEG: the tiles are passed off as Deflate, and the tags put right."""
    shape = {"shape": image.shape, "dtype": np.uint8, "tile": (64, 64)}
    tifffile.imwrite(path, iter(encoded), compression="zlib", photometric="rgb", metadata=None, **shape)
    change_tags(path, {259: 7, 262: photometric})


def stored(path, kind, image):
    """The image as a TIFF of the given kind."""
    options = {"photometric": "rgb", "metadata": None}
    if kind in ("zlib", "lzma"):
        tifffile.imwrite(path, image, tile=(64, 64), compression=kind, predictor=kind == "zlib", **options)
    elif kind == "tiles":
        tifffile.imwrite(path, image, tile=(32, 80), **options)
    elif kind == "strips":
        tifffile.imwrite(path, image, rowsperstrip=7, compression="zlib", **options)
    elif kind == "one strip":
        tifffile.imwrite(path, image, rowsperstrip=image.shape[0], **options)
    elif kind == "bigtiff":
        tifffile.imwrite(path, image, tile=(64, 64), bigtiff=True, byteorder=">", **options)
    elif kind == "jpeg rgb":
        jpeg_tiles(path, image, tiles(image, lambda tile: jpeg(tile, keep_rgb=True)))
    elif kind == "jpeg ycbcr":
        jpeg_tiles(path, image, tiles(image, lambda tile: jpeg(tile, subsampling=2)), photometric=6)
    elif kind == "jpeg with tables":  # libtiff keeps the tables of all strips in one place
        Image.fromarray(image).save(path, compression="jpeg", quality=95)
    elif kind == "lzw":
        Image.fromarray(image).save(path, compression="tiff_lzw")
    return path


@pytest.mark.parametrize(
    ("kind", "off"),
    [
        ("zlib", 0),
        ("lzma", 0),
        ("tiles", 0),
        ("strips", 0),
        ("one strip", 0),
        ("bigtiff", 0),
        ("lzw", 0),
        ("jpeg rgb", 3),
        ("jpeg with tables", 3),
        ("jpeg ycbcr", 6),
    ],
)
def test_every_way_a_picture_is_stored(tmp_path, kind, off):
    image = cv2.GaussianBlur(picture(301, 207), (0, 0), 2)
    slide = slides.open_slide(stored(tmp_path / "s.tif", kind, image))
    assert slide.levels == [(301, 207)]
    for x, y, width, height in ((0, 0, 301, 207), (60, 50, 80, 90), (140, 130, 1, 1), (270, 190, 64, 64)):
        region = slide.read(0, x, y, width, height)
        assert region.shape == (height, width, 3)
        inside = image[y : y + height, x : x + width]
        beyond = region[inside.shape[0] :, :], region[:, inside.shape[1] :]
        assert all((part == 255).all() for part in beyond)
        difference = np.abs(region[: inside.shape[0], : inside.shape[1]].astype(int) - inside)
        assert difference.mean() <= off / 3 and (off or difference.max() == 0)
    slide.close()


def test_a_tile_without_data_is_glass(tmp_path):
    image = picture()
    encoded = tiles(image, lambda tile: jpeg(tile, keep_rgb=True))
    encoded[9] = b""  # column 1, row 1
    jpeg_tiles(tmp_path / "s.tif", image, encoded)
    slide = slides.open_slide(tmp_path / "s.tif")
    assert (slide.read(0, 64, 64, 64, 64) == 255).all()
    assert (slide.read(0, 128, 64, 64, 64) != 255).any()


def test_few_tiles_stay_in_memory(tmp_path, monkeypatch):
    save(tmp_path / "s.tif", picture())
    monkeypatch.setattr(slides, "_CACHE_BYTES", 3 * 64 * 64 * 3)
    slide = slides.open_slide(tmp_path / "s.tif")
    assert np.array_equal(slide.read(0, 0, 0, 512, 384), picture())
    assert len(slide._tiles) == 3 and slide._bytes == 3 * 64 * 64 * 3


@pytest.mark.parametrize("inside", [False, True])
def test_the_levels_of_a_pyramid(tmp_path, inside):
    path = save(tmp_path / "s.svs", picture(), 3, inside=inside)
    label = np.zeros((60, 200, 3), np.uint8)
    thumbnail = cv2.resize(picture(), (200, 150))
    for extra in (label, thumbnail):  # neither belongs to the pyramid: another shape, and not tiled
        tifffile.imwrite(path, extra, append=True, photometric="rgb", metadata=None)
    assert slides.open_slide(path).levels == [(512, 384), (256, 192), (128, 96)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"power": 40}, 40),
        ({"resolution": (1e4 / 0.2426, 1e4 / 0.2426), "resolutionunit": 3}, 40),  # CAMELYON17
        ({"resolution": (25400 / 0.5, 25400 / 0.5), "resolutionunit": 2}, 20),
        ({"resolution": (1e4 / 0.33, 1e4 / 0.33), "resolutionunit": 3}, 10 / 0.33),
        ({"resolution": (72, 72), "resolutionunit": 2}, None),
        ({}, None),
    ],
)
def test_the_magnification(tmp_path, options, expected):
    slide = slides.open_slide(save(tmp_path / "s.tif", picture(), **options))
    assert slide.magnification == (pytest.approx(expected) if expected else None)


def test_a_page_in_one_large_piece_is_refused(tmp_path, monkeypatch):
    tifffile.imwrite(tmp_path / "s.tif", picture(), rowsperstrip=384, compression="zlib", photometric="rgb")
    monkeypatch.setattr(slides, "_TILE_PIXELS", 100_000)
    with pytest.raises(UserError, match="stored in one piece; convert it to a tiled TIFF"):
        slides.open_slide(tmp_path / "s.tif").read(0, 0, 0, 8, 8)


class FakeOpenSlide:
    """What the package `openslide` gives: RGBA, places in pixels of the finest level."""

    level_dimensions = ((512, 384), (256, 192))
    level_downsamples = (1.0, 2.0)
    properties = types.MappingProxyType({"openslide.objective-power": "40", "openslide.mpp-x": "0.25"})

    def __init__(self, path):
        if "broken" in path:
            raise FakeError("no tiles")

    @staticmethod
    def detect_format(path):
        return "fake" if path.endswith(".ndpi") else None

    def read_region(self, place, level, size):
        factor = int(self.level_downsamples[level])
        image = np.dstack([picture(), np.full((384, 512), 255, np.uint8)])[::factor, ::factor]
        x, y = place[0] // factor, place[1] // factor
        image[:10, :10] = 0  # not scanned: clear
        return Image.fromarray(image[y : y + size[1], x : x + size[0]])

    def close(self):
        pass


class FakeError(Exception):
    pass


def test_openslide_reads_what_it_knows(tmp_path, monkeypatch, capsys):
    fake = types.ModuleType("openslide")
    fake.OpenSlide, fake.OpenSlideError = FakeOpenSlide, FakeError
    fake.__spec__ = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "openslide", fake)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/s.ndpi").write_bytes(b"slide")
    slide = slides.open_slide(tmp_path / "in/s.ndpi")
    assert slide.magnification == 40 and slide.levels == [(512, 384), (256, 192)]
    assert np.array_equal(slide.read(1, 64, 32, 30, 20), picture()[64:104:2, 128:188:2])
    assert (slide.read(0, 0, 0, 10, 10) == 255).all()  # clear is white
    assert isinstance(slides.open_slide(save(tmp_path / "t.tif", picture())), slides.TiffSlide)
    assert cut(tmp_path / "in", tmp_path / "out", "--size", 64, "--magnification", 40) == 0
    image = read(tmp_path / "out/s/s_128_64.png")
    assert np.array_equal(image, picture()[64:128, 128:192])
    (tmp_path / "broken.ndpi").write_bytes(b"slide")
    capsys.readouterr()
    assert cut(tmp_path / "broken.ndpi", tmp_path / "out2") == 2
    assert "broken.ndpi: not a slide that OpenSlide can read (no tiles)" in capsys.readouterr().err
