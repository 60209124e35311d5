"""Pictures of any size through a network of one size: overlapping tiles, whose answers are blended.

    picture ─► strips of tiles ─► network ─► weighted sum ─► rows that no later tile reaches

Each tile's answer counts most in its middle and falls off towards its edges as a raised cosine, because there a network
sees least of what is around. The weights of all tiles add up to 1 at every pixel, so that what a network says of every
tile alike has no seams. Only one strip of a picture is in memory at a time, as pixels and as answers.
"""

from collections.abc import Callable, Iterator

import numpy as np

Predict = Callable[[np.ndarray], np.ndarray]  # (n, height, width, channels) → (n, height, width, classes)
_OVERLAP = 0.25  # of a tile's side


def predicted(image: np.ndarray, predict: Predict, tile: tuple[int, int], *, batch: int = 8) -> np.ndarray:
    """What a network says of a picture: float32 (height, width, classes). See `strips`."""
    return np.concatenate(list(strips(image, predict, tile, batch=batch)))


def strips(
    image: np.ndarray, predict: Predict, tile: tuple[int, int], *, batch: int = 8, overlap: float = _OVERLAP
) -> Iterator[np.ndarray]:
    """The answer for a picture in strips from the top: float32 (rows, width, classes), together its height.

    Args:
      image: (height, width, channels). Only slices of rows are taken of it, so it may be an array on a disk.
      predict: the network, for batches of tiles of one size.
      tile: that size, height and width. A smaller picture is mirrored up to it.
      batch: how many tiles it is given at once.
      overlap: of neighbouring tiles, at least, as a part of their side; from 0 to 1/2.
    """
    high, wide = image.shape[:2]
    if not high or not wide or image.ndim != 3:
        raise ValueError(f"picture {image.shape}: expected (height, width, channels), none of them 0")
    if not 0 <= overlap <= 0.5:
        raise ValueError(f"overlap {overlap}: expected 0 to 0.5")
    rows, columns = (_places(size, side, round(side * overlap)) for size, side in zip((high, wide), tile))
    row_weights, column_weights = (
        _weights(places, side, round(side * overlap)) for places, side in zip((rows, columns), tile)
    )
    pending: np.ndarray | None = None  # the sum so far, of the rows from `rows[number]` on
    for number, top in enumerate(rows):
        strip = _mirrored(image[top : top + tile[0]], tile[0], max(wide, tile[1]))
        answer = _across(strip, predict, tile[1], columns, column_weights, batch) * row_weights[number][:, None, None]
        if pending is not None:
            answer[: len(pending)] += pending
        until = rows[number + 1] - top if number + 1 < len(rows) else min(high - top, tile[0])
        # Copied: a view would keep the whole strip in memory.
        yield answer[:until, :wide].copy()
        pending = answer[until:]


def _across(
    strip: np.ndarray, predict: Predict, side: int, columns: list[int], weights: list[np.ndarray], batch: int
) -> np.ndarray:
    """The blended answers of one strip of tiles: float32 (height, width, classes)."""
    total: np.ndarray | None = None
    for first in range(0, len(columns), batch):
        lefts = columns[first : first + batch]
        answers = predict(np.stack([strip[:, left : left + side] for left in lefts]))
        if total is None:
            total = np.zeros((*strip.shape[:2], answers.shape[-1]), np.float32)
        for left, answer, weight in zip(lefts, answers, weights[first : first + batch]):
            total[:, left : left + side] += answer * weight[None, :, None]
    assert total is not None  # there is at least one tile
    return total


def _places(size: int, side: int, overlap: int) -> list[int]:
    """Where tiles begin along one side of a picture: as few as overlap enough, evenly, the last at the end."""
    if size <= side:
        return [0]
    count = -(-(size - overlap) // (side - overlap))
    return [round(number * (size - side) / (count - 1)) for number in range(count)]


def _weights(places: list[int], side: int, overlap: int) -> list[np.ndarray]:
    """What each tile counts at each of its pixels along one side; all tiles' weights at a pixel add up to 1."""
    ramp = np.sin(np.pi / 2 * (np.arange(overlap) + 0.5) / max(overlap, 1)) ** 2
    window = np.ones(side)
    window[:overlap] = ramp
    window[side - overlap :] *= ramp[::-1]
    total = np.zeros(places[-1] + side)
    for place in places:
        total[place : place + side] += window
    return [(window / total[place : place + side]).astype(np.float32) for place in places]


def _mirrored(image: np.ndarray, high: int, wide: int) -> np.ndarray:
    """Filled up to this size at the bottom and the right, by its mirror image as often as it takes."""
    down, right = high - image.shape[0], wide - image.shape[1]
    return np.pad(image, ((0, down), (0, right), (0, 0)), mode="symmetric") if down or right else image
