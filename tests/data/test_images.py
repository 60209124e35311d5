import functools

import cv2
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tffapps.data import images

LUMA = np.array([0.299, 0.587, 0.114])


def decoded(contents, channels):
    """As in a pipeline: inside a graph, where the format is not known beforehand."""
    return graph_for(channels)(tf.constant(contents)).numpy()


@functools.cache
def graph_for(channels):
    decode = tf.function(lambda data: images.decode(data, channels))
    return decode.get_concrete_function(tf.TensorSpec((), tf.string))


def check(contents, colour):
    """`colour` is what the file shows as RGB in [0, 1]."""
    found = decoded(contents, 3)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, colour, atol=2e-7)
    np.testing.assert_allclose(decoded(contents, 1)[..., 0], colour @ LUMA, atol=2e-7)


def as_rgb(grey):
    return np.repeat(grey[..., None], 3, axis=-1)


def test_png_rgb(rgb, encode):
    check(encode(rgb), rgb / 255)


def test_png_gamma_note_is_not_applied(rgb, encode):
    from PIL import PngImagePlugin

    info = PngImagePlugin.PngInfo()
    info.add(b"gAMA", (45455).to_bytes(4, "big"))
    contents = encode(rgb, pnginfo=info)
    assert b"gAMA" in contents
    check(contents, rgb / 255)


def test_png_grey(encode):
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    check(encode(ramp), as_rgb(ramp / 255))


def test_png_16_bits(encode):
    deep = np.random.default_rng(1).integers(0, 65536, (5, 7), dtype=np.uint16)
    check(encode(deep), as_rgb(deep / 65535))
    colour = np.random.default_rng(2).integers(0, 65536, (5, 7, 3), dtype=np.uint16)
    _, contents = cv2.imencode(".png", colour[..., ::-1])
    check(contents.tobytes(), colour / 65535)


def test_png_palette_with_and_without_transparency(rgb, encode):
    picture = Image.fromarray(rgb).quantize(8)
    shown = np.asarray(picture.convert("RGB")) / 255
    check(encode(picture), shown)
    check(encode(picture, transparency=0), shown)


def test_png_alpha_is_dropped(rgb, encode):
    alpha = rgb[..., :1]
    check(encode(np.concatenate([rgb, alpha], axis=-1)), rgb / 255)
    check(encode(Image.fromarray(np.dstack([rgb[..., 0], rgb[..., 1]]), "LA")), as_rgb(rgb[..., 0] / 255))


def test_png_one_bit(rgb, encode):
    check(encode(rgb[..., 0] > 99), as_rgb((rgb[..., 0] > 99).astype(float)))


def test_jpeg(encode):
    y, x = np.mgrid[:32, :48]
    smooth = np.stack([4 * x, 6 * y, 255 - 4 * x], axis=-1).astype(np.uint8)
    contents = encode(smooth, "JPEG", quality=95)
    with_opencv = cv2.imdecode(np.frombuffer(contents, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    np.testing.assert_allclose(decoded(contents, 3), with_opencv / 255, atol=1.01 / 255)
    np.testing.assert_allclose(decoded(contents, 1)[..., 0], with_opencv / 255 @ LUMA, atol=2 / 255)
    grey = encode(smooth[..., 0], "JPEG", quality=95)
    np.testing.assert_allclose(decoded(grey, 3), as_rgb(smooth[..., 0] / 255), atol=6 / 255)


def test_bmp_colour_alpha_and_grey(rgb, encode):
    check(encode(rgb, "BMP"), rgb / 255)
    check(encode(np.concatenate([rgb, rgb[..., :1]], axis=-1), "BMP"), rgb / 255)
    check(encode(rgb[..., 0], "BMP"), as_rgb(rgb[..., 0] / 255))
    _, contents = cv2.imencode(".bmp", rgb[..., 0])  # says 0 colours and means 256
    check(contents.tobytes(), as_rgb(rgb[..., 0] / 255))


def test_bmp_palette(rgb, encode):
    picture = Image.fromarray(rgb).quantize(8)
    check(encode(picture, "BMP"), np.asarray(picture.convert("RGB")) / 255)


def test_bmp_with_bytes_after_its_end(rgb, encode):
    check(encode(rgb, "BMP") + b"\0\0", rgb / 255)


def test_other_formats_and_damage_fail(rgb, encode):
    compressed = bytearray(encode(rgb[..., 0], "BMP"))
    compressed[30] = 1  # claims run-length coding
    bad = {
        "gif": encode(rgb, "GIF"),
        "tiff": encode(rgb, "TIFF"),
        "text": b"hello",
        "nothing": b"",
        "png cut": encode(rgb)[:-20],
        "png head": encode(rgb)[:8],
        "jpeg cut": encode(rgb, "JPEG")[:-30],
        "bmp cut": encode(rgb, "BMP")[:-3],
        "bmp head": b"BM",
        "bmp compressed": bytes(compressed),
    }
    for name, contents in bad.items():
        for channels in (1, 3):
            with pytest.raises(tf.errors.InvalidArgumentError):
                decoded(contents, channels)
                pytest.fail(f"{name} was read")


def test_two_channels_are_refused():
    with pytest.raises(ValueError, match="channels"):
        images.decode(tf.constant(b""), 2)


def test_load_resizes_only_where_it_must(tmp_path, rgb, encode):
    file = tmp_path / "x.dat"  # the name says nothing
    file.write_bytes(encode(rgb))
    np.testing.assert_allclose(images.load(str(file), (5, 7), 3), rgb / 255, atol=2e-7)
    graph = tf.function(lambda path: images.load(path, (10, 4), 1)).get_concrete_function(tf.TensorSpec((), tf.string))
    assert graph.output_shapes == (10, 4, 1)
    assert graph(tf.constant(str(file))).shape == (10, 4, 1)


def test_shrinking_averages(encode, tmp_path):
    stripes = np.zeros((64, 64), np.uint8)
    stripes[:, ::8] = 255  # an eighth of the surface, and never where a sample would be taken
    file = tmp_path / "x.png"
    file.write_bytes(encode(stripes))
    small = images.load(str(file), (8, 8), 1).numpy()
    np.testing.assert_allclose(small[:, 1:-1], 1 / 8, atol=0.01)
