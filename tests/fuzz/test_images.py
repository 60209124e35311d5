"""Image files that are damaged, cut short or lie about their size: an image, or the refusal of whoever reads it."""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from preprocessing import image_bytes, knee
from tests.fuzz.strategies import bounded, check_refusal, damaged
from tffapps.data import made, pipeline
from tffapps.data.micrograph_labels import read_label
from tffapps.data.unreadable import find_unreadable
from tffapps.errors import Rejected, UserError


def _samples() -> list[bytes]:
    rng = np.random.default_rng(0)
    kinds = {".png": (np.uint8, np.uint16), ".jpg": (np.uint8,), ".bmp": (np.uint8,), ".tiff": (np.uint8, np.float32)}
    images = [
        (suffix, (255 * rng.random(shape)).astype(kind))
        for suffix, types in kinds.items()
        for kind in types
        for shape in ((9, 7), (9, 7, 3), (9, 7, 4))
    ]
    return [cv2.imencode(suffix, image)[1].tobytes() for suffix, image in images]


SAMPLES = _samples()
broken = st.sampled_from(SAMPLES).flatmap(damaged)
random = st.binary(max_size=80) | st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"BM", b"II*\0"]).flatmap(
    lambda start: st.binary(max_size=80).map(start.__add__)
)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, depth: int = 8, colour: int = 2) -> bytes:
    """A small PNG that claims to be of this size."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(64))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def bmp(width: int, height: int, bits: int = 24) -> bytes:
    return (
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 118, 0, 0, 54, 40, width, height, 1, bits, 0, 0, 0, 0, 0, 0) + bytes(64)
    )


def jpeg(width: int, height: int) -> bytes:
    contents = bytearray(cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes())
    place = contents.index(b"\xff\xc0")
    contents[place + 5 : place + 9] = struct.pack(">HH", height, width)
    return bytes(contents)


HUGE = [
    png(2**31 - 1, 2**31 - 1), png(60_000, 60_000), png(2**31 - 1, 1), png(0, 5), bmp(2**31 - 1, 2**31 - 1), bmp(-5, 7),
    bmp(60_000, 60_000), bmp(0, 0), bmp(5, -(2**31)), jpeg(65_500, 65_500), jpeg(0, 8),
]  # fmt: skip


def each_reader(contents: bytes) -> None:
    """Everything that reads images into NumPy."""
    for flag in (cv2.IMREAD_UNCHANGED, cv2.IMREAD_GRAYSCALE, cv2.IMREAD_COLOR):
        try:
            assert image_bytes.decode(contents, flag).size
        except Rejected as rejected:
            check_refusal(rejected)
    try:
        image = made.decode(contents)
        assert image.dtype == np.uint8 and image.shape[2:] == (3,) and image.size
    except Rejected as rejected:
        check_refusal(rejected)
    try:
        label = read_label("label.png", contents)
        assert label.dtype == np.uint8 and label.ndim == 2 and label.size
    except UserError as error:
        check_refusal(error)
    try:
        assert knee.preprocess_bytes(contents).startswith(b"\x89PNG")
    except Rejected as rejected:
        check_refusal(rejected)


@bounded(250)
@given(contents=broken | random)
def test_damaged_images(contents):
    each_reader(contents)


@pytest.mark.parametrize("place", range(len(SAMPLES)))
def test_whole_images(place):
    each_reader(SAMPLES[place])


@pytest.mark.parametrize("place", range(len(HUGE)))
def test_sizes_that_are_not_true(place):
    each_reader(HUGE[place])


@bounded(6)
@given(contents=st.lists(broken | random, min_size=8, max_size=16))
def test_a_pipeline_gives_what_was_found_readable(tmp_path_factory, contents):
    check_pipeline(tmp_path_factory.mktemp("files"), contents)


def test_a_pipeline_with_sizes_that_are_not_true(tmp_path):
    assert check_pipeline(tmp_path, HUGE) == 0


def test_a_message_of_tensorflow_that_is_no_text(tmp_path):
    """It quotes bytes of the file, and Python cannot read them."""
    assert check_pipeline(tmp_path, [b"BMU\xbe9sAvCl"]) == 0


def check_pipeline(folder, contents) -> int:
    for number, each in enumerate([*contents, SAMPLES[0]]):
        (folder / f"{number}.png").write_bytes(each)
    paths = [str(folder / f"{number}.png") for number in range(len(contents) + 1)]
    good = 0
    for channels in (1, 3):
        reasons = find_unreadable(paths, channels)
        for reason in reasons.values():
            assert reason and reason.isprintable()
        dataset = pipeline.batches(paths, range(len(paths)), size=(4, 4), channels=channels, batch=4, shuffle=False)
        places = [int(place) for _, labels in dataset for place in labels]
        assert [paths[place] for place in places] == [path for path in paths if path not in reasons]
        assert all(bool(tf.reduce_all(tf.math.is_finite(images))) for images, _ in dataset)
        good = len(places) - 1
    return good
