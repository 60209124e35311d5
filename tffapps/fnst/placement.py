"""Where a client's part of the exchange is done: in this process, or at the site that has its images.

coordinator                                    sites with many of a class      sites with few of it
styles: which rows, how many ────────────────► Gram matrices
checks, passes on (`dispatch`) ◄───────────────┘
└── style transfer: Gram matrices, which rows ───────────────────────────────► checks, makes images
knows how many there are, and where the site's worker will find them ◄─────────┘
"""

import dataclasses
import hashlib
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import pandas as pd

from tffapps import Engine, Message, Pool, UserError, from_name, replacing
from tffapps.fnst import jobs
from tffapps.fnst.data import images_of
from tffapps.fnst.dispatch import Delivery, sent_file
from tffapps.fnst.styler import Styler
from tffapps.wire.jobs import made_path


@dataclasses.dataclass(frozen=True)
class Request:
    """The styles that clients are to hand in."""

    folder: pathlib.Path  # of the server, where their files are put
    classes: Mapping[str, Sequence[str]]  # of each client: those that it has many images of
    styles: int  # of a class
    seed: int


@dataclasses.dataclass(frozen=True)
class Synthesised:
    """The images that were made with deliveries."""

    paths: list[list[str]]  # one list for each delivery
    key: str  # changes with any image


class Placement(Protocol):
    """Where the images of a federation's clients are."""

    @property
    def styler(self) -> Styler:
        """The VGG that all clients and the server agree on."""

    def hand_in(self, federation: Pool, request: Request) -> None:
        """Writes files of Gram matrices for the server, of every client and class that the request names."""

    def synthesise(self, federation: Pool, deliveries: Sequence[Delivery]) -> Synthesised:
        """Gives the styles of every delivery to its receiver's images of that class."""


@dataclasses.dataclass(frozen=True)
class Here:
    """All clients' images are here."""

    styler: Styler

    def hand_in(self, federation: Pool, request: Request) -> None:
        for client, labels in request.classes.items():
            for label in labels:
                file = sent_file(request.folder, client, label)
                rows = images_of(federation, client, label)
                self.styler.measure(file, rows, label, request.styles, request.seed)

    def synthesise(self, federation: Pool, deliveries: Sequence[Delivery]) -> Synthesised:
        paths = []
        for delivery in deliveries:
            title = f"{from_name(delivery.receiver)}, {delivery.label}"
            contents = contents_of(federation, delivery)
            paths.append(self.styler.make(list(contents.path), self.styler.load(delivery.file), title))
        # Their names are hashes of all that each depends on.
        return Synthesised(paths, _digest(pathlib.Path(path).name for group in paths for path in group))


@dataclasses.dataclass(frozen=True)
class AtSites:
    """Every client is a site, which is asked (`jobs`). The styler here makes nothing, but knows the VGG."""

    styler: Styler
    engine: Engine

    def hand_in(self, federation: Pool, request: Request) -> None:
        messages = {
            site: jobs.styles_request(
                self.styler.grams, _rows(federation, site, labels), request.styles, request.seed
            )
            for site, labels in request.classes.items()
            if labels
        }  # fmt: skip
        for site, answer in self._ask(messages, "to measure styles").items():
            labels = request.classes[site]
            for label, content in zip(labels, jobs.files_in(answer, len(labels), f"site {site}")):
                with replacing(sent_file(request.folder, site, label), "wb") as out:
                    out.write(content)

    def synthesise(self, federation: Pool, deliveries: Sequence[Delivery]) -> Synthesised:
        by_site: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            by_site.setdefault(from_name(delivery.receiver), []).append(delivery)
        requests = {site: self._transfer_request(federation, site, group) for site, group in by_site.items()}
        answers = self._ask(requests, "to make images")
        counts = dict.fromkeys(requests, 0)
        paths = []
        for delivery in deliveries:
            site = from_name(delivery.receiver)
            start, count = counts[site], len(contents_of(federation, delivery)) * delivery.styles
            paths.append([made_path(requests[site].identity, start + number) for number in range(count)])
            counts[site] += count
        for site, answer in answers.items():
            made = answer.fields.get(jobs.MADE)
            if made != counts[site]:
                raise UserError(f"site {site} made {made!s:.20} images where {counts[site]} were asked for")
        return Synthesised(paths, _digest(request.identity for request in requests.values()))

    def _transfer_request(self, federation: Pool, site: str, deliveries: Sequence[Delivery]) -> Message:
        labels = dict.fromkeys(delivery.label for delivery in deliveries)
        files = [delivery.file.read_bytes() for delivery in deliveries]
        return jobs.transfer_request(
            self.styler.grams, self.styler.transfer, _rows(federation, site, labels), files
        )  # fmt: skip

    def _ask(self, requests: Mapping[str, Message], what: str) -> dict[str, Message]:
        if requests:
            print(f"asking {', '.join(requests)} {what}", file=sys.stderr)  # it may take long, and nothing is seen here
        return self.engine.ask(requests)


def placed(styler: Styler, engine: Engine) -> Placement:
    """Where the clients of an engine are."""
    if engine.sites:
        return AtSites(styler, engine)
    return Here(styler)


def contents_of(federation: Pool, delivery: Delivery) -> pd.DataFrame:
    """The images that are given the styles of a delivery."""
    return images_of(federation, from_name(delivery.receiver), delivery.label)


def _rows(federation: Pool, site: str, labels: Iterable[str]) -> list[int]:
    """The numbers of a site's images of these classes, one class after the other."""
    return pd.concat([images_of(federation, site, label)["row"] for label in labels]).tolist()


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
