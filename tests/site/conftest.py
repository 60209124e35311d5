"""What the tests of a site share: certificates of every kind, and a closed worker behind TLS."""

import datetime
import logging
import pathlib
import signal
import socket
import time

import cv2
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.engine.closed import need_namespaces
from tffapps.site import certs
from tffapps.site.guarded_worker import GuardedWorker
from tffapps.wire.certificates import Certificates

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
CLASSES = ("benign", "malignant")


@pytest.fixture(autouse=True)
def signals():
    """Commands that are called in this process set a signal handler."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def files(folder: pathlib.Path, name: str) -> Certificates:
    """The files of one member of a federation."""
    return Certificates(*(str(folder / file) for file in (f"{name}.pem", f"{name}.key", "ca.pem")))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Two sites and a coordinator, and files of the same authority that expired: old.pem, coordinator-old.pem."""
    folder = tmp_path_factory.mktemp("federation") / "certificates"
    certs.write(folder, ["a", "b"])
    key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    authority = certs.Pair(x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()), key)
    for name, stored in (("a", "old"), (certs.COORDINATOR, "coordinator-old")):
        for file, content in certs._leaf(authority, name, (), LONG_AGO, 30).files(stored).items():
            (folder / file).write_bytes(content)
            (folder / file).chmod(0o600)
    return folder


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """Another federation, with the same names."""
    folder = tmp_path_factory.mktemp("other") / "certificates"
    certs.write(folder, ["a", "b"])
    return folder


class Site:
    """A closed worker behind TLS, its address and its log."""

    def __init__(self, folder: pathlib.Path, log: pathlib.Path) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.address = f"localhost:{self.port}"
        self._file, self._log = log, logging.FileHandler(log)
        logger = logging.getLogger("tffapps.site.a")
        logger.setLevel("INFO")
        logger.addHandler(self._log)
        self.worker = GuardedWorker(listener, name="site a", certificates=files(folder, "a"), log=self._log.stream)

    def logged(self, text: str, seconds: float = 5.0) -> bool:
        """Whether a line of the log holds this text, within some seconds."""
        deadline = time.monotonic() + seconds
        while text not in self._file.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        return text in self._file.read_text()

    def close(self) -> None:
        self.worker.stop()
        logging.getLogger("tffapps.site.a").removeHandler(self._log)
        self._log.close()


@pytest.fixture(scope="module")
def site(folder, tmp_path_factory):
    need_namespaces()
    site = Site(folder, tmp_path_factory.mktemp("log") / "log.txt")
    yield site
    site.close()


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """<client>/<split>/<class>/*.png of the clients a and b; a has 3 benign, 2 malignant and 1 test image."""
    root = tmp_path_factory.mktemp("data") / "patients"
    counts = {"a/train/benign": 3, "a/train/malignant": 2, "a/test/benign": 1, "b/train/benign": 4}
    for number, (place, count) in enumerate(counts.items()):
        (root / place).mkdir(parents=True)
        for index in range(count):
            picture = np.full((6, 8 + 2 * (number == 1), 3), 20 * number + index, np.uint8)
            cv2.imwrite(str(root / place / f"Jane-Doe-{index}.png"), picture)
    return root


PIXELS = 8


@pytest.fixture(scope="session")
def noise(tmp_path_factory):
    """Images of the clients a and b that are all different: three classes, 4 and 6 for training, 2 for testing each."""
    root = tmp_path_factory.mktemp("noise") / "images"
    rng = np.random.default_rng(3)
    for client, count in (("a", 4), ("b", 6)):
        for split, images_ in (("train", count), ("test", 2)):
            for code in range(3):
                place = root / client / split / f"class{code}"
                place.mkdir(parents=True)
                for index in range(images_):
                    picture = rng.integers(0, 150, (PIXELS, PIXELS, 3)) + 50 * code
                    cv2.imwrite(str(place / f"{index}.png"), picture.astype(np.uint8))
    return root


@pytest.fixture
def members(noise, folder):
    """The sites a and b, which a test may kill."""
    need_namespaces()
    from tests.site.federation import Member

    sites = [Member(noise, folder, name) for name in ("a", "b")]
    yield sites
    for site in sites:
        site.close()
