"""Knee X-rays made ready for a classifier: the knee is cut out of the picture and its contrast raised.

After Table 4.3 of the PLFL thesis: grey, Gaussian blur, adaptive threshold, contours, the largest contour, its
filled mask, bitwise AND, contrast. Then the thesis took out by hand the images that were "fully dark or half
knee not visible"; `check` does so by rule.

What differs from the table, because taken by the letter its steps lose a part of some knees (of 93 images 6 had a mask
over less than 0.6 of the frame; the median was 0.97, as it is here):
  - the adaptive threshold looks at a wide neighbourhood: a narrow one finds the bone's texture, not the knee;
  - the threshold's picture is closed: the joint space cuts it in two, and the larger contour was the femur alone;
  - the contour's convex hull is filled: notches in it would be holes in the knee;
  - negatives (9 of 1074 images) are turned into positives first: in them the largest contour is the background.
`KneeSettings(turn_negatives=False, block=11, constant=2, close_width=0, convex=False, contrast="equalize")` is
the table by the letter.

    python -m preprocessing.knee IN OUT [--steps]
"""

from __future__ import annotations

if __name__ == "__main__":  # before OpenCV is imported: --help needs none
    from preprocessing.knee_command import main

    raise SystemExit(main())

from typing import Any

import cv2
import numpy as np

from preprocessing import image_bytes
from preprocessing.errors import Rejected
from preprocessing.knee_settings import CONTRASTS, KneeRejected, KneeSettings

__all__ = [
    "CONTRASTS",
    "KneeRejected",
    "KneeSettings",
    "check",
    "decode",
    "encode",
    "preprocess",
    "preprocess_bytes",
    "raise_contrast",
    "steps",
]

# What no X-ray is, whatever its exposure; measured on 4,290 of the data set with each.
_BRIGHT_LEVEL, _MAX_BRIGHT = 230, 0.9  # share of pixels at this grey level or above; measured: at most 0.76
_MAX_ROUGH = 0.5  # mean difference of neighbours over the standard deviation; measured: at most 0.17, noise has 1.16
_FRAME = 224  # the frame the settings' lengths are given for
_DEFAULT = KneeSettings()


def steps(image: np.ndarray, settings: KneeSettings = _DEFAULT) -> dict[str, np.ndarray]:
    """The picture after every step, in order; each uint8 and as large as the image.

    The last one, "contrast", is the result, "mask" is what `check` judges.
    """
    if image.dtype != np.uint8 or image.ndim != 2 or not image.size:
        raise TypeError(f"a uint8 image of shape (height, width) is needed, not {image.dtype} {image.shape}")
    grey = 255 - image if settings.turn_negatives and _is_negative(image, settings) else image

    side = _length(settings.blur, grey)
    blur = cv2.GaussianBlur(grey, (side, side), 0)
    block = max(3, _length(settings.block, grey))
    threshold = cv2.adaptiveThreshold(
        blur, 255, cv2.ADAPTIVE_THRESH_GAUSSIAN_C, cv2.THRESH_BINARY, block, settings.constant
    )
    closed = threshold
    if settings.close_width and settings.close_height:
        size = (_length(settings.close_width, grey), _length(settings.close_height, grey))
        closed = cv2.morphologyEx(threshold, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_RECT, size))

    contours = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]
    largest = [max(contours, key=cv2.contourArea)] if contours else []  # a blank image has none
    if settings.convex:
        largest = [cv2.convexHull(contour) for contour in largest]
    mask = cv2.drawContours(np.zeros_like(grey), largest, -1, (255,), cv2.FILLED)
    masked = cv2.bitwise_and(grey, mask)
    return {
        "grey": grey,
        "blur": blur,
        "threshold": threshold,
        "closed": closed,
        "contours": cv2.drawContours(grey // 2, contours, -1, (255,), 1),
        "largest contour": cv2.drawContours(grey // 2, largest, -1, (255,), 2),
        "mask": mask,
        "masked": masked,
        "contrast": raise_contrast(masked, settings),
    }


def preprocess(image: np.ndarray, settings: KneeSettings = _DEFAULT) -> np.ndarray:
    """The knee cut out and its contrast raised: uint8, as large as the image. Judges nothing: see `check`."""
    return steps(image, settings)["contrast"]


def check(image: np.ndarray, mask: np.ndarray, settings: KneeSettings = _DEFAULT) -> str | None:
    """Why an image cannot be used, or None. `mask` is that of `steps`."""
    height, width = image.shape
    if min(height, width) < settings.min_side:
        return f"too small: {width}×{height} pixels, at least {settings.min_side} each way are needed"
    dark = float(np.mean(image < settings.dark_level))
    if dark > settings.max_dark:
        return (
            f"nearly all dark: {dark:.1%} of the pixels are below grey level {settings.dark_level}, "
            f"at most {settings.max_dark:.1%} may be"
        )
    bright = float(np.mean(image >= _BRIGHT_LEVEL))
    if bright > _MAX_BRIGHT:
        return (
            f"nearly all bright: {bright:.1%} of the pixels are at grey level {_BRIGHT_LEVEL} or above, "
            f"at most {_MAX_BRIGHT:.1%} may be"
        )
    rough = float(np.abs(np.diff(image.astype(np.float32), axis=1)).mean() / max(float(image.std()), 1.0))
    if rough > _MAX_ROUGH:
        return f"noise: neighbouring pixels differ by {rough:.2f} of the spread, at most {_MAX_ROUGH:.2f} may be"
    cover = float(np.mean(mask > 0))
    if cover < settings.min_cover:
        return f"knee not found: its mask covers {cover:.1%} of the frame, at least {settings.min_cover:.1%} is needed"
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if not columns.size:  # only where no cover at all was asked for
        return None
    free = {  # side: share of the frame between it and the mask
        "left": columns[0] / width,
        "right": (width - 1 - columns[-1]) / width,
        "top": rows[0] / height,
        "bottom": (height - 1 - rows[-1]) / height,
    }
    # A whole knee keeps about the same distance from left and right, and runs through from top to bottom.
    for side, opposite in (("left", "right"), ("right", "left"), ("top", "bottom"), ("bottom", "top")):
        if free[side] == 0 and free[opposite] > settings.max_gap:
            return (
                f"cut off at the {side}: the mask touches that side and leaves {free[opposite]:.1%} of the frame "
                f"free at the {opposite}, at most {settings.max_gap:.1%} may be"
            )
    return None


def preprocess_bytes(contents: bytes, **parameters: Any) -> bytes:
    """An image file's bytes to a PNG's; `parameters` are fields of `KneeSettings`. Raises `KneeRejected`."""
    settings = KneeSettings(**parameters)
    image = decode(contents)
    pictures = steps(image, settings)
    reason = check(image, pictures["mask"], settings)
    if reason:
        raise KneeRejected(reason)
    return encode(pictures["contrast"])


def decode(contents: bytes) -> np.ndarray:
    """A grey image from a file's bytes. Raises `KneeRejected`."""
    try:
        return image_bytes.decode(contents, cv2.IMREAD_GRAYSCALE)
    except Rejected as rejected:
        raise KneeRejected(str(rejected)) from None


def encode(image: np.ndarray) -> bytes:
    return cv2.imencode(".png", image)[1].tobytes()


def _is_negative(image: np.ndarray, settings: KneeSettings) -> bool:
    """Whether both sides of the frame, where the background is, are brighter than the middle, the bone."""
    height, width = image.shape
    rim = max(1, width // 25)
    middle = image[height // 4 : height - height // 4, width // 4 : width - width // 4].mean()
    darker_side = min(image[:, :rim].mean(), image[:, -rim:].mean())
    return bool(darker_side - middle > settings.negative_margin)


def _length(pixels: int, image: np.ndarray) -> int:
    """A length for a 224-pixel frame in this image's pixels: the nearest odd number, which OpenCV's kernels want."""
    scaled = pixels * min(image.shape) / _FRAME
    return max(1, 2 * round((scaled - 1) / 2) + 1)


def raise_contrast(image: np.ndarray, settings: KneeSettings = _DEFAULT) -> np.ndarray:
    """The last of the steps by itself: CLAHE, or equalisation."""
    if settings.contrast == "equalize":
        return cv2.equalizeHist(image)
    tiles = (settings.clahe_tiles, settings.clahe_tiles)
    return cv2.createCLAHE(settings.clahe_clip, tiles).apply(image)
