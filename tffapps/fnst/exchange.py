"""Before the federation: clients measure styles, the server passes them on, clients make images with them.

    client with many of a class           server                     client with few of it
    S images ── VGG-19 ── Gram matrices ──► checks, passes on ──► checks ── with its C images ── style transfer
                                                                             └► S · C images of the class, kept on disk

No image leaves a client, made or real. Gram matrices are files, as they would be between hospitals. What a client does
is in `styler`; here all clients are in this process, in `across` they are sites.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from preprocessing import style_transfer
from tffapps.errors import UserError
from tffapps.files import as_name, from_name
from tffapps.fnst import Augmentation
from tffapps.fnst.data import CACHE, Sites
from tffapps.fnst.dispatch import Delivery, dispatch, sent_file
from tffapps.fnst.styler import Styler
from tffapps.runs import key_of


@dataclasses.dataclass(frozen=True)
class Made:
    """The images that the clients made for themselves."""

    table: pd.DataFrame  # path, label, client, content (path), sender and style (row in its file)
    deliveries: list[Delivery]
    key: str  # changes with any image made


class Exchange:
    """Between clients whose images are all here."""

    def __init__(self, styler: Styler) -> None:
        self.styler = styler

    def make(self, sites: Sites, augmentation: Augmentation, seed: int) -> Made:
        """What every client adds to its training images."""
        few, many = rare_and_rich(sites, augmentation)
        folder = self._folder(sites, augmentation, seed)
        self.hand_in(folder, sites, many, augmentation.styles, seed)
        wanted = {as_name(name): labels for name, labels in few.items()}
        deliveries = dispatch(folder, wanted, self.styler.flags.vgg_width, self.styler.sha256)
        if not deliveries:
            raise UserError(
                f"--augmentations {augmentation.name}: no class has more than {augmentation.contents} images at one "
                f"client and 1 to {augmentation.contents} at another; choose other numbers"
            )
        paths, key = self.synthesise(sites, deliveries)
        tables = [_table(delivery, contents_of(sites, delivery), own) for delivery, own in zip(deliveries, paths)]
        return Made(pd.concat(tables, ignore_index=True), deliveries, key)

    def hand_in(
        self, folder: pathlib.Path, sites: Sites, many: Mapping[str, Sequence[str]], styles: int, seed: int
    ) -> None:
        """Files for the server, of every client and class that it has many images of."""
        for client, labels in many.items():
            for label in labels:
                file = sent_file(folder, client, label)
                self.styler.measure(file, sites.of(client, label), label, styles, seed)

    def synthesise(self, sites: Sites, deliveries: Sequence[Delivery]) -> tuple[list[list[str]], str]:
        """The paths of the images made with each delivery, and a key that changes with any of them."""
        paths = []
        for delivery in deliveries:
            title = f"{from_name(delivery.receiver)}, {delivery.label}"
            contents = contents_of(sites, delivery)
            paths.append(self.styler.make(list(contents.path), self.styler.load(delivery.file), title))
        # Their names are hashes of all that each depends on.
        return paths, digest(pathlib.Path(path).name for own in paths for path in own)

    def _folder(self, sites: Sites, augmentation: Augmentation, seed: int) -> pathlib.Path:
        flags = self.styler.flags
        chosen = [flags.select, flags.style_size, self.styler.sha256, augmentation.name, seed]
        return CACHE / "grams" / key_of({"layout": 2, "chosen": chosen, "images": self.images(sites)})

    def images(self, sites: Sites) -> str:
        """Tells apart the images that clients may have."""
        return hashlib.sha256("\n".join(sites.train.path + sites.train.client).encode()).hexdigest()


def rare_and_rich(sites: Sites, augmentation: Augmentation) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """For every client the classes that it has at most C images of, and those that it has more of."""
    few: dict[str, list[str]] = {}
    many: dict[str, list[str]] = {}
    for client in sites.clients:
        counts = sites.of(client).label.value_counts().sort_index()
        few[client] = [str(label) for label, count in counts.items() if count <= augmentation.contents]
        many[client] = [str(label) for label, count in counts.items() if count > augmentation.contents]
    return few, many


def digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def contents_of(sites: Sites, delivery: Delivery) -> pd.DataFrame:
    """The rows that are given the styles of a delivery."""
    return sites.of(from_name(delivery.receiver), delivery.label)


def _table(delivery: Delivery, contents: pd.DataFrame, paths: Sequence[str]) -> pd.DataFrame:
    pairs = style_transfer.all_pairs(len(contents), delivery.styles)
    return pd.DataFrame(
        {
            "path": paths, "label": delivery.label, "client": from_name(delivery.receiver),
            "content": contents.path.to_numpy()[pairs[:, 0]], "sender": from_name(delivery.sender),
            "style": pairs[:, 1],
        }
    )  # fmt: skip
