"""The platform over HTTP: who may do what, what is refused, what is kept; and the whole way in a browser."""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import re
import threading
import time
import urllib.parse

import cv2
import numpy as np
import pytest

from tests.browser import BROWSER, browser
from tests.fedstyle.conftest import COLOURS, paint
from tffapps.errors import UserError
from tffapps.fedstyle import catalogue, enrol, serve, withdraw
from tffapps.fedstyle.catalogue import Catalogue
from tffapps.fedstyle.platform.desk import BUYER, INVITATION, LIKERT, OPERATOR, Desk
from tffapps.fedstyle.platform.limits import Limits
from tffapps.fedstyle.platform.server import Server, address_of, names_of

EVIL = "<img src=x onerror=alert(1)>"


class Visit:
    """A browser without a screen."""

    def __init__(self, server, token: str = "") -> None:
        self.server, self.cookie = server, f"fedstyle={token}" if token else ""

    def ask(self, method, path, body=b"", *, kind="application/x-www-form-urlencoded", **headers):
        """Status, headers, text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers |= {"Cookie": self.cookie} if self.cookie and "Cookie" not in headers else {}
        connection.request(method, path, body, {"Content-Type": kind, **headers} if body else headers)
        answer = connection.getresponse()
        found = answer.status, answer.headers, answer.read().decode("utf-8", "replace")
        connection.close()
        return found

    def code(self) -> str:
        return re.search(r'name="code" value="(\w+)"', self.ask("GET", "/")[2])[1]

    def post(self, path, **fields):
        fields.setdefault("code", self.code())
        return self.ask("POST", path, urllib.parse.urlencode(fields))

    def show(self, contents: bytes, code: str | None = None):
        code = self.code() if code is None else code
        parts = [f'--x\r\nContent-Disposition: form-data; name="code"\r\n\r\n{code}\r\n'.encode()]
        parts.append(b'--x\r\nContent-Disposition: form-data; name="picture"; filename="p.jpg"\r\n\r\n' + contents)
        return self.ask("POST", "/ask", b"".join(parts) + b"\r\n--x--\r\n", kind="multipart/form-data; boundary=x")


@pytest.fixture(scope="module")
def server(bundle, tmp_path_factory):
    file = tmp_path_factory.mktemp("served") / "artists.db"
    options = argparse.Namespace(
        bundle=bundle, catalogue=file, embedding="style", listen="127.0.0.1:0", host=[], https=False, title="Hands",
        source="drawn", operator=False,
    )  # fmt: skip
    with serve.serving(options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def desk(server) -> Desk:
    return server.app.desk


@pytest.fixture(autouse=True)
def not_limited(server, monkeypatch):
    monkeypatch.setattr(
        server.app, "_limits", Limits(dict.fromkeys(("enter", "ask", "request", "enrol", "change"), (10**6, 1)), {})
    )


@pytest.fixture(scope="module")
def artists(server, desk, bundle, paintings, tmp_path_factory):
    """Keys by name: every artist has joined from their own machine; one of them has a wicked name."""
    keys, folder = {}, tmp_path_factory.mktemp("keys")
    for artist in COLOURS:
        out, picture = folder / f"{artist}.json", paintings / "gallery" / artist / "0.png"
        arguments = [
            bundle, paintings / "gallery" / artist, "--name", artist if artist != "Eve" else EVIL, "--words", EVIL,
            "--server", server_url(server), "--invitation", desk.issue(INVITATION), "--publish", picture, "--consent",
            "-o", out,
        ]  # fmt: skip
        assert enrol.main(list(map(str, arguments))) == 0
        keys[artist] = out
    return keys


def server_url(server) -> str:
    return f"http://127.0.0.1:{server.port}"


def key_of(path) -> str:
    return json.loads(path.read_text())["key"]


def order_of(page: str) -> list[str]:
    return re.findall(r"<h3>(?:<a [^>]*>)?([^<]*)", page.partition('id="answer"')[2])


def test_a_buyer_asks_and_commissions(server, desk, artists, paintings):
    buyer, ada = Visit(server, desk.issue(BUYER, "for tests")), Visit(server, key_of(artists["Ada"]))
    before = server.app._catalogue.path.read_bytes()
    picture = (paintings / "queries" / "Ada" / "3.png").read_bytes()
    begin = time.process_time()
    status, _, page = buyer.show(picture)
    assert time.process_time() - begin < 1
    assert status == 200 and order_of(page)[0] == "Ada" and "None of these" in order_of(page)
    assert "not fitted yet" in page and "5 artists compared" in page
    assert picture not in server.app._catalogue.path.read_bytes() and len(before) > 0
    (number,) = re.findall(r'name="question" value="(\w+)"', page)
    (link,) = re.findall(r'href="(/artist/\w+)">Ada', page)
    said = {"words": f"a portrait {EVIL}", "contact": "buyer@example.org"}
    assert "Sent. Ada" in buyer.post(f"{link}/request", **said)[2]
    assert buyer.post(f"{link}/request", words=" ", contact="x")[0] == 400
    inbox = ada.ask("GET", "/inbox")[2]
    assert "buyer@example.org" in inbox and "a portrait &lt;img" in inbox and EVIL not in inbox
    assert buyer.ask("GET", "/inbox")[0] == 403
    bo = Visit(server, key_of(artists["Bo"]))
    (request,) = re.findall(r"/inbox/(\w+)/remove", inbox)
    bo.post(f"/inbox/{request}/remove")
    assert "buyer@example.org" in ada.ask("GET", "/inbox")[2]
    assert ada.post(f"/inbox/{request}/remove")[0] == 303 and "No request yet" in ada.ask("GET", "/inbox")[2]
    # The study: nothing is invented, an answer counts once.
    assert "No answers yet" in buyer.ask("GET", "/study")[2]
    assert buyer.post("/rate", question=number, rating="5")[0] == 200
    assert buyer.post("/rate", question=number, rating="1")[0] == 400
    (other,) = re.findall(r'name="question" value="(\w+)"', ada.show(picture)[2])
    assert [ada.post("/rate", question=other, rating=value)[0] for value in ("0", "6", "", "x")] == [400] * 4
    for value in ("4", "2"):
        (other,) = re.findall(r'name="question" value="(\w+)"', ada.show(picture)[2])
        assert ada.post("/rate", question=other, rating=value)[0] == 200
    table = desk.satisfaction()
    assert table.drop(columns="sd").values.tolist() == [["buyer", "drawn", 1, 5, 0], ["artist", "drawn", 2, 3, 2]]
    np.testing.assert_allclose(table.sd, [np.nan, 2**0.5])
    assert "3.00" in buyer.ask("GET", "/study")[2] and len(LIKERT) == 5


def test_roles(server, desk, artists):
    operator, buyer = Visit(server, desk.issue(OPERATOR)), Visit(server, desk.issue(BUYER))
    nobody, artist = Visit(server), Visit(server, key_of(artists["Cy"]))
    for path, allowed in (
        ("/desk", (operator,)), ("/inbox", (artist,)), ("/artists", (operator, buyer, artist)),
        ("/study", (operator, buyer, artist)), ("/join", (operator, buyer, artist, nobody)),
    ):  # fmt: skip
        for visit in (operator, buyer, nobody, artist):
            assert (visit.ask("GET", path)[0] == 200) == (visit in allowed), path
    page = operator.post("/desk/token", role=BUYER, note="for Zoe")[2]
    (token,) = re.findall(r"shown this once: <code>([^<]+)", page)
    status, headers, _ = nobody.ask("POST", "/enter", urllib.parse.urlencode({"token": token}))
    assert status == 303 and "HttpOnly" in headers["Set-Cookie"] and "SameSite=Strict" in headers["Set-Cookie"]
    assert Visit(server, token).ask("GET", "/artists")[0] == 200 and "for Zoe" in operator.ask("GET", "/desk")[2]
    assert buyer.post("/desk/token", role=OPERATOR)[0] == 403
    start = next(start for start, _, note, _ in desk.tokens() if note == "for Zoe")
    assert operator.post(f"/desk/token/{start}/remove")[0] == 303
    assert Visit(server, token).ask("GET", "/artists")[0] == 403
    assert nobody.ask("POST", "/enter", "token=wrong")[0] == 403
    invitation = desk.issue(INVITATION)
    assert nobody.ask("POST", "/enter", f"token={invitation}")[0] == 400
    assert all(desk.issue(INVITATION).isalnum() for _ in range(20))  # none looks like a flag to enrol
    assert token.encode() not in server.app._catalogue.path.read_bytes()  # tokens are kept as digests


def test_what_other_pages_and_scripts_cannot_do(server, desk, artists):
    buyer = Visit(server, desk.issue(BUYER))
    _, headers, page = buyer.ask("GET", "/artists")
    assert EVIL not in page and page.count("&lt;img") >= 5
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and headers["X-Frame-Options"] == "DENY"
    assert "<script>" not in page and "style=" not in page and "http://" not in page
    assert buyer.post("/leave", code="wrong")[0] == buyer.post("/leave", code="")[0] == 400
    body = urllib.parse.urlencode({"code": buyer.code()})
    for elsewhere in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": "null"}):
        assert buyer.ask("POST", "/leave", body, **elsewhere)[0] == 403
    assert buyer.ask("POST", "/leave", body, Origin=server_url(server))[0] == 303
    assert buyer.ask("GET", "/", Host="evil.example")[0] == 403
    assert buyer.ask("GET", "/nothing")[0] == 404 and buyer.ask("POST", "/artists", "x=1")[0] == 405
    for path in ("/picture/none/0", "/picture/x/99999999999999999999", "/artist/%00", "/../../etc/passwd", "/%ff"):
        assert buyer.ask("GET", path)[0] == 404, path


def test_pictures_that_are_refused(server, desk, artists, paintings):
    buyer = Visit(server, desk.issue(BUYER))
    good = (paintings / "queries" / "Ada" / "0.png").read_bytes()
    wide = cv2.imencode(".png", np.zeros((1, 1), np.uint8))[1].tobytes()
    huge = wide[:16] + (60000).to_bytes(4, "big") * 2 + wide[24:]
    for contents, why in (
        (b"", "choose a picture first"), (b"GIF89a" + bytes(100), "not a PNG or JPEG picture"), (good[:-300], "PNG"),
        (huge, "too large: 60000 × 60000"), (b"<svg onload=alert(1)>", "not a PNG or JPEG picture"),
    ):  # fmt: skip
        status, _, page = buyer.show(contents)
        (said,) = re.findall(r'id="told"[^>]*>([^<]*)', page)
        assert status == 400 and why in said and "\n" not in said, said
    assert buyer.show(bytes(12_500_000))[0] == 413
    assert buyer.show(good, code="wrong")[0] == 400 and buyer.show(good)[0] == 200


def test_what_an_enrolment_may_be(server, desk, artists, bundle, paintings, tmp_path, capsys):
    held: Catalogue = server.app._catalogue
    width, encoder = int(held.about["width"]), held.about["encoder"]

    def send(token, **changes):
        content = {
            "name": "New", "words": "", "pictures": 3, "spread": "", "consent": catalogue.CONSENT, "published": [],
            "prototype": base64.b64encode(np.zeros(width, "<f4")).decode(), "encoder": encoder, **changes,
        }  # fmt: skip
        status, _, text = Visit(server).ask(
            "POST", "/api/artists", json.dumps(content), kind="application/json", Authorization=f"Bearer {token}"
        )
        return status, json.loads(text).get("problem", "")

    invitation = desk.issue(INVITATION)
    for changes, why in (
        ({"prototype": "AAAAAA=="}, "finite numbers"), ({"prototype": "!"}, "expected JSON"),
        ({"spread": "AAAAAA=="}, "expected JSON"), ({"spread": None}, "expected JSON"),
        ({"consent": "yes"}, "consent"), ({"encoder": "other"}, "another bundle"), ({"name": "Ada"}, "already"),
        ({"pictures": "many"}, "expected JSON"), ({"name": "a\nb"}, "one line"),
        ({"published": [base64.b64encode(b"<svg/>").decode()]}, "not a PNG or JPEG"),
        ({"published": ["AAAA"] * 4}, "expected JSON"), ({"pictures": 1e400}, "expected JSON"),
    ):  # fmt: skip
        status, problem = send(invitation, **changes)
        assert status == 400 and why in problem, (changes, problem)
    assert send(desk.issue(BUYER))[0] == send("")[0] == send("x" * 5000)[0] == 403
    assert send(invitation)[0] == 201 and send(invitation, name="Second")[0] == 403  # it serves once
    assert held.withdraw(held.rows("SELECT id FROM artists WHERE name = 'New'")[0][0])
    given = [
        str(bundle),
        str(paintings / "gallery" / "Ada"),
        "--name",
        "X",
        "--consent",
        "-o",
        str(tmp_path / "x.json"),
    ]
    for address, why in (
        ("http://example.org:1", "in the clear"), ("ftp://x", "expected https"), ("http://127.0.0.1:1", "no answer"),
    ):  # fmt: skip
        assert enrol.main([*given, "--server", address, "--invitation", "x"]) == 2 and why in capsys.readouterr().err
    assert enrol.main(given) == 2 and "--catalogue: give it, or --server" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_nothing_is_left_of_who_withdraws(server, desk, artists, paintings):
    held, dee = server.app._catalogue, Visit(server, key_of(artists["Dee"]))
    artist = json.loads(artists["Dee"].read_text())["artist"]
    buyer = Visit(server, desk.issue(BUYER))
    assert order_of(buyer.show((paintings / "queries" / "Dee" / "0.png").read_bytes())[2])[0] == "Dee"
    buyer.post(f"/artist/{artist}/request", words="yellow", contact="yellow@example.org")
    assert dee.post("/withdraw")[0] == 400 and artist.encode() in held.path.read_bytes()
    assert "You have left" in dee.post("/withdraw", sure="yes")[2]
    contents = held.path.read_bytes()
    assert artist.encode() not in contents and b"yellow@example.org" not in contents
    assert dee.ask("GET", "/inbox")[0] == 403 and "Dee" not in buyer.ask("GET", "/artists")[2]
    assert any("(withdrawn)" in row for row in [Visit(server, desk.issue(OPERATOR)).ask("GET", "/desk")[2]])
    assert withdraw.main([str(artists["Bo"])]) == 0 and withdraw.main([str(artists["Bo"])]) == 2


def test_limits():
    now = [0.0]
    limits = Limits({"ask": (2, 10.0)}, {"ask": (3, 1.0)}, clock=lambda: now[0])
    assert [limits.wait("ask", "a") for _ in range(3)] == [0, 0, 10]
    assert limits.wait("ask", "b") == 0 and limits.wait("ask", "c") == 1  # all together
    now[0] = 10.0
    assert limits.wait("ask", "a") == 0 and limits.wait("ask", "a") == 10


def test_too_often(server, desk, artists, monkeypatch):
    monkeypatch.setattr(server.app, "_limits", Limits({"enter": (1, 60.0)}, {}))
    visit = Visit(server)
    assert [visit.ask("POST", "/enter", "token=x")[0] for _ in range(2)] == [403, 429]


def test_where_it_listens(server, capsys):
    assert address_of("[::1]:80") == ("::1", 80) and "a.org" in names_of("0.0.0.0", 80, ["a.org"])
    for wrong in ("8000", "x:y", "x:99999"):
        with pytest.raises(UserError, match="--listen"):
            address_of(wrong)
    with pytest.raises(UserError, match="--listen"):
        Server("127.0.0.1", server.port, None)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_the_whole_way_in_a_browser(server, desk, artists, bundle, tmp_path):
    """An artist enrols, a buyer asks with a picture, finds them, commissions; the artist reads it, and withdraws."""
    COLOURS.setdefault("Fay", (120, 40, 170))
    with contextlib.ExitStack() as stack:
        stack.callback(COLOURS.pop, "Fay")
        for number in range(4):
            paint(tmp_path / "own" / f"{number}.png", "Fay", number)
        asked = paint(tmp_path / "asked.png", "Fay", 50)
        arguments = [
            bundle, tmp_path / "own", "--name", "Fay", "--consent", "--server", server_url(server), "--invitation",
            desk.issue(INVITATION), "-o", tmp_path / "key.json",
        ]  # fmt: skip
        assert enrol.main(list(map(str, arguments))) == 0
        page = stack.enter_context(browser(tmp_path / "profile"))

        def come_in(token: str) -> None:
            page.open(server_url(server) + "/")
            page.fill("input[name=token]", token)
            page.click("main form button")
            page.until("document.querySelector('#ask') !== null")

        come_in(desk.issue(BUYER))
        page.choose_file("input[type=file]", asked)
        page.until("document.querySelector('.drop img').naturalWidth > 0")  # it is seen before it is sent
        page.click("#ask button")
        page.until("document.querySelectorAll('#answer li').length > 2")
        names = page.run("[...document.querySelectorAll('#answer li:not(.none) h3')].map((each) => each.innerText)")
        assert "Fay" in names[:3], names
        assert page.run("document.querySelectorAll('main img[onerror]').length") == 0
        page.size(390, 800)
        assert page.run("document.documentElement.scrollWidth") <= 390
        page.run("[...document.querySelectorAll('#answer h3 a')].find((each) => each.innerText === 'Fay').click()")
        page.fill("textarea[name=words]", "a violet evening")
        page.fill("input[name=contact]", "buyer@example.org")
        page.click("main form button")
        page.until("document.body.innerText.includes('Sent. Fay')")
        page.click("nav form button")  # signs out
        page.until("document.querySelector('input[name=token]') !== null")
        come_in(key_of(tmp_path / "key.json"))
        page.click("nav a[href='/inbox']")
        page.until("document.body.innerText.includes('a violet evening')")
        page.click("input[name=sure]")
        page.click("form[action='/withdraw'] button")
        page.until("document.body.innerText.includes('You have left')")
        page.open(server_url(server) + "/")
        page.until("document.querySelector('input[name=token]') !== null")
    assert "Fay" not in {name for (name,) in server.app._catalogue.rows("SELECT name FROM artists")}
