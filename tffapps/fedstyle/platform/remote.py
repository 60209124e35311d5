"""The artist's side: joins a platform from their own machine, and leaves it again. A prototype and a spread cross."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.parse
from typing import Any

import numpy as np

from tffapps import UserError
from tffapps.fedstyle.catalogue import CONSENT, Entry
from tffapps.fedstyle.platform.server import LOOPBACK

_SECONDS, _MOST = 120, 100_000


def _coded(values: np.ndarray) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


class Remote:
    """A platform at http(s)://HOST:PORT; without https only on the same machine, because keys would be read."""

    def __init__(self, address: str) -> None:
        parts = urllib.parse.urlsplit(address)
        try:
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            self._host = ""
        if parts.scheme not in ("http", "https") or not self._host or parts.path not in ("", "/"):
            raise UserError(f"--server {address}: expected https://HOST:PORT")
        if parts.scheme == "http" and self._host not in LOOPBACK:
            raise UserError(f"--server {address}: your key would cross the network in the clear; use https")
        self._https, self.address = parts.scheme == "https", address.rstrip("/")

    def about(self) -> dict[str, str]:
        """Which encoder the catalogue is of."""
        found = self._ask("GET", "/api/catalogue")
        if found.get("consent") != CONSENT:
            raise UserError(f"{self.address}: asks for another consent than this tffapps knows; update one of the two")
        if not all(isinstance(found.get(name), str) for name in ("encoder", "kind")):
            raise UserError(f"{self.address}: not a platform of tffapps fedstyle serve")
        return found

    def enrol(self, entry: Entry, encoder: str, invitation: str) -> tuple[str, str]:
        """(id, key)"""
        spread = np.zeros(0) if entry.spread is None else entry.spread
        found = self._ask(
            "POST", "/api/artists", invitation,
            {
                "name": entry.name, "words": entry.words, "pictures": entry.pictures,
                "prototype": _coded(entry.prototype), "spread": _coded(spread),
                "consent": entry.consent, "encoder": encoder,
                "published": [base64.b64encode(each).decode() for each in entry.published],
            },
        )  # fmt: skip
        return str(found["artist"]), str(found["key"])

    def withdraw(self, key: str) -> None:
        self._ask("DELETE", "/api/artists/me", key)

    def _ask(self, method: str, path: str, token: str = "", content: dict[str, Any] | None = None) -> dict[str, Any]:
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=_SECONDS)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request(method, path, None if content is None else json.dumps(content), headers)
            response = connection.getresponse()
            found = json.loads(response.read(_MOST))
            status = response.status
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise UserError(f"{self.address}: no answer of a platform ({type(error).__name__})") from None
        finally:
            connection.close()
        if not isinstance(found, dict):
            raise UserError(f"{self.address}: not a platform of tffapps fedstyle serve")
        if status >= 400:
            raise UserError(f"{self.address}: {' '.join(str(found.get('problem', status)).split())[:200]}")
        return found
