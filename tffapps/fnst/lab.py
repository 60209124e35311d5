"""Gram matrices against who has suspects at hand, from size to size and defence to defence: `gram_lab.csv`.

Clients release styles of some of their images of a class; the attacker has suspected images and compares their Gram
matrices with each release. It names the nearest suspect: right, if that is the image, or one of the images, that the
release was made of. An interval is Wilson's over releases; "at chance" is said where it holds chance.

    entries a pixel    different entries of all Gram matrices, over the image's pixel values: above 1 there are more
                       equations than unknowns
    defences           fewer layers (the two first, the last two), means of several images, noise (`released`; the
                       attacker has what it is before it is made a possible Gram matrix)
    suspects           the very files, JPEGs of poor quality, turned by 90 degrees
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from preprocessing import gram
from preprocessing.style_settings import LAYERS
from tffapps import Pool
from tffapps.evaluation.intervals import wilson
from tffapps.fnst import AttackSettings
from tffapps.fnst.attack import QUALITY, gram_distances, jpeg
from tffapps.fnst.data import images_of
from tffapps.fnst.released import averaged, noised
from tffapps.fnst.styler import Styler

_SEED = 0
_TOP = 5


@dataclasses.dataclass(frozen=True)
class Defence:
    """What is done to a style before it is sent."""

    name: str
    layers: tuple[int, ...] = tuple(range(len(LAYERS)))
    of: int = 1  # images a style
    noise: float = 0.0


DEFENCES = (
    Defence("none"),
    Defence("first two layers", layers=(0, 1)),
    Defence("last two layers", layers=(3, 4)),
    Defence("mean of 2 images", of=2),
    Defence("mean of 5 images", of=5),
    Defence("noise 0.5", noise=0.5),
    Defence("noise 5", noise=5.0),
    Defence("noise 50", noise=50.0),
)


def lab(stylers: Sequence[Styler], federation: Pool, settings: AttackSettings) -> pd.DataFrame:
    """A row for each size, defence and kind of suspects.

    Args:
      stylers: one for each size.
      federation: whose first client's largest class is attacked.
      settings: how many images styles are measured of, and how many suspects there are.
    """
    client = federation.clients[0]
    label = str(federation.part("train", client).label.value_counts().index[0])
    paths = images_of(federation, client, label).path
    order = np.random.default_rng(_SEED).permutation(len(paths))[: settings.attack_suspects]
    rows = []
    for styler in stylers:
        images = styler.read(paths.iloc[order])
        taps = gram.taps(styler.encoder)
        true = gram.grams(taps, images)
        suspects = {
            "the very files": true,
            f"JPEGs of quality {QUALITY}": gram.grams(taps, np.stack([jpeg(image) for image in images])),
            "turned by 90 degrees": gram.grams(taps, np.rot90(images, axes=(1, 2)).copy()),
        }
        count = min(settings.attack_images, len(images))
        sets = {of: _sets(len(images), count, of) for of in {defence.of for defence in DEFENCES}}
        known = {
            "size": images.shape[1], "width": styler.grams.vgg_width, "images": len(images), "client": client,
            "label": label, "vgg": styler.weights,
        }  # fmt: skip
        for defence in DEFENCES:
            members = sets[defence.of]
            released = _released(true, members, defence)
            entries = sum(true[layer].shape[1] * (true[layer].shape[1] + 1) // 2 for layer in defence.layers)
            of_defence = {"defence": defence.name, "entries_a_pixel": entries / images[0].size, **known}
            for name, theirs in suspects.items():
                theirs = [theirs[layer] for layer in defence.layers]
                distances = gram_distances([released[layer] for layer in defence.layers], theirs)
                rows.append({"suspects": name, **of_defence, **scores(distances, members)})
    return pd.DataFrame(rows)


def _sets(images: int, count: int, of: int) -> np.ndarray:
    """(count, of): which images each release is made of; a single one each, or so many drawn anew."""
    if of == 1:
        return np.arange(count)[:, None]
    generator = np.random.default_rng([_SEED, of])
    return np.stack([generator.permutation(images)[:of] for _ in range(count)])


def _released(matrices: list[np.ndarray], members: np.ndarray, defence: Defence) -> list[np.ndarray]:
    found = averaged([matrix[members.ravel()] for matrix in matrices], defence.of)
    return noised(found, defence.noise, np.random.default_rng(_SEED)) if defence.noise else found


def scores(distances: np.ndarray, members: np.ndarray) -> dict[str, Any]:
    """Of distances (releases, suspects), and which suspects each release was made of (releases, of)."""
    (total, images), of = distances.shape, members.shape[1]
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :_TOP]
    right = (nearest[:, :, None] == members[:, None, :]).any(axis=2)
    first, top = int(right[:, 0].sum()), int(right.any(axis=1).sum())
    chance = of / images
    in_top = 1 - np.prod([(images - of - k) / (images - k) for k in range(min(_TOP, images))])
    low, high = wilson(first, total)
    low_top, high_top = wilson(top, total)
    return {
        "releases": total, "first": first / total, "first_low": low, "first_high": high, "chance_first": chance,
        "first_five": top / total, "first_five_low": low_top, "first_five_high": high_top,
        "chance_first_five": float(in_top), "at_chance": "yes" if low <= chance <= high else "no",
    }  # fmt: skip
