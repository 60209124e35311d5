"""`python -m tffapps.classify` as every system is."""

from tests.contract import *  # noqa: F403
from tffapps.classify import APP  # noqa: F401
