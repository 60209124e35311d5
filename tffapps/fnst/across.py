"""The exchange between sites: what clients do is asked of them (`jobs`), the server's part is done here.

coordinator                                    sites with many of a class      sites with few of it
styles: which rows, how many ────────────────► Gram matrices
checks, passes on (`dispatch`) ◄───────────────┘
└── style transfer: Gram matrices, which rows ───────────────────────────────► checks, makes images
knows how many there are, and where the site's worker will find them ◄─────────┘
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping, Sequence

import pandas as pd

from tffapps.data import published
from tffapps.engine import Engine
from tffapps.errors import UserError
from tffapps.files import from_name, replacing
from tffapps.fnst import jobs
from tffapps.fnst.data import Sites
from tffapps.fnst.dispatch import Delivery, sent_file
from tffapps.fnst.exchange import Exchange, contents_of, digest
from tffapps.fnst.styler import Styler
from tffapps.wire.jobs import made_path
from tffapps.wire.messages import Message


class AcrossSites(Exchange):
    """`styler` is the coordinator's: it makes nothing, but knows the VGG that all must have."""

    def __init__(self, styler: Styler, engine: Engine) -> None:
        super().__init__(styler)
        self._engine = engine

    def hand_in(
        self, folder: pathlib.Path, sites: Sites, many: Mapping[str, Sequence[str]], styles: int, seed: int
    ) -> None:
        requests = {}
        for site, labels in many.items():
            if labels:
                places = pd.concat([sites.of(site, label).place for label in labels])
                requests[site] = jobs.styles_request(self.styler.flags, places.tolist(), styles, seed)
        for site, answer in self._ask(requests, "to measure styles").items():
            contents = jobs.files_in(answer, len(many[site]), f"site {site}")
            for label, content in zip(many[site], contents):
                with replacing(sent_file(folder, site, label), "wb") as out:
                    out.write(content)

    def synthesise(self, sites: Sites, deliveries: Sequence[Delivery]) -> tuple[list[list[str]], str]:
        by_site: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            by_site.setdefault(from_name(delivery.receiver), []).append(delivery)
        requests = {site: self._transfer_request(sites, own) for site, own in by_site.items()}
        answers = self._ask(requests, "to make images")
        made = dict.fromkeys(requests, 0)
        paths = []
        for delivery in deliveries:
            site = from_name(delivery.receiver)
            count = len(contents_of(sites, delivery)) * delivery.styles
            numbers = range(made[site], made[site] + count)
            paths.append([made_path(requests[site].identity, number) for number in numbers])
            made[site] += count
        for site, answer in answers.items():
            if answer.fields.get(jobs.MADE) != made[site]:
                raise UserError(
                    f"site {site} made {answer.fields.get(jobs.MADE)!s:.20} images where {made[site]} were asked for"
                )
        return paths, digest(request.identity for request in requests.values())

    def images(self, sites: Sites) -> str:
        return published.fingerprint(self._engine.sites)

    def _transfer_request(self, sites: Sites, deliveries: Sequence[Delivery]) -> Message:
        labels = dict.fromkeys(delivery.label for delivery in deliveries)
        site = from_name(deliveries[0].receiver)
        places = pd.concat([sites.of(site, label).place for label in labels])
        files = [delivery.file.read_bytes() for delivery in deliveries]
        return jobs.transfer_request(self.styler.flags, places.tolist(), files)

    def _ask(self, requests: Mapping[str, Message], what: str) -> dict[str, Message]:
        if requests:
            print(f"asking {', '.join(requests)} {what}", file=sys.stderr)  # it may take long, and nothing is seen here
        return self._engine.ask(requests)
