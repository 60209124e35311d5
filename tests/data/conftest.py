import io

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def rgb():
    return np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


@pytest.fixture(scope="session")
def encode():
    """An array or PIL image as the bytes of a file."""

    def encode(image, kind="PNG", **options):
        stream = io.BytesIO()
        (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(stream, kind, **options)
        return stream.getvalue()

    return encode


@pytest.fixture
def numbered(tmp_path, encode):
    """Eleven grey images whose every pixel is their number, in order."""
    paths = [str(tmp_path / f"{number}.png") for number in range(11)]
    for number, path in enumerate(paths):
        with open(path, "wb") as file:
            file.write(encode(np.full((4, 6), number, np.uint8)))
    return paths


def put(root, *names):
    """Empty files, and the folders they are in."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root
