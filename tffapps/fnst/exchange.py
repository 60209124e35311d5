"""Before the federation: clients measure styles, the server passes them on, clients make images with them.

    client with many of a class           server                     client with few of it
    S images ── VGG-19 ── Gram matrices ──► checks, passes on ──► checks ── with its C images ── style transfer
                                                                             └► S · C images of the class, kept on disk

No image leaves a client, made or real. Gram matrices are files, as they would be between hospitals. What a client does
is in `styler`, where it does it in `placement`.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import pandas as pd

from preprocessing import style_transfer
from tffapps import Pool, UserError, as_name, cache_folder, from_name, key_of
from tffapps.fnst import Augmentation
from tffapps.fnst.data import images_of
from tffapps.fnst.dispatch import Delivery, dispatch
from tffapps.fnst.placement import Placement, Request, contents_of


@dataclasses.dataclass(frozen=True)
class Made:
    """The images that the clients made for themselves."""

    table: pd.DataFrame  # path, label, client, content (path), sender and style (row in its file)
    deliveries: list[Delivery]
    key: str  # changes with any image made


@dataclasses.dataclass(frozen=True)
class Exchange:
    """Of styles between the clients of a federation, wherever they are."""

    placement: Placement

    def make(self, federation: Pool, augmentation: Augmentation, seed: int, *, other_class: bool = False) -> Made:
        """What every client adds to its training images.

        Args:
          federation: the clients.
          augmentation: how many styles and contents.
          seed: decides which images styles are measured of.
          other_class: as a control, contents are given the styles of another class than their own.
        """
        styler = self.placement.styler
        few, many = rare_and_rich(federation, augmentation)
        folder = self._folder(federation, augmentation, seed)
        self.placement.hand_in(federation, Request(folder, many, augmentation.styles, seed))
        wanted = {as_name(client): labels for client, labels in few.items()}
        deliveries = dispatch(folder, wanted, styler.grams.vgg_width, styler.sha256)
        if not deliveries:
            raise UserError(
                f"--augmentations {augmentation.name}: no class has more than {augmentation.contents} images at one "
                f"client and 1 to {augmentation.contents} at another; choose other numbers"
            )
        if other_class:
            deliveries = mismatched(deliveries)
        images = self.placement.synthesise(federation, deliveries)
        tables = [
            _table(delivery, contents_of(federation, delivery), paths)
            for delivery, paths in zip(deliveries, images.paths)
        ]
        return Made(pd.concat(tables, ignore_index=True), deliveries, images.key)

    def _folder(self, federation: Pool, augmentation: Augmentation, seed: int) -> pathlib.Path:
        styler = self.placement.styler
        chosen = [styler.grams.style_images, styler.grams.style_size, styler.sha256, augmentation.name, seed]
        chosen += ["means"] if styler.in_one_pass else []
        chosen += [styler.grams.gram_average, styler.grams.gram_noise] if styler.protects else []
        return cache_folder() / "grams" / key_of({"layout": 2, "chosen": chosen, "images": federation.key})


def rare_and_rich(federation: Pool, augmentation: Augmentation) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """For every client the classes that it has at most C images of, and those that it has more of."""
    few: dict[str, list[str]] = {}
    many: dict[str, list[str]] = {}
    for client in federation.clients:
        counts = federation.part("train", client).label.value_counts().sort_index()
        few[client] = [str(label) for label, count in counts.items() if count <= augmentation.contents]
        many[client] = [str(label) for label, count in counts.items() if count > augmentation.contents]
    return few, many


def mismatched(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """The same files, each for the next of its receiver's rare classes: as many images, in styles of other classes."""
    found = []
    for delivery in deliveries:
        labels = sorted({other.label for other in deliveries if other.receiver == delivery.receiver})
        following = labels[(labels.index(delivery.label) + 1) % len(labels)]
        found.append(delivery._replace(label=following))
    return found


def repeated(federation: Pool, augmentation: Augmentation) -> pd.DataFrame:
    """The control: the rare images again, each as many times as it would be given a style."""
    few, many = rare_and_rich(federation, augmentation)
    again = [federation.table[:0]]
    for client, labels in few.items():
        for label in labels:
            counts = [len(images_of(federation, other, label)) for other in many if label in many[other]]
            times = sum(min(count, augmentation.styles) for count in counts)
            again += [images_of(federation, client, label)] * times
    return pd.concat(again, ignore_index=True)


def _table(delivery: Delivery, contents: pd.DataFrame, paths: Sequence[str]) -> pd.DataFrame:
    pairs = style_transfer.all_pairs(len(contents), delivery.styles)
    return pd.DataFrame(
        {
            "path": paths, "label": delivery.label, "client": from_name(delivery.receiver),
            "content": contents.path.to_numpy()[pairs[:, 0]], "sender": from_name(delivery.sender),
            "style": pairs[:, 1],
        }
    )  # fmt: skip
