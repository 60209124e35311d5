"""A picture for an artist's card: small, encoded anew, so that nothing else that was in its file goes with it."""

import cv2
import numpy as np

from tffapps import UserError
from tffapps.errors import Rejected
from tffapps.fedstyle.encoder import image_bytes_checked

SIDE, QUALITY = 640, 85


def card_picture(contents: bytes, name: str) -> bytes:
    """A JPEG of at most SIDE pixels on a side; a UserError that names the file."""
    try:
        image = image_bytes_checked(contents)
    except Rejected as rejected:
        raise UserError(f"{name}: {rejected}") from None
    shrink = min(1.0, SIDE / max(image.shape[:2]))
    size = [max(1, round(side * shrink)) for side in image.shape[1::-1]]
    done, jpeg = cv2.imencode(
        ".jpg", cv2.resize(image, size, interpolation=cv2.INTER_AREA), [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
    )
    if not done:
        raise UserError(f"{name}: cannot be encoded")
    return bytes(np.asarray(jpeg).tobytes())
