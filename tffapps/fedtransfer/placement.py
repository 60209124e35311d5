"""Where the clients of FedTransfer are: in this process, or at sites.

Of clients at sites the coordinator holds generators on their way and counts; tiles, labels and painted images are paths
that mean something at the site.
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd

from tffapps import Engine, Flags, Message, Pool, UserError, as_name, replacing, understood
from tffapps.data import micrographs, published
from tffapps.data.manifest import SPLITS, natural_key
from tffapps.data.micrograph_labels import Coding
from tffapps.fedtransfer import METRICS, GeneratorSettings, TileSettings, UNetSettings, data
from tffapps.fedtransfer.data import Tiles
from tffapps.fedtransfer.dispatch import Delivery
from tffapps.fedtransfer.evaluator import Scoring, ScoringAtSites, ScoringHere, Weights
from tffapps.fedtransfer.network import Network
from tffapps.fedtransfer.painter import FILE, Painter, exchange_folder, send
from tffapps.fedtransfer.request import write
from tffapps.wire.jobs import made_path


class Placement(Protocol):
    clients: list[str]
    painter: Painter  # as every client has one

    def folds(self) -> list[Tiles]:
        """The tiles of every fold, cut where they are."""

    def hand_in(self, tiles: Tiles, precision: str, seeds: Mapping[str, int]) -> pathlib.Path:
        """The folder with the generators that the clients hand in, each trained with its seed."""

    def painted(self, tiles: Tiles, deliveries: Sequence[Delivery], precision: str) -> list[pd.DataFrame]:
        """Of each delivery what the receiver painted: path, mask, client, sender, name."""

    def scoring(self, network: Network) -> Scoring:
        """What measures a U-Net on the clients' tiles."""


class Here:
    def __init__(self, flags: Flags) -> None:
        self.painter = Painter.of(flags)
        self._folds = data.load(flags)
        self.clients = self._folds[0].clients

    def folds(self) -> list[Tiles]:
        return self._folds

    def hand_in(self, tiles: Tiles, precision: str, seeds: Mapping[str, int]) -> pathlib.Path:
        trained = {
            client: self.painter.trained(client, tiles.part("train", client), seed) for client, seed in seeds.items()
        }
        names = {client: source.name for client, source in trained.items()}
        folder = exchange_folder({"generators": names, "precision": precision})
        for client, source in trained.items():
            send(source / FILE, _sent(folder, client), precision)
        return folder

    def painted(self, tiles: Tiles, deliveries: Sequence[Delivery], precision: str) -> list[pd.DataFrame]:
        architecture, tables = self.painter.architecture(tiles.size), []
        for delivery in deliveries:
            rows = tiles.part("train", delivery.receiver)
            title = f"{delivery.receiver} as {delivery.sender}"
            paths = self.painter.paint(rows, delivery.file, architecture, precision, title)
            tables.append(_painted(delivery, paths, rows, [pathlib.Path(path).name for path in paths]))
        return tables

    def scoring(self, network: Network) -> Scoring:
        return ScoringHere(network)


class AtSites:
    def __init__(self, engine: Engine, flags: Flags) -> None:
        self._engine, self._flags, self._tiling = engine, flags, flags[TileSettings]
        self.painter = Painter.of(flags)
        self.clients = sorted(engine.sites, key=natural_key)  # as folders of clients are on one machine
        data.check_clients(self.clients, "--engine", "give the addresses of the others")
        self._published = {name: engine.sites[name] for name in self.clients}
        for name, description in self._published.items():
            images = sum(sum(counts.values()) for counts in description["images"].values())
            if description["masks"] != images:
                raise UserError(
                    f"--engine: site {name} has labels for {description['masks']} of its {images} images; "
                    "it must serve <client>/images/* and <client>/labels/*, or a manifest with masks"
                )

    def folds(self) -> list[Tiles]:
        request = write("tiles", [self._tiling])
        answers = self._engine.ask(dict.fromkeys(self.clients, request))
        with understood("tiles"):
            sizes: dict[tuple[int, int], str] = {}
            for name, answer in answers.items():
                for height, width in answer.fields["sizes"]:
                    sizes.setdefault((height, width), name)
            codings = {name: Coding(**answer.fields["coding"]) for name, answer in answers.items()}
            size = data.one_size(sizes)
            pools = [self._pool(fold, request.identity, answers) for fold in range(self._tiling.folds)]
            return [Tiles(pool, codings, size, fold) for fold, pool in enumerate(pools)]

    def _pool(self, fold: int, identity: str, answers: Mapping[str, Message]) -> Pool:
        parts = [_tile_rows(name, identity, answer.arrays["splits"][fold]) for name, answer in answers.items()]
        fingerprints = {name: answer.fields["keys"][fold] for name, answer in answers.items()}
        known = json.dumps([published.fingerprint(self._published), fingerprints], sort_keys=True)
        key = hashlib.sha256(known.encode()).hexdigest()[:16]
        table = pd.concat(parts, ignore_index=True)
        name = published.name(self._published)
        return Pool(name, table, [micrographs.LABEL], key, data.FORMATS, given=True, at_sites=True)

    def hand_in(self, tiles: Tiles, precision: str, seeds: Mapping[str, int]) -> pathlib.Path:
        settings = [self._tiling, self._flags[GeneratorSettings]]
        requests = {
            name: write("generator", settings, fold=tiles.fold, seed=seed, precision=precision)
            for name, seed in seeds.items()
        }
        asked = {name: request.identity for name, request in requests.items()}
        folder = exchange_folder({"sites": asked, "data": tiles.pool.key})
        missing = {name: request for name, request in requests.items() if not _sent(folder, name).exists()}
        for name, answer in self._engine.ask(missing).items():
            with understood("generator"), replacing(_sent(folder, name), "wb") as out:
                out.write(answer.arrays["generator"].tobytes())
        return folder

    def painted(self, tiles: Tiles, deliveries: Sequence[Delivery], precision: str) -> list[pd.DataFrame]:
        settings = [self._tiling, self._flags[GeneratorSettings]]
        received = {name: [each for each in deliveries if each.receiver == name] for name in self.clients}
        requests = {}
        for name, files in received.items():
            generators = [np.frombuffer(each.file.read_bytes(), np.uint8) for each in files]
            requests[name] = write("painting", settings, generators, fold=tiles.fold, precision=precision)
        answers = self._engine.ask(requests)

        def table(delivery: Delivery) -> pd.DataFrame:
            site = delivery.receiver
            rows = tiles.part("train", site)
            first = received[site].index(delivery) * len(rows)  # a site's answer has the first generator's images first
            numbers = range(first, first + len(rows))
            paths = [made_path(requests[site].identity, number) for number in numbers]
            return _painted(delivery, paths, rows, answers[site].fields["names"][first : first + len(rows)])

        with understood("painting"):
            return [table(delivery) for delivery in deliveries]

    def scoring(self, network: Network) -> Scoring:
        return ScoringAtSites(network, self._engine, self._grains)

    def _grains(self, weights: Weights, tiles: Tiles) -> dict[str, np.ndarray]:
        request = write("grains", [self._tiling, self._flags[UNetSettings]], weights, fold=tiles.fold)
        answers = self._engine.ask(dict.fromkeys(self.clients, request))
        with understood("grains"):
            return {
                name: answer.arrays["scores"].reshape((len(tiles.part("test", name)), len(METRICS)))
                for name, answer in answers.items()
            }


def _sent(folder: pathlib.Path, client: str) -> pathlib.Path:
    return folder / "sent" / f"{as_name(client)}.npz"


def _painted(delivery: Delivery, paths: list[str], rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    columns = {"path": paths, "mask": list(rows["mask"]), "client": delivery.receiver, "sender": delivery.sender}
    return pd.DataFrame({**columns, "name": names})


def _tile_rows(site: str, identity: str, splits: np.ndarray) -> pd.DataFrame:
    paths = [made_path(identity, number) for number in range(len(splits))]
    masks = [path + published.MASK for path in paths]
    names = [SPLITS[number] for number in splits]
    return pd.DataFrame({"path": paths, "label": micrographs.LABEL, "client": site, "split": names, "mask": masks})
