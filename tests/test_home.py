"""TFFAPPS_HOME: where stand-ins, caches and what sites prepare lie."""

import pathlib

import pytest

from tests.architecture import ROOT
from tffapps import cli, home
from tffapps.classify import APP


def test_the_working_folder_unless_it_is_set(monkeypatch):
    monkeypatch.delenv("TFFAPPS_HOME", raising=False)
    assert home.data_folder() == pathlib.Path("data")
    monkeypatch.setenv("TFFAPPS_HOME", "")
    assert home.cache_folder() == pathlib.Path("data/cache")


def test_below_it_when_it_is_set(monkeypatch, tmp_path):
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path))
    assert home.data_folder() == tmp_path / "data"
    assert home.cache_folder() == tmp_path / "data" / "cache"
    assert home.sites_folder() == tmp_path / "data" / "sites"


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """A home, and an empty working folder that it is not."""
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path / "home"))
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")
    yield tmp_path
    assert not list((tmp_path / "working").iterdir())


def test_a_stand_in_is_drawn_there(elsewhere):
    from tffapps.classify import data

    pool = data.load(cli.parse(APP, ["--profile", "smoke", "--standin-images", "4"]))
    assert len(pool.table) and all(path.startswith(f"{elsewhere}/home/data/textures-") for path in pool.table.path)


def test_what_a_site_has_prepared_is_there(elsewhere):
    import pandas as pd

    from tffapps.site.mailbox import Mailbox

    rows = pd.DataFrame({"path": ["a.png"], "label": ["0"], "client": ["north"], "split": ["train"]})
    (elsewhere / "worker").mkdir()
    Mailbox(elsewhere / "worker", rows, {"name": "north", "fingerprint": "f00", "classes": ["0"]})
    assert (elsewhere / "home" / "data" / "sites" / "north" / "f00").is_dir()


def test_nothing_names_the_folder_itself():
    sources = [path for path in (ROOT / "tffapps").rglob("*.py") if 'Path("data")' in path.read_text()]
    assert sources == []
