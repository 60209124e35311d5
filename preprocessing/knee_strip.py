"""The pictures of all steps side by side, each under its name: the thesis's Table 4.3 for one image."""

from __future__ import annotations

import cv2
import numpy as np

_LINE = 20  # height of the line of names


def strip(pictures: dict[str, np.ndarray], height: int = 224) -> np.ndarray:
    """One grey picture, `height` and a line of names high."""
    columns = []
    for name, picture in pictures.items():
        width = max(1, round(picture.shape[1] * height / picture.shape[0]))
        smaller = picture.shape[0] > height
        scaled = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_NEAREST)
        label = np.zeros((_LINE, width), np.uint8)
        cv2.putText(label, name, (4, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255,), 1, cv2.LINE_AA)
        columns.append(np.vstack([label, scaled]))
    return np.hstack(columns)
