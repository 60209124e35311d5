"""How this application's networks see knees.

view          whole images           stored features
"plain"       as they are            of the image
"training"    one of the others      of the image, or of one of a few such views
"affine"      affine                 of one of a few affine views
"varied"      affine, weak or flip   of one of a few such views
"weak"        flip, light            of one of a few weak views
"strong"      more, and cutout       of one of a few strong views
"""

from preprocessing import augment
from tffapps import PLAIN, Common, CutSettings, Flags, Inputs, Network, cache_folder
from tffapps.inputs import Augmentation
from tffapps.plfl import FssflSettings, PlflNetwork, PlusSettings

AUGMENTATIONS: dict[str, Augmentation] = {
    "affine": augment.affine, "weak": augment.weak, "strong": augment.strong, "varied": augment.varied,
}  # fmt: skip
SHEARS: dict[str, dict[str, Augmentation]] = {"radians": {}, "degrees": {"affine": augment.affine_degrees}}


def network_of(name: str, flags: Flags) -> Network:
    """One of --models, as the flags describe it."""
    chosen = flags[PlflNetwork]
    common = flags[Common]
    return Network(
        name, chosen.size, chosen.channels, chosen.head, common.weights, flags[CutSettings], common.precision
    )


def inputs_of(
    network: Network, flags: Flags, classes: int, formats: tuple[str, ...], whole: bool = False, held_bytes: int = 0
) -> Inputs:
    """`whole`: images only, never features, which could be stored of images that are here alone."""
    trained, stored, views = flags[PlflNetwork].augment, flags[PlflNetwork].stored_views, flags[FssflSettings].views
    return Inputs(
        network,
        classes=classes,
        formats=formats,
        cache=cache_folder() / "features",
        augmentations=AUGMENTATIONS | SHEARS[flags[PlflNetwork].shear],
        training_view=PLAIN if trained == "none" else trained,
        store_training=bool(stored),
        views={
            "affine": flags[PlusSettings].plus_views,
            "weak": views,
            "strong": views,
            **({trained: stored} if stored else {}),
        },
        whole=whole,
        held_bytes=held_bytes,
    )
