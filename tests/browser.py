"""A headless Chromium, driven over its own protocol by two pipes: no driver, no library, no port."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_SECONDS = 90  # for anything: machines that test are busy


class Page:
    """The one page of a browser."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._rest, self._number, self._session = to, back, b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(
            self._to, json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode() + b"\0"
        )
        while True:
            found = self._next()
            if found.get("id") == self._number:
                assert "error" not in found, found
                return found["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._back], [], [], _SECONDS)[0], "the browser does not answer"
            part = os.read(self._back, 2**20)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def run(self, script: str) -> Any:
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """The first true value of an expression."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(AssertionError):  # between two pages
                if value := self.run(script):
                    return value
            time.sleep(0.05)
        raise AssertionError(f"never true: {script}; the page says {self.run('document.body.innerText')!r}")

    def open(self, url: str) -> None:
        self.run("window.before = true")  # what is seen until then is the page before
        self.call("Page.navigate", url=url)
        self.until(
            f"!window.before && document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})"
        )

    def fill(self, selector: str, text: str) -> None:
        self.until(f"document.querySelector({json.dumps(selector)}) !== null")
        self.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(text)}")

    def click(self, selector: str) -> None:
        self.until(f"document.querySelector({json.dumps(selector)}) !== null")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def choose_file(self, selector: str, path: pathlib.Path) -> None:
        self.until(f"document.readyState === 'complete' && document.querySelector({json.dumps(selector)}) !== null")
        found = self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")
        self.call("DOM.setFileInputFiles", objectId=found["result"]["objectId"], files=[str(path)])

    def size(self, width: int, height: int, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: pathlib.Path) -> None:
        """Of the whole page."""
        time.sleep(0.3)  # images and fonts
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))


@contextlib.contextmanager
def browser(folder: pathlib.Path) -> Iterator[Page]:
    (child_in, to), (back, child_out) = os.pipe(), os.pipe()
    assert BROWSER is not None
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--hide-scrollbars", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank",
    ]  # fmt: skip
    # The pipes are its descriptors 3 and 4.
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$0" "$@" 3<&{child_in} 4>&{child_out}', BROWSER, *flags],
        pass_fds=(child_in, child_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(child_in)
    os.close(child_out)
    try:
        yield Page(to, back)
    finally:
        os.close(to)
        os.close(back)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
