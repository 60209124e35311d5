"""How this application's networks see knees.

view          whole images           stored features
"plain"       as they are            of the image
"training"    affine (or plain)      of the image
"affine"      affine                 of one of a few affine views
"weak"        flip, light            of one of a few weak views
"strong"      more, and cutout       of one of a few strong views
"""

from __future__ import annotations

from preprocessing import augment
from tffapps.inputs import PLAIN, Augmentation, Inputs, Network
from tffapps.plfl import Settings
from tffapps.plfl.data import CACHE

AUGMENTATIONS: dict[str, Augmentation] = {"affine": augment.affine, "weak": augment.weak, "strong": augment.strong}


def inputs_of(
    name: str, settings: Settings, classes: int, weights: str, formats: tuple[str, ...], whole: bool = False
) -> Inputs:
    """`whole`: images only, never features, which could be stored of images that are here alone."""
    return Inputs(
        Network(name, settings.size, settings.channels, settings.head, settings.freeze, weights),
        classes=classes,
        formats=formats,
        cache=CACHE / "features",
        augmentations=AUGMENTATIONS,
        training_view=PLAIN if settings.augment == "none" else settings.augment,
        views={"affine": settings.plus_views, "weak": settings.views, "strong": settings.views},
        whole=whole,
    )
