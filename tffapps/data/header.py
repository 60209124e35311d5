"""What the first bytes of an image file say."""

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")  # Pillow knows many more, of which some start other programs


def size(path: str) -> tuple[int, int] | None:
    """Width and height; None where Pillow cannot tell."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path, formats=_FORMATS) as image:
            return image.width, image.height
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError):
        return None
