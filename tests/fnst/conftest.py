"""Small sites of drawn glands, and a small VGG."""

import pytest

from tffapps import cli
from tffapps.data import chaoyang, glands
from tffapps.data.pool import Pool
from tffapps.fnst import APP, GramSettings, TransferSettings


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return glands.write_glands(tmp_path_factory.mktemp("glands"), train=16, test=6, size=32, noise=0.0, progress=False)


@pytest.fixture(scope="session")
def pool(folder):
    return Pool("stand-in", chaoyang.read(folder), list(chaoyang.CLASSES), "key")


@pytest.fixture(scope="session")
def federation(pool):
    """Two images of each rare class at every client."""
    from tffapps.fnst import data

    return data.shared_out(pool, 2, 0)


@pytest.fixture
def away(tmp_path, monkeypatch):
    """Caches are written below the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def styler_of(*flags):
    from tffapps.fnst.styler import Styler

    parsed = cli.parse(APP, ["--profile", "smoke", *flags])
    return Styler(parsed[GramSettings], parsed[TransferSettings])


@pytest.fixture(scope="session")
def styler():
    return styler_of()


@pytest.fixture(scope="session")
def exchange(styler):
    from tffapps.fnst.exchange import Exchange
    from tffapps.fnst.placement import Here

    return Exchange(Here(styler))
