"""Images that lie in the page as data URIs: small ones as they are, large ones scaled and as WebP."""

import base64
import dataclasses
import pathlib

from tffapps.report.sheet import Broken

MOST_PIXELS = 1600  # on a side, unless the other side is much smaller
SMALL = 50_000  # bytes; more than that is encoded again
_QUALITY = 86


@dataclasses.dataclass(frozen=True)
class Picture:
    uri: str
    width: int
    height: int

    @property
    def wide(self) -> bool:
        """Too much in it for half a column."""
        return self.width > 2.2 * self.height or (self.width > 1000 and self.width > 1.4 * self.height)


def picture(path: pathlib.Path) -> Picture:
    """Reads it wholly, so that what is in the page can be shown."""
    import cv2

    from preprocessing import image_bytes
    from preprocessing.errors import Rejected

    try:
        data = path.read_bytes()
    except OSError as error:
        raise Broken(f"cannot be read: {error.strerror}") from None
    whole = data.startswith(b"\x89PNG") and data.rstrip(b"\0").endswith(b"IEND\xaeB`\x82")
    try:
        image = image_bytes.decode(data, cv2.IMREAD_COLOR) if whole else None
    except Rejected as rejected:
        raise Broken(f"is not a whole PNG file: {rejected}") from None
    if image is None:
        raise Broken("is not a whole PNG file")
    height, width = image.shape[:2]
    kind = "png"
    if len(data) > SMALL:
        scale = min(1.0, MOST_PIXELS / width, 2 * MOST_PIXELS / height)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        scaled = image if scale == 1 else cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        encoded = cv2.imencode(".webp", scaled, [cv2.IMWRITE_WEBP_QUALITY, _QUALITY])[1].tobytes()
        if len(encoded) < len(data):
            kind, data, (width, height) = "webp", encoded, size
    return Picture(f"data:image/{kind};base64,{base64.b64encode(data).decode()}", width, height)
