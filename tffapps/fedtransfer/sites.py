"""The clients of FedTransfer when they are sites: what the coordinator asks them for and makes of their answers.

It holds generators on their way and counts; tiles, labels and painted images are paths that mean something at the site.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps.data import published
from tffapps.data.manifest import SPLITS, natural_key
from tffapps.data.micrograph_labels import Coding
from tffapps.engine import Engine
from tffapps.errors import UserError
from tffapps.fedtransfer import METRICS
from tffapps.fedtransfer.data import CACHE, Pool, check_clients, one_size
from tffapps.fedtransfer.dispatch import Delivery
from tffapps.fedtransfer.jobs import MASK
from tffapps.fedtransfer.request import GENERATOR, NETWORK, TILING, TRAINING, write
from tffapps.files import as_name, from_name, replacing
from tffapps.runs import key_of
from tffapps.wire.jobs import made_path
from tffapps.wire.messages import Message, understood


class Sites:
    def __init__(self, engine: Engine, values: Mapping[str, Any]) -> None:
        self._engine, self._values = engine, values
        self.names = sorted(engine.sites, key=natural_key)  # as folders of clients are on one machine
        check_clients(self.names, "--engine", "give the addresses of the others")
        self._published = {name: engine.sites[name] for name in self.names}
        for name, description in self._published.items():
            images = sum(sum(counts.values()) for counts in description["images"].values())
            if description["masks"] != images:
                raise UserError(
                    f"--engine: site {name} has labels for {description['masks']} of its {images} images; "
                    "it must serve <client>/images/* and <client>/labels/*, or a manifest with masks"
                )

    def pools(self) -> list[Pool]:
        """As `data.load` has them, with paths at the sites."""
        request = write("tiles", self._values, TILING)
        answers = self._engine.ask({name: request for name in self.names})
        with understood("tiles"):
            return self._pools(request.identity, answers)

    def _pools(self, identity: str, answers: Mapping[str, Message]) -> list[Pool]:
        sizes: dict[tuple[int, int], str] = {}
        for name, answer in answers.items():
            for height, width in answer.fields["sizes"]:
                sizes.setdefault((height, width), name)
        size, codings = one_size(sizes), {name: Coding(**answer.fields["coding"]) for name, answer in answers.items()}
        pools = []
        for fold in range(self._values["folds"]):
            parts = [_rows(name, identity, answer.arrays["splits"][fold]) for name, answer in answers.items()]
            tiles = {name: answer.fields["keys"][fold] for name, answer in answers.items()}
            known = json.dumps([published.fingerprint(self._published), tiles], sort_keys=True)
            key = hashlib.sha256(known.encode()).hexdigest()[:16]
            table = pd.concat(parts, ignore_index=True)
            pools.append(Pool(published.name(self._published), table, codings, key, size, fold))
        return pools

    def hand_in(self, pool: Pool, precision: str, seeds: Mapping[str, int]) -> pathlib.Path:
        """The folder with what the sites have handed in."""
        requests = {
            name: write("generator", self._values, TRAINING, fold=pool.fold, seed=seed, precision=precision)
            for name, seed in seeds.items()
        }
        asked = {name: request.identity for name, request in requests.items()}
        folder = CACHE / "generators" / "exchanges" / key_of({"sites": asked, "data": pool.key})
        targets = {name: folder / "sent" / f"{as_name(name)}.npz" for name in requests}
        missing = {name: request for name, request in requests.items() if not targets[name].exists()}
        for name, answer in self._engine.ask(missing).items():
            with understood("generator"), replacing(targets[name], "wb") as out:
                out.write(answer.arrays["generator"].tobytes())
        return folder

    def painted(self, pool: Pool, deliveries: Sequence[Delivery], precision: str) -> list[pd.DataFrame]:
        """Of each delivery what the receiver painted: path, mask, client, sender, name."""
        mine = {name: [each for each in deliveries if from_name(each.receiver) == name] for name in self.names}
        requests = {}
        for name, own in mine.items():
            files = _numbered([np.frombuffer(each.file.read_bytes(), np.uint8) for each in own])
            words = {"fold": pool.fold, "precision": precision}
            requests[name] = write("painting", self._values, GENERATOR, files, **words)
        answers = self._engine.ask(requests)
        with understood("painting"):
            return [self._painting(pool, each, mine, requests, answers) for each in deliveries]

    def _painting(
        self,
        pool: Pool,
        delivery: Delivery,
        mine: Mapping[str, list[Delivery]],
        requests: Mapping[str, Message],
        answers: Mapping[str, Message],
    ) -> pd.DataFrame:
        receiver = from_name(delivery.receiver)
        masks = list(pool.of("train", receiver)["mask"])
        first = mine[receiver].index(delivery) * len(masks)
        names = answers[receiver].fields["names"][first : first + len(masks)]
        paths = [made_path(requests[receiver].identity, first + place) for place in range(len(masks))]
        columns = {"path": paths, "mask": masks, "client": receiver, "sender": from_name(delivery.sender)}
        return pd.DataFrame({**columns, "name": names})

    def grains(self, weights: Sequence[np.ndarray], pool: Pool) -> dict[str, np.ndarray]:
        """Of each site's test tiles: (tiles, METRICS)."""
        request = write("grains", self._values, NETWORK, _numbered(weights))
        answers = self._engine.ask({name: request for name in self.names})
        with understood("grains"):
            shapes = {name: (len(pool.of("test", name)), len(METRICS)) for name in self.names}
            return {name: answer.arrays["scores"].reshape(shapes[name]) for name, answer in answers.items()}


def _rows(site: str, identity: str, splits: np.ndarray) -> pd.DataFrame:
    paths = [made_path(identity, number) for number in range(len(splits))]
    columns = {"path": paths, "mask": [path + MASK for path in paths], "client": site}
    return pd.DataFrame({**columns, "split": [SPLITS[place] for place in splits]})


def _numbered(arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {str(place): array for place, array in enumerate(arrays)}
