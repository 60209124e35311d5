"""What the tests of a site share."""

import signal

import pytest


@pytest.fixture(autouse=True)
def signals():
    """Commands that are called in this process set a signal handler."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)
