"""How a knee X-ray is prepared, and how a picture that is no use is told. Needs no OpenCV."""

from __future__ import annotations

import dataclasses

from preprocessing.errors import Rejected

CONTRASTS = ("clahe", "equalize")


class KneeRejected(Rejected):
    """Not a knee that can be used."""


@dataclasses.dataclass(frozen=True)
class KneeSettings:
    """One value per step of the thesis's Table 4.3, which gives none: all values are our choice.

    Lengths are pixels of a 224-pixel frame (the data set's) and grow with the image. The limits were chosen by
    looking at 1074 images of the data set; what was measured on those is given with each.
    """

    turn_negatives: bool = True  # a few X-rays come with dark bone on a bright ground; make their bone bright
    negative_margin: int = 10  # a negative's sides are brighter than its middle by this many grey levels
    blur: int = 5  # side of the Gaussian kernel that takes off noise
    block: int = 151  # adaptive threshold: side of the neighbourhood a pixel is compared with
    constant: int = 0  # adaptive threshold: how far below its neighbourhood's mean a pixel may lie
    close_width: int = 9  # closing: bridges cracks in the bone's edge; 0 leaves closing out
    close_height: int = 31  # closing: tall enough to bridge the joint space between femur and tibia
    convex: bool = True  # fill the largest contour's convex hull; False fills the contour itself
    contrast: str = "clahe"  # "clahe", or "equalize" as in the thesis's table
    clahe_clip: float = 2.0  # CLAHE: how far a grey level may be over-represented; higher is harsher
    clahe_tiles: int = 8  # CLAHE: the frame is cut into this many tiles each way
    min_side: int = 32  # real pixels: smaller images show no joint space
    dark_level: int = 25  # a pixel below this grey level is dark
    max_dark: float = 0.75  # share of dark pixels above which a picture is all dark; measured: at most 0.29
    min_cover: float = 0.5  # share of the frame the mask must cover; measured: at least 0.71
    max_gap: float = 0.15  # mask touches one side, this share of the frame free opposite; measured: at most 0.11

    def __post_init__(self) -> None:
        if self.contrast not in CONTRASTS:
            raise ValueError(f"contrast is {self.contrast!r}; choose one of {', '.join(CONTRASTS)}")
        for name in ("blur", "block", "clahe_clip", "clahe_tiles", "min_side"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        for name in ("close_width", "close_height"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        for name in ("max_dark", "min_cover", "max_gap"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is a share, between 0 and 1")
