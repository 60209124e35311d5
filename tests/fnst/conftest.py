"""Small sites of drawn glands, and a small VGG."""

import pytest

from tffapps import cli
from tffapps.data import chaoyang, glands
from tffapps.fnst import APP, StyleFlags, data
from tffapps.settings import pick


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


def styler_of(*flags):
    from tffapps.fnst.styler import Styler

    return Styler(pick(StyleFlags, cli.parse(APP, ["--profile", "smoke", *flags])))


@pytest.fixture(scope="session")
def styler():
    return styler_of()


@pytest.fixture(scope="session")
def exchange(styler):
    from tffapps.fnst.exchange import Exchange

    return Exchange(styler)
