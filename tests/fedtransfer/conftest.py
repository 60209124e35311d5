"""Two materials, a few small tiles of each."""

import pytest

from tests.applications import working_in
from tffapps import cli
from tffapps.fedtransfer import APP, data

SMOKE = ["--profile", "smoke"]


@pytest.fixture
def flags():
    return cli.parse(APP, SMOKE)


@pytest.fixture(scope="module")
def tiles(place):
    with working_in(place):
        return data.load(cli.parse(APP, SMOKE))[0]
