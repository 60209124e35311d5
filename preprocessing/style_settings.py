"""Which layers of VGG-19 tell style and content, and how an image is given another style. Needs no NumPy."""

from __future__ import annotations

import dataclasses

LAYERS = ("relu1_1", "relu2_1", "relu3_1", "relu4_1", "relu5_1")  # of style: Keras's block1_conv1 … block5_conv1
CONTENT_LAYER = "relu4_2"  # Keras's block4_conv2, which includes the ReLU
MIN_SIDE = 16  # of an image: smaller ones do not reach the last of LAYERS
INITS = ("noise", "content")
OPTIMIZERS = ("adam", "lbfgs")
PRECISIONS = ("float32", "bfloat16")  # that VGG-19 computes in
CONTENTS = ("mean", "sum")
STYLE_PARTS = ("whole", "stain", "texture")  # of a style: all, its colours alone, all but its colours
TRANSFERS = ("optimise", "adain", "whiten")  # `style_transfer`, and in one pass `style_moments`


@dataclasses.dataclass(frozen=True)
class StyleSettings:
    """The weights are the paper's (given with Eq. 1); it does not give the rest, which is our choice.

    Eq. 2 is a sum over all activations, some 400,000 for 224 × 224 pixels: times 1000 it outweighs 0.01 of any style.
    Those two weights are known from TensorFlow's example of 2018, where content is a mean; so it is here.
    """

    content_weight: float = 1000.0  # α of Eq. 1
    style_weight: float = 0.01  # β of Eq. 1
    content: str = "mean"  # what α weighs: "sum" is Eq. 2 as printed, "mean" that divided by the number of activations
    steps: int = 500  # of the optimiser
    learning_rate: float = 0.02  # of Adam, in shares of the range of pixels; see FROM_CONTENT
    init: str = "noise"  # where it starts: "noise" (the paper: uniform, white) or the "content" image
    optimizer: str = "adam"  # "adam" or "lbfgs" (Gatys et al.; see `box_lbfgs`)
    seed: int = 0  # of the noise
    precision: str = "float32"  # of VGG-19; losses, Gram matrices and steps are float32 always

    def __post_init__(self) -> None:
        chosen = {"content": CONTENTS, "init": INITS, "optimizer": OPTIMIZERS, "precision": PRECISIONS}
        for name, choices in chosen.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(choices)}")
        for name in ("steps", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        for name in ("content_weight", "style_weight", "seed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or more")


# Activations of random filters are near 1, those of ImageNet's near 100. Content grows with their square, style with
# the fourth power: under the paper's weights random filters see next to no style. From the content image, on drawn
# textures of 32 × 32 pixels, 200 steps of Adam took 8 to 19 % off the style loss; with these, 95 to 97 %.
RANDOM_WEIGHTS = {"content_weight": 1.0, "style_weight": 10.0}
# An image that is nearly right already needs smaller steps: with those for noise, Adam leaves noise where VGG-19 does
# not look. On drawn tissue of 48 × 48 pixels, 40 steps, width 16: Laplacians of 55 grey levels, with these of 33 (the
# images' own: 22), and no more style left.
FROM_CONTENT = {"learning_rate": 0.005}


def settings_for(weights: str, **changes: object) -> StyleSettings:
    """The defaults for a VGG of these weights (`WeightsUsed.kind`) and the `init` given, some of them changed."""
    by_weights = RANDOM_WEIGHTS if weights == "random" else {}
    by_init = FROM_CONTENT if changes.get("init") == "content" else {}
    return StyleSettings(**{**by_weights, **by_init, **changes})  # type: ignore[arg-type]
