"""The live page over HTTP: what is answered, what is refused, and in a browser where there is one."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from tests.watch.conftest import ask, listing, make_run, serving
from tffapps.watch import __main__ as command

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVIL = "<img src=x onerror=document.title='broken-into'>"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    with contextlib.ExitStack() as stack:
        stack.enter_context(make_run(folder / "classify", "fedavg", 4))
        make_run(folder / "classify", EVIL.replace("/", ""), 2, last={"left_out": EVIL}).__exit__()
        make_run(folder / "plfl", "plfl", 10, finished=True).__exit__()
        os.mkdir(os.fsencode(folder / "plfl" / "runs") + b"/not-\xff-text")
        (folder / "plfl" / "runs" / os.fsdecode(b"not-\xff-text") / "settings.json").write_text("{}")
        (folder / "secret.txt").write_text("secret")
        yield folder


@pytest.fixture(scope="module")
def server(results):
    with serving(results) as server:
        yield server


def test_the_page_has_nothing_from_elsewhere(server):
    status, headers, body = ask(server, "/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"http" not in body.replace(b"http://www.w3.org/2000/svg", b"") and b" src=" not in body
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and "Python" not in headers["Server"]


def test_what_it_says_of_runs(server, results):
    found = listing(server)
    assert found["folder"] == str(results) and len(found["runs"]) == 4
    assert "not-\N{REPLACEMENT CHARACTER}-text" in {run["name"] for run in found["runs"].values()}
    (name,) = [name for name, run in found["runs"].items() if run["name"].startswith("fedavg")]
    details = json.loads(ask(server, f"/run.json?run={name}")[2])
    assert details["rounds"] == [1, 2, 3, 4] and list(details["metrics"]) == ["accuracy", "training_loss"]
    assert listing(server, found["version"])["runs"] == {}


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt", "/../secret.txt", "/%2e%2e/secret.txt", "//etc/passwd", "/index.html", "/runs.json/",
        "/run.json",         "/run.json?run=../plfl", "/run.json?a&b&c&d&e&f&run=x", "/RUNS.JSON", "/classify", "*",
    ],
)  # fmt: skip
def test_no_other_paths(server, path):
    status, _, body = ask(server, path)
    assert status == 404 and body == b"not found\n"


@pytest.mark.parametrize("since", ["-1", "x", "9" * 30, "²", "1&since=2"])
def test_an_odd_version_is_all_or_a_version(server, since):
    from urllib.parse import quote

    assert ask(server, f"/runs.json?since={quote(since, safe='&=')}")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "[::1]:PORT", " "])
def test_another_host_is_refused(server, host):
    for path in ("/", "/runs.json", "/run.json"):
        status, _, body = ask(server, path, host=host.replace("PORT", str(server.port)))
        assert status == 403 and b"fedavg" not in body


def test_localhost_will_do_and_two_hosts_will_not(server):
    assert ask(server, "/", host=f"LOCALHOST:{server.port}")[0] == 200
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        host = f"Host: 127.0.0.1:{server.port}\r\n"
        raw.sendall(f"GET /runs.json HTTP/1.1\r\n{host}{host}Connection: close\r\n\r\n".encode())
        assert b" 403 " in raw.recv(100)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_it_is_read_only(server, method):
    assert ask(server, "/", method=method)[0] == 501


def test_head_has_no_body(server):
    status, headers, body = ask(server, "/", method="HEAD")
    assert status == 200 and int(headers["Content-Length"]) > 1000 and body == b""


def test_it_listens_on_loopback_alone(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"


MISTAKES = {
    "no folder": (["nowhere"], "nowhere: no such folder; give the folder that --results named"),
    "a file": (["a.txt"], "a.txt: not a folder"),
    "no port": ([".", "--port", "70000"], "--port 70000: must be from 0"),
    "a port in use": ([".", "--port", "TAKEN"], "choose another, or 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake, server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("")
    arguments, message = MISTAKES[mistake]
    assert command.main([each.replace("TAKEN", str(server.port)) for each in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_as_a_command(results):
    """It says where it is, answers, ends with Ctrl-C, and needs neither TensorFlow nor pandas."""
    code = (
        "import sys, threading, tffapps.watch.__main__ as watch\nstatus = watch.main([sys.argv[1]])\n"
        "print(status, [name for name in ('tensorflow', 'pandas', 'numpy') if name in sys.modules])"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", code, str(results)], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        port = int(program.stdout.readline().partition("http://127.0.0.1:")[2].partition("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/runs.json")
        assert len(json.loads(connection.getresponse().read())["runs"]) == 4
        connection.close()
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=20)
    finally:
        program.kill()
    assert out == "130 []\n" and "Traceback" not in err


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_in_a_browser(server, tmp_path):
    """Runs are there as text: what a name or a file holds does not become markup."""
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=3000", "--dump-dom", server.url,
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    page = done.stdout
    assert "1 running, 2 stopped, 1 finished" in page
    assert page.count("<article") == 4 and "4 of 10 rounds" in page and " left</span>" in page
    assert "&lt;img src=x" in page and "<img" not in page and "<title>tffapps watch</title>" in page
