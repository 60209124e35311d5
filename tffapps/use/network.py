"""The network of a bundle, as its description says: checked, built, given its weights.

classifier   models.assembled: a base that was frozen, which many bundles may share, and what was trained on it
unet         models.unet: pixels in classes
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from models.names import HEADS, NAMES, NORMS, cuts_of
from tffapps.use.fields import Fields

if TYPE_CHECKING:
    import tensorflow as tf

CLASSIFIER, UNET = "classifier", "unet"
MOST_PIXELS, MOST_WIDTH, MOST_DEPTH = 4096, 1024, 7
_SHRINKS, _FILTERS, _DENSE = 32, 32, 256  # of what a head "flatten256" stands on: no network here has less


@dataclasses.dataclass(frozen=True)
class Parts:
    """A network in two; they share its layers."""

    whole: tf.keras.Model
    base: tf.keras.Model | None  # what was frozen; None where nothing was
    trained: tf.keras.Model

    def located(self) -> tf.keras.Model:
        """Of a classifier: image → (where it lies among others, probabilities).

        That is the mean over the feature map that crosses the cut, which no training has narrowed down to the classes;
        where nothing was frozen, the embedding.
        """
        import tensorflow as tf

        from models.embedding import embedding_of

        vector = pooled(self.base.output) if self.base is not None else embedding_of(self.whole).output
        return tf.keras.Model(self.whole.input, [vector, self.whole.output])

    def halves(self) -> Iterable[tuple[str, tf.keras.Model]]:
        return [*([("base", self.base)] if self.base is not None else []), ("trained", self.trained)]


@dataclasses.dataclass(frozen=True)
class Description:
    """What builds a network again."""

    kind: str  # CLASSIFIER or UNET
    values: dict[str, Any]  # model, head, cut, norm; or width, depth
    shape: tuple[int, int, int]  # of images: height, width, channels
    classes: int

    @classmethod
    def read(cls, network: Fields, images: Fields, classes: int) -> Description:
        """From what a bundle says of its network and of images; a UserError where that cannot be."""
        sides = tuple(images.whole(side, 1, MOST_PIXELS) for side in ("height", "width"))
        channels = images.whole("channels", 1, 3)
        if channels == 2:
            images.refuse("channels", "1 or 3")
        kind = network.text("kind", (CLASSIFIER, UNET))
        values: dict[str, Any]
        if kind == UNET:
            values = {"width": network.whole("width", 1, MOST_WIDTH), "depth": network.whole("depth", 1, MOST_DEPTH)}
        else:
            model = network.text("model", NAMES)
            values = {
                "model": model, "head": network.text("head", HEADS), "cut": network.text("cut", cuts_of(model)),
                "norm": network.text("norm", NORMS),
            }  # fmt: skip
        return cls(kind, values, (sides[0], sides[1], channels), classes)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.values}

    @property
    def least_parameters(self) -> int:
        """A network as described has at least so many: files with fewer are another's, and it is not even built."""
        if self.kind == UNET:
            return 9 * (self.values["width"] * 2 ** self.values["depth"]) ** 2
        if self.values["head"] == "flatten256":
            return max(1, self.shape[0] // _SHRINKS) * max(1, self.shape[1] // _SHRINKS) * _FILTERS * _DENSE
        return 1

    def build(self) -> Parts:
        """With initial weights. A ValueError for what no network is like, such as images too small for it."""
        if self.kind == UNET:
            from models import unet

            model = unet.build(input_shape=self.shape, classes=self.classes, **self.values)
            return Parts(model, None, model)
        from models.assembled import assemble

        chosen = {name: value for name, value in self.values.items() if name != "model"}
        assembled = assemble(self.values["model"], input_shape=self.shape, classes=self.classes, **chosen)
        return Parts(assembled.whole, assembled.base, assembled.above)


def pooled(features: Any) -> Any:
    """(n, c) of a feature map (n, height, width, c), or of vectors."""
    import tensorflow as tf

    return tf.reduce_mean(features, axis=[1, 2]) if features.shape.rank == 4 else features


def names_of(count: int) -> Sequence[str]:
    """What arrays of weights are called in a file, in their order."""
    return [f"w{number}" for number in range(count)]
