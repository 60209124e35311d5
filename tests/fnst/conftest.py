"""Small sites of drawn glands, and a small VGG."""

import pytest

from tffapps import cli
from tffapps.data import chaoyang, glands
from tffapps.fnst import APP, data


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return glands.write_glands(tmp_path_factory.mktemp("glands"), train=16, test=6, size=32, noise=0.0, progress=False)


@pytest.fixture(scope="session")
def pool(folder):
    table = chaoyang.read(folder)
    return data.Pool("stand-in", table, list(chaoyang.CLASSES), "key", has_sites=False)


@pytest.fixture
def away(tmp_path, monkeypatch):
    """Caches are written below the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def exchange():
    from tffapps.fnst.exchange import Exchange

    return Exchange(cli.parse(APP, ["--profile", "smoke"]))
