"""Tests of where weights come from have servers of their own."""

import pytest


@pytest.fixture(autouse=True)
def _may_download(monkeypatch):
    monkeypatch.delenv("TFFAPPS_OFFLINE", raising=False)
