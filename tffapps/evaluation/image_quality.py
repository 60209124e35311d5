"""How far images are from the images they should look like: structure (SSIM) and colour."""

import numpy as np
from skimage.metrics import structural_similarity

WINDOW = 7  # pixels on a side, the usual one
LEVELS = 256


def ssim(originals: np.ndarray, images: np.ndarray) -> np.ndarray:
    """The structural similarity of each image to its original, uint8 (n, height, width, 3) both; 1 for equal ones.

    Where an image is smaller than the window, the window is the largest odd one that fits.
    """
    _check(originals)
    _check(images)
    if originals.shape != images.shape:
        raise ValueError(f"originals {originals.shape} and images {images.shape}: expected one image for each original")
    side = min(images.shape[1:3])
    if side < 3:
        raise ValueError(f"images {images.shape}: at least 3 pixels on a side are needed")
    window = min(WINDOW, side - 1 + side % 2)
    pairs = zip(originals, images)
    values = [structural_similarity(*pair, win_size=window, channel_axis=-1, data_range=255) for pair in pairs]
    return np.array(values, np.float64)


class ColourHistogram:
    """How often each intensity of each channel occurs in a set of images, added batch by batch."""

    def __init__(self) -> None:
        self.counts = np.zeros((3, LEVELS), np.int64)

    def add(self, images: np.ndarray) -> None:
        """Counts the pixels of uint8 images (n, height, width, 3)."""
        _check(images)
        for channel, counts in enumerate(self.counts):
            counts += np.bincount(images[..., channel].ravel(), minlength=LEVELS)


def colour_distance(a: ColourHistogram, b: ColourHistogram) -> float:
    """The Wasserstein-1 distance of two sets' intensities on [0,1], mean over the channels.

    In one dimension that is the area between the two cumulative histograms.
    """
    if not (a.counts.any() and b.counts.any()):
        raise ValueError("a colour distance needs at least one image on each side")
    shares = [np.cumsum(one.counts, axis=1) / one.counts.sum(axis=1, keepdims=True) for one in (a, b)]
    return float(np.abs(shares[0] - shares[1]).sum(axis=1).mean() / (LEVELS - 1))


def _check(images: np.ndarray) -> None:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3:
        raise ValueError(f"images {images.dtype} {images.shape}: expected uint8 (n, height, width, 3)")
