"""Random changes to a training image, as `augment` of `tffapps.data.pipeline.batches`.

Values from the PLFL thesis: `affine` Table 4.6, `weak` Table 4.7, `strong` Table 4.8. Each function takes an image
(float32 (height, width, channels) in [0, 1]) and a stateless seed (int32[2]) and returns an image of the same shape
in [0, 1]. Pure TensorFlow without state: the seed alone decides. Given the same seed the three draw independently,
so `weak` and `strong` are two unrelated views of an image, as FixMatch needs them.

What the tables leave open:
  - the unit of shear 0.2. Keras's ImageDataGenerator, whose arguments Table 4.6 lists, meant radians until 2017
    (keras-team/keras pull request 8868) and degrees since, so also for the thesis: `affine_degrees`. 0.2° moves no
    pixel of a 224-pixel frame by as much as half a pixel, so `affine` takes it for radians, 11°, which does something;
  - zoom is as in Keras the number of input pixels for one output pixel, drawn for each axis: 0.8 enlarges;
  - the side of the cutout is half of the image's, as the Cutout paper has it for CIFAR-10 (16 of 32 pixels).
"""

from __future__ import annotations

import math
from typing import TypeAlias

import tensorflow as tf

ROTATION = 20.0  # degrees either way; Table 4.6
SHIFT = 0.1  # share of the width and of the height, either way; Table 4.6
SHEAR = 0.2  # either way, in radians (ours) or degrees (Keras in the thesis's year); Table 4.6
ZOOM = 0.2  # the factors are within 1 ± this; Table 4.6
WEAK_BRIGHTNESS = 0.2  # added to or taken from every pixel, at most; Table 4.7
STRONG_BRIGHTNESS = 0.8  # the same; Table 4.8
CONTRAST = (0.2, 1.8)  # factor for the distance from the mean; Tables 4.7 and 4.8
SATURATION = (0.2, 1.8)  # factor; Table 4.8
HUE = 0.2  # turn of the colour circle, at most, either way; Table 4.8
CUTOUT = 0.5  # side of the square as a share of the image's shorter side; our choice
CUTOUT_FILLS = (0.5, 0.0)  # "a solid gray or a solid black": each half of the time

FLIPPED, LIT = 0.4, 0.2  # shares of `varied` that are flipped at most, and `weak`; the others are `affine`

_AFFINE, _WEAK, _STRONG, _VARIED = 0, 1, 2, 3  # streams of random numbers from one seed

Number: TypeAlias = float | tf.Tensor


def affine(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Rotated, shifted, sheared, zoomed and flipped at random in one resampling; edges repeated beyond the border."""
    return _affine(image, seed, SHEAR)


def affine_degrees(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """The same with a shear of at most 0.2 degrees, as Keras reads Table 4.6."""
    return _affine(image, seed, math.radians(SHEAR))


def _affine(image: tf.Tensor, seed: tf.Tensor, most_shear: float) -> tf.Tensor:
    size = tf.shape(image)[:2]
    height, width = tf.unstack(tf.cast(size, tf.float32))
    # rotation, right, down, shear, zoom across, zoom down, flip: each in [-1, 1)
    drawn = tf.random.stateless_uniform((7,), _stream(seed, _AFFINE), -1.0, 1.0, alg="philox")
    rotation, right, down, shear, zoom_across, zoom_down, flip = tf.unstack(drawn)
    coefficients = transform(
        size,
        rotation=ROTATION * rotation,
        right=SHIFT * width * right,
        down=SHIFT * height * down,
        shear=most_shear * shear,
        zoom=(1 + ZOOM * zoom_across, 1 + ZOOM * zoom_down),
        flip=flip < 0,
    )
    return _clipped(warp(image, coefficients))


def weak(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Flip, brightness and contrast."""
    flip, brightness, contrast = _seeds(_stream(seed, _WEAK), 3)
    image = tf.image.stateless_random_flip_left_right(image, flip)
    image = tf.image.stateless_random_brightness(image, WEAK_BRIGHTNESS, brightness)
    return _clipped(tf.image.stateless_random_contrast(image, *CONTRAST, contrast))


def strong(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Flip, brightness, contrast, saturation and hue, then a cutout.

    Saturation and hue need three channels and are left out for any other number; a grey X-ray stored as three
    equal channels they leave as it is.
    """
    if image.shape[-1] is None:
        raise ValueError(f"an image of shape {image.shape} may be grey or colour; set its number of channels")
    flip, brightness, contrast, saturation, hue, square = _seeds(_stream(seed, _STRONG), 6)
    image = tf.image.stateless_random_flip_left_right(image, flip)
    image = tf.image.stateless_random_brightness(image, STRONG_BRIGHTNESS, brightness)
    image = _clipped(tf.image.stateless_random_contrast(image, *CONTRAST, contrast))
    if image.shape[-1] == 3:  # clipped before: outside [0, 1] there is no saturation
        image = tf.image.stateless_random_saturation(image, *SATURATION, saturation)
        image = _clipped(tf.image.stateless_random_hue(image, HUE, hue))
    return cutout(image, square)


def varied(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """As it is or flipped, or `weak`, or `affine` (ours), so that a few stored views differ in place and in light."""
    which, flip = _seeds(_stream(seed, _VARIED), 2)
    drawn = tf.random.stateless_uniform((), which, alg="philox")
    return tf.case(
        [
            (drawn < FLIPPED, lambda: tf.image.stateless_random_flip_left_right(image, flip)),
            (drawn < FLIPPED + LIT, lambda: weak(image, seed)),
        ],
        default=lambda: affine(image, seed),
    )


def cutout(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """A grey or black square over the image. Its centre is any pixel, so the border may cut it to a quarter."""
    place, shade = _seeds(seed, 2)
    size = tf.shape(image)[:2]
    side = tf.cast(tf.round(CUTOUT * tf.cast(tf.reduce_min(size), tf.float32)), tf.int32)
    share = tf.random.stateless_uniform((2,), place, alg="philox")
    # The product can round up to the size itself where the share is nearly 1.
    centre = tf.minimum(tf.cast(share * tf.cast(size, tf.float32), tf.int32), size - 1)
    first = centre - side // 2
    rows, columns = tf.range(size[0]) - first[0], tf.range(size[1]) - first[1]
    inside_rows, inside_columns = (rows >= 0) & (rows < side), (columns >= 0) & (columns < side)
    inside = inside_rows[:, None, None] & inside_columns[None, :, None]
    grey, black = CUTOUT_FILLS
    fill = tf.where(tf.random.stateless_uniform((), shade, alg="philox") < 0.5, grey, black)
    return tf.where(inside, fill, image)


def transform(
    size: tf.Tensor | tuple[int, int],
    *,
    rotation: Number = 0.0,
    right: Number = 0.0,
    down: Number = 0.0,
    shear: Number = 0.0,
    zoom: tuple[Number, Number] = (1.0, 1.0),
    flip: bool | tf.Tensor = False,
) -> tf.Tensor:
    """The eight coefficients for `warp`, float32: a map about the centre of an image of `size` (height, width).

    Composed as in Keras: the picture is turned by `rotation` degrees anticlockwise, moved by `right` and `down`
    pixels, sheared by `shear` radians (rows slide, the lower ones to the right), shrunk by the factors `zoom`
    (across, down) and at last, with `flip`, mirrored left to right.
    """
    height, width = tf.unstack(tf.cast(size, tf.float32))
    centre = tf.stack([width - 1, height - 1]) / 2  # of pixels numbered from 0
    angle = tf.cast(rotation, tf.float32) * (math.pi / 180)
    shear = tf.cast(shear, tf.float32)
    zoom_x, zoom_y = (tf.cast(factor, tf.float32) for factor in zoom)
    zoom_x = tf.where(flip, -zoom_x, zoom_x)
    # From output to input, (x, y) as seen from the centre, so each step is the inverse and the last one comes first.
    turned = _matrix((tf.cos(angle), -tf.sin(angle)), (tf.sin(angle), tf.cos(angle)))
    sheared = _matrix((1.0, -tf.sin(shear)), (0.0, tf.cos(shear)))
    zoomed = _matrix((zoom_x, 0.0), (0.0, zoom_y))
    linear = turned @ sheared @ zoomed
    moved = tf.stack([tf.cast(right, tf.float32), tf.cast(down, tf.float32)])
    offset = centre - tf.linalg.matvec(linear, centre) - tf.linalg.matvec(turned, moved)
    rows = tf.concat([linear, offset[:, None]], axis=1)  # (2, 3)
    return tf.concat([tf.reshape(rows, (6,)), tf.zeros(2)], axis=0)


def warp(image: tf.Tensor, coefficients: tf.Tensor) -> tf.Tensor:
    """The image resampled bilinearly by a `transform`; beyond the border its nearest pixel is repeated."""
    warped = tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=coefficients[None],
        output_shape=tf.shape(image)[:2],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="NEAREST",
    )
    return tf.ensure_shape(warped[0], image.shape)


def _matrix(*rows: tuple[Number, Number]) -> tf.Tensor:
    return tf.stack([tf.stack(row) for row in rows])


def _clipped(image: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(image, 0.0, 1.0)


def _stream(seed: tf.Tensor, number: int) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(seed, number, alg="philox")


def _seeds(seed: tf.Tensor, count: int) -> list[tf.Tensor]:
    return tf.unstack(tf.random.experimental.stateless_split(seed, count, alg="philox"))
