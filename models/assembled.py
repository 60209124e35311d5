"""A classifier as it is trained: built, cut, normalised; and given its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from models import classifiers, own, weights
from models.cut import below, headed, normalised, split
from models.initialise import seed_weights
from models.names import ALL, FLOAT32, HEAD, check_cut, check_precision, is_own, stands_on_cut
from models.precision import converted, made_in, precision_of


@dataclasses.dataclass(frozen=True)
class Assembled:
    """All of these share layers."""

    name: str
    published: tf.keras.Model  # the whole network under a head: what files of weights are for
    whole: tf.keras.Model  # image → probabilities: what is frozen and what is trained
    base: tf.keras.Model | None  # image → what crosses the cut; None where there is no cut
    above: tf.keras.Model  # that → probabilities: what is trained
    new_head: tf.keras.Model | None = None  # with BatchNorm as it was; a head on a cut, which no file of weights has

    def load(self, source: str, seed: int) -> weights.WeightsUsed:
        """Gives it weights: "imagenet", "random" or a file's; what these do not cover is of the seed."""
        used = weights.load(self.published, self.name, source, seed=seed)
        if self.new_head is not None:
            seed_weights(self.new_head, seed)
        return used


def assemble(
    name: str,
    *,
    input_shape: Sequence[int],
    classes: int,
    head: str,
    cut: str = ALL,
    norm: str = "batch",
    may_be_own: bool = False,
    precision: str = FLOAT32,
) -> Assembled:
    """Arguments as `models.names` has them. "conv" stands on the cut, and what is above it in the network is left out;
    other heads stand on the network's end, and what is above the cut is trained with them.

    `may_be_own`: the name comes from the user's own command line, so that it may also be that of a function of theirs
    (`models.own`), which is run. Such a network has its own head and its own cuts.

    `precision` is what is trained computes in (`models.precision`); what is frozen stays float32.
    """
    check_precision(precision)
    if may_be_own and is_own(name):
        if precision != FLOAT32:
            raise ValueError(f"{name}: a network of your own computes in {FLOAT32}; leave out --precision {precision}")
        published = own.build(name, input_shape=input_shape, classes=classes)
        own.check_cut(published, name, cut)
        whole = normalised(published, cut, norm)
        return Assembled(name, published, whole, *split(whole, cut))
    check_cut(name, cut)
    on_cut = stands_on_cut(head, cut)
    published = classifiers.build(name, input_shape=input_shape, classes=classes, head="gap" if on_cut else head)
    published = converted(published, precision, below(published, cut))
    with made_in(precision):
        whole = headed(published, cut, head) if on_cut else published
        place = HEAD if on_cut else cut
        new_head = split(whole, HEAD)[1] if on_cut else None
        whole = normalised(whole, place, norm)
        base, above = split(whole, place)
    if precision_of(above) != precision:
        raise ValueError(
            f"--precision {precision}: what is trained above the cut {cut} computes in {FLOAT32} anyway; leave it out,"
            " or train more of the network (--train-from)"
        )
    return Assembled(name, published, whole, base, above, new_head)
