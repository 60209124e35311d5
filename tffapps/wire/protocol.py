"""What coordinator and site must agree on before they work together."""

from importlib import metadata

PROTOCOL = 4  # rises with every change of what is sent; 1 was that of version 0.1.0, which did not say so
DESCRIPTION = "site.json"  # in the worker's working folder: what the site publishes of itself
_FRAMEWORKS = ("tensorflow", "tensorflow-federated")


def frameworks() -> dict[str, str]:
    """The versions of what a computation needs at both ends."""
    return {package: metadata.version(package) for package in _FRAMEWORKS}


def own() -> dict[str, object]:
    """What this end has, as a site publishes it."""
    return {"protocol": PROTOCOL, "frameworks": frameworks()}
