"""Image files as float tensors, in TensorFlow ops alone: a pipeline of them can be sent to another process.

The format is told from the first bytes, never from the name. PNG (8 and 16 bits, palettes, alpha dropped),
JPEG and uncompressed BMP are read; anything else fails with InvalidArgumentError. EXIF rotations are not
followed.
"""

import dataclasses
from collections.abc import Iterable

import tensorflow as tf

FORMATS = ("png", "jpeg", "bmp")
_MAGIC = {"png": b"\x89PNG", "jpeg": b"\xff\xd8\xff", "bmp": b"BM"}
_LUMA = (0.299, 0.587, 0.114)  # BT.601, what a JPEG stores as grey; libpng would use other weights


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads images of one size for `pipeline.of_files`."""

    size: tuple[int, int]
    channels: int
    formats: tuple[str, ...] = FORMATS

    required = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.size, self.channels)

    def __call__(self, path: tf.Tensor) -> tf.Tensor:
        return load(path, self.size, self.channels, self.formats)


@dataclasses.dataclass(frozen=True)
class MaskReader:
    """Reads masks, 0 and 255, as classes 0 and 1: int32 (*size)."""

    size: tuple[int, int]
    formats: tuple[str, ...] = FORMATS

    required = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.size

    def __call__(self, path: tf.Tensor) -> tf.Tensor:
        return tf.cast(load(path, self.size, 1, self.formats)[..., 0] > 0.5, tf.int32)


def formats_of(paths: Iterable[str]) -> tuple[str, ...]:
    """Which of FORMATS the files are in; files that are in none of them, or not there, do not count.

    Every branch of a pipeline costs time at every start of it, so it is worth a look before one is made.
    """
    found: set[str] = set()
    for path in paths:
        try:
            with open(path, "rb") as file:
                start = file.read(4)
        except OSError:
            continue
        found.update(name for name in FORMATS if start.startswith(_MAGIC[name]))
    return tuple(name for name in FORMATS if name in found) or FORMATS


def decode(contents: tf.Tensor, channels: int, formats: tuple[str, ...] = FORMATS) -> tf.Tensor:
    """The bytes of a file as float32 (height, width, channels) in [0, 1]; channels is 1 (grey) or 3 (RGB).

    A file in a format that is not among `formats` fails like one that is no image.
    """
    if channels not in (1, 3):
        raise ValueError(f"channels must be 1 or 3, not {channels}")
    readers = {"png": _png, "jpeg": _jpeg, "bmp": _bmp}

    def read(names: tuple[str, ...]) -> tf.Tensor:
        name, *others = names
        right = tf.equal(tf.strings.substr(contents, 0, len(_MAGIC[name])), _MAGIC[name])
        if others:
            return tf.cond(right, lambda: readers[name](contents, channels), lambda: read(tuple(others)))
        # TensorFlow's decoders read each other's formats, and GIFs. What is not in the last format is given to its
        # decoder as nothing, which it refuses. An Assert would be plainer, but it is a stateful op and keeps a
        # pipeline from being saved.
        return readers[name](tf.where(right, contents, ""), channels)

    return tf.ensure_shape(read(formats), (None, None, channels))


def load(path: tf.Tensor, size: tuple[int, int], channels: int, formats: tuple[str, ...] = FORMATS) -> tf.Tensor:
    """The image in a file as float32 (*size, channels), resized where it has another size."""
    return fit(decode(tf.io.read_file(path), channels, formats), size)


def fit(image: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Resizes (height, width, channels) without regard to its proportions; shrinking averages."""
    channels = image.shape[-1]
    image = tf.cond(
        tf.reduce_all(tf.equal(tf.shape(image)[:2], tf.constant(size))),
        lambda: image,
        lambda: tf.image.resize(image, size, method="bilinear", antialias=True),
    )
    return tf.ensure_shape(image, (*size, channels))


def _png(contents: tf.Tensor, channels: int) -> tf.Tensor:
    # 16 bits hold every PNG: an 8-bit value v becomes 257 v, and 257 v / 65535 = v / 255.
    # Grey is made here and not by libpng, which would also apply the file's gamma.
    image = tf.io.decode_png(contents, channels=0 if channels == 1 else 3, dtype=tf.uint16)
    image = tf.cast(image, tf.float32) / 65535.0
    return _with_channels(image, channels) if channels == 1 else image


def _jpeg(contents: tf.Tensor, channels: int) -> tf.Tensor:
    image = tf.io.decode_jpeg(contents, channels=channels, dct_method="INTEGER_ACCURATE")
    return tf.cast(image, tf.float32) / 255.0


def _bmp(contents: tf.Tensor, channels: int) -> tf.Tensor:
    def number(at: int, kind: tf.DType = tf.int32) -> tf.Tensor:
        raw = tf.strings.substr(contents, at, kind.size)
        return tf.cast(tf.io.decode_raw(raw, kind, little_endian=True)[0], tf.int64)

    start, width, height, bits = number(10), number(18), number(22), number(28, tf.uint16)
    row = (width * bits + 31) // 32 * 4
    # TensorFlow insists on the exact length, but some programs add a few bytes at the end.
    length = start + row * tf.abs(height)
    # It would read run-length coded pixels as if they were plain; of nothing it makes an error.
    plain = tf.reduce_any(number(30) == [0, 3])
    exact = tf.strings.substr(contents, 0, tf.cast(tf.where(plain, length, 0), tf.int32))
    image = tf.io.decode_bmp(exact, channels=0)

    def from_palette() -> tf.Tensor:
        first = 14 + number(14)
        raw = tf.strings.substr(contents, tf.cast(first, tf.int32), tf.cast(start - first, tf.int32))
        colours = tf.reshape(tf.io.decode_raw(raw, tf.uint8), (-1, 4))  # blue, green, red, unused
        return tf.gather(colours[:, 2::-1], tf.cast(image[..., 0], tf.int32))

    image = tf.cond(bits == 8, from_palette, lambda: image)
    return _with_channels(tf.cast(image, tf.float32) / 255.0, channels)


def _with_channels(image: tf.Tensor, channels: int) -> tf.Tensor:
    """Grey, grey + alpha, RGB or RGB + alpha (known only when it runs) as grey or RGB."""
    coloured = tf.shape(image)[-1] >= 3
    if channels == 3:
        return tf.cond(coloured, lambda: image[..., :3], lambda: tf.repeat(image[..., :1], 3, axis=-1))
    return tf.cond(
        coloured,
        lambda: tf.reduce_sum(image[..., :3] * _LUMA, axis=-1, keepdims=True),
        lambda: image[..., :1],
    )
