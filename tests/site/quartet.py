"""Four sites of one federation, with images of their own, and what the coordinator hears of them."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

import cv2
import numpy as np
import pytest
import tensorflow as tf

from tests.site.conftest import PIXELS, files
from tests.site.federation import Member, serving
from tests.site.rounds import clients, table_of
from tffapps.engine import Engine, open_engine
from tffapps.engine.remote import RemoteWorker
from tffapps.engine.tff_messages import data_type_pb2, executor_pb2
from tffapps.federated.task import Task, cross_entropy
from tffapps.site import certs, numbers

NAMES = ("a", "b", "c", "d")


def draw(root: pathlib.Path, names=NAMES) -> pathlib.Path:
    """<client>/<split>/<class>/*.png of four clients; a has 2 images of each of three classes, b 3, c 4, d 5."""
    rng = np.random.default_rng(5)
    for number, client in enumerate(names):
        for split, count in (("train", 2 + number), ("test", 1)):
            for code in range(3):
                place = root / client / split / f"class{code}"
                place.mkdir(parents=True)
                for index in range(count):
                    picture = rng.integers(0, 150, (PIXELS, PIXELS, 3)) + 50 * code
                    cv2.imwrite(str(place / f"{index}.png"), picture.astype(np.uint8))
    return root


@dataclasses.dataclass
class Quartet:
    folder: pathlib.Path  # of certificates
    images: pathlib.Path
    members: list[Member]

    def engine(self, names: str = "abcd") -> contextlib.AbstractContextManager[Engine]:
        addresses = [member.address for member in self.members if member.name in names]
        return open_engine(",".join(addresses), files(self.folder, "coordinator"))

    def clients(self, engine: Engine):
        return clients(table_of(engine, self.images))


@contextlib.contextmanager
def quartet(root: pathlib.Path, names=NAMES) -> Iterator[Quartet]:
    certs.write(root / "certificates", names)
    images = draw(root / "images", names)
    with serving(root / "certificates", dict.fromkeys(names, images)) as members:
        yield Quartet(root / "certificates", images, members)


@contextlib.contextmanager
def at_home(tmp_path_factory, names=NAMES) -> Iterator[Quartet]:
    """A quartet, or fewer, whose home is its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFFAPPS_HOME", str(tmp_path_factory.mktemp("home")))
        with quartet(tmp_path_factory.mktemp("quartet"), names) as found:
            yield found


def dense_task(units: int) -> Task:
    """A network of two layers for their images."""
    of = tf.keras.layers
    layers = [of.Flatten(input_shape=(PIXELS, PIXELS, 3)), of.Dense(units), of.Dense(3, activation="softmax")]
    spec = (tf.TensorSpec([None, PIXELS, PIXELS, 3], tf.float32), tf.TensorSpec([None], tf.int32))
    return Task.of_batches(tf.keras.Sequential(layers), spec, cross_entropy)


@contextlib.contextmanager
def plain_rows(patch) -> Iterator[list[np.ndarray]]:
    """What workers answered, before the sites' own processes made something else of it."""
    rows: list[np.ndarray] = []
    read = numbers.row

    def kept(content: bytes) -> np.ndarray:
        rows.append(read(content))
        return rows[-1]

    with patch.context() as here:
        here.setattr(numbers, "row", kept)
        yield rows


@contextlib.contextmanager
def heard(patch) -> Iterator[list[bytes]]:
    """Every byte that any site says to the coordinator, message by message."""
    messages: list[bytes] = []
    ask = RemoteWorker._ask

    def listening(self, method, request):
        response = ask(self, method, request)
        messages.append(response if isinstance(response, bytes) else response.SerializeToString())
        return response

    with patch.context() as here:
        here.setattr(RemoteWorker, "_ask", listening)
        yield messages


def whole_numbers(messages: list[bytes], least: int = 100) -> list[np.ndarray]:
    """The arrays of whole numbers among answers, if they are long."""
    found = []
    for message in messages:
        with contextlib.suppress(Exception):  # others are no answers
            array = executor_pb2.ComputeResponse.FromString(message).value.array
            if array.dtype == data_type_pb2.DT_INT64 and len(array.content) >= 8 * least:
                found.append(np.frombuffer(array.content, np.int64))
    return found
