"""The certificates and the site that tests of sites have too."""

from tests.site.conftest import folder, images, members, noise, other, signals, site

__all__ = ["folder", "images", "members", "noise", "other", "signals", "site"]
