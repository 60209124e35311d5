"""What a site prepares when it is asked: done there, once, found again, refused or failed in one line."""

from __future__ import annotations

import logging
import pathlib
import time

import numpy as np
import pytest

from tests.site.conftest import files
from tffapps.data import published
from tffapps.engine import open_engine
from tffapps.errors import RunStopped, UserError
from tffapps.site import data, job
from tffapps.site.mailbox import Mailbox
from tffapps.site.relay import Refused
from tffapps.wire import jobs
from tffapps.wire.messages import Message


@pytest.fixture
def registered(monkeypatch, tmp_path):
    """A system of this test and its jobs, found by every process that is started."""
    package = tmp_path / "counting"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from tffapps.app import App\n"
        "APP = App('counting', __name__, '', '', (), {'demo': {}}, ())\n"
    )  # fmt: skip
    (package / "jobs.py").write_text(
        "from tffapps.site.jobs import link_all, rows_asked\n"
        "from tffapps.wire.messages import Message\n"
        "def count(request, rows, folder):\n"
        "    asked = rows_asked(request, rows)\n"
        "    (folder / 'log').write_text('done')\n"
        "    link_all(folder, list(asked.path))\n"
        "    return Message({'labels': list(asked.label)}, {'double': 2 * request.arrays['values']})\n"
        "def fail(request, rows, folder):\n"
        "    raise ValueError(rows.path[0])\n"
        "JOBS = {'count': count, 'fail': fail}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TFFAPPS_SYSTEMS", "counting")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def request(job: str, *numbers: int, values: float = 1.5) -> Message:
    arrays = {"rows": np.array(numbers, np.int64), "values": np.array([values, 0.0])}
    return Message({jobs.JOB: f"counting/{job}"}, arrays)


def test_a_parcel_arrives_as_it_was():
    sent = Message({"a": [1, "ä"]}, {"x": np.zeros((2, 3), np.float32), "y": np.arange(4)})
    arrived = Message.from_bytes(sent.to_bytes(), "a")
    assert arrived.fields == sent.fields and list(arrived.arrays) == ["x", "y"]
    np.testing.assert_array_equal(arrived.arrays["y"], sent.arrays["y"])
    assert arrived.identity == sent.identity
    assert sent.identity != Message(sent.fields, {"x": np.ones((2, 3), np.float32), "y": np.arange(4)}).identity
    assert sent.to_bytes().rstrip(b"\0") == sent.to_bytes()


@pytest.mark.parametrize("content", [b"", b"no message", Message({}).to_bytes()[:-20]])
def test_what_is_no_parcel(content):
    with pytest.raises(UserError, match="site a sent something that cannot be read"):
        Message.from_bytes(content, "site a")


@pytest.fixture
def mailbox(registered, noise):
    """The mailbox of site a, and its worker's folder."""
    table = data.load(noise, "a")
    description = data.describe(table, "a")
    with data.working_folder(table, description) as folder:
        mailbox = Mailbox(folder, table, description)
        yield mailbox, folder, table, description
        mailbox.close()


def ask(mailbox: Mailbox, wanted: Message, asking: str = "first") -> Message:
    """As a coordinator does."""
    take = mailbox.methods[jobs.ASK]
    assert take("coordinator", jobs.to_ask(wanted.identity, asking, wanted.to_bytes())) == b""
    deadline = time.monotonic() + 60
    while not (answer := take("coordinator", jobs.to_ask(wanted.identity, asking))):
        assert time.monotonic() < deadline
        mailbox.look()
        time.sleep(0.05)
    return Message.from_bytes(answer, "site a")


def test_rows_are_in_the_order_that_is_published(mailbox, caplog):
    caplog.set_level(logging.INFO)
    mailbox, folder, _, description = mailbox
    listed = published.relative_manifest(description)
    numbers = [int(np.flatnonzero(listed.split == "test")[0]), 0]
    wanted = request("count", *numbers)
    answer = ask(mailbox, wanted)
    assert answer.fields["labels"] == [listed.label[row] for row in numbers]
    np.testing.assert_array_equal(answer.arrays["double"], [3.0, 0.0])
    for number, row in enumerate(numbers):
        made = folder / jobs.made_path(wanted.identity, number)
        assert made.read_bytes() == (folder / listed.path[row]).read_bytes()
    assert [r.message.split(",")[0] for r in caplog.records] == ["asked to do counting/count", "counting/count is done"]


def test_what_was_made_is_found_again(mailbox):
    mailbox, folder, table, description = mailbox
    wanted = request("count", 0)
    ask(mailbox, wanted)
    kept = folder / "made" / wanted.identity / "log"
    kept.write_text("not done again")
    ask(mailbox, wanted, "second")
    assert kept.read_text() == "not done again"
    with data.working_folder(table, description) as other:  # the site was started again
        Mailbox(other, table, description)
        assert (other / jobs.made_path(wanted.identity, 0)).exists()
    changed = {**description, "fingerprint": "0" * 16}
    with data.working_folder(table, changed) as other:  # with other images
        Mailbox(other, table, changed)
        assert not (other / jobs.made_path(wanted.identity, 0)).exists()


def test_what_was_made_and_is_gone_is_made_again(mailbox):
    mailbox, folder, table, _ = mailbox
    wanted = request("count", 0)
    ask(mailbox, wanted)
    made = folder / jobs.made_path(wanted.identity, 0)
    made.unlink()
    made.symlink_to("nowhere")  # as when a cache is emptied
    ask(mailbox, wanted, "second")
    assert made.read_bytes() in [pathlib.Path(path).read_bytes() for path in table.path]


def test_failures_say_no_names_and_can_be_tried_again(mailbox, capfd):
    mailbox, _, table, _ = mailbox
    for asking in ("first", "second"):
        answer = ask(mailbox, request("fail", 0), asking)
        assert answer.fields == {"error": "ValueError; the site's log says more", "asking": asking}
    assert any(path in capfd.readouterr().err for path in table.path[table.split == "train"][:1])
    answer = ask(mailbox, request("count", 999))
    assert answer.fields["error"] == "a request about row 999 of 18"


@pytest.mark.parametrize("name", ["rm -rf", 7, None])
def test_nothing_else_is_done(mailbox, name):
    answer = ask(mailbox[0], Message({jobs.JOB: name}))
    assert answer.fields["error"].endswith("is nothing that this site does when asked")


def test_an_unwilling_site(registered, noise):
    table = data.load(noise, "a")
    description = data.describe(table, "a")
    with data.working_folder(table, description) as folder:
        unwilling = Mailbox(folder, table, description, willing=False)
        wanted = request("count", 0)
        content = unwilling.methods[jobs.ASK]("coordinator", jobs.to_ask(wanted.identity, "a", wanted.to_bytes()))
    answer = Message.from_bytes(content, "site a")
    assert "--no-jobs" in answer.fields["error"]
    assert not (registered / "data").exists()


def test_odd_requests_are_refused(mailbox, caplog):
    methods = mailbox[0].methods
    for content in (b"", b"../../x a\n", b"0123 a\nrequest", b"0" * 20 + b" \xff\nrequest"):
        with pytest.raises(Refused, match="a request without an id"):
            methods[jobs.ASK]("coordinator", content)
    for number in range(16):
        methods[jobs.ASK]("coordinator", jobs.to_ask(f"{number:020x}", "a", b"request"))
    with pytest.raises(Refused, match="16 requests are waiting already"):
        methods[jobs.ASK]("coordinator", jobs.to_ask("f" * 20, "a", b"request"))
    with caplog.at_level(logging.INFO):
        methods[jobs.TELL]("coordinator", b"round 1\nround 2\x1b[0m\n")
    assert caplog.records[-1].message == "round 1?round 2?[0m?"


def test_a_request_that_cannot_be_begun_is_answered(mailbox, monkeypatch):
    mailbox, *_ = mailbox
    wanted = request("count", 0, values=9.5)  # what no other test has done

    def full(*arguments):
        raise RunStopped("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Mailbox, "_do", full)
        answer = ask(mailbox, wanted)
    assert answer.fields == {"error": "the site cannot begin it (RunStopped); its log says more", "asking": "first"}
    for name in (job.REQUEST, job.ANSWER):  # a folder where a file is to be holds nothing up
        place = mailbox._store / wanted.identity / name
        place.mkdir(parents=True)
        begin = time.monotonic()
        assert ask(mailbox, wanted).fields["error"].startswith("the site cannot begin it (")
        assert time.monotonic() - begin < 2
        place.rmdir()


def test_over_the_network(registered, members, folder):
    wanted = request("count", 0, 1)
    addresses = ",".join(site.address for site in members)
    with open_engine(addresses, files(folder, "coordinator")) as engine:
        found = engine.ask({"a": wanted, "b": request("count", 2)})
        assert found["a"].fields["labels"] == ["class0", "class0"] and len(found["b"].fields["labels"]) == 1
        np.testing.assert_array_equal(found["a"].arrays["double"], [3.0, 0.0])
        with pytest.raises(RunStopped, match="site a could not do counting/fail: ValueError; the site's log says more"):
            engine.ask({"a": request("fail", 0)})
        engine.tell(["a", "nobody"], "a line")
        members[0].kill()
        with pytest.raises((RunStopped, UserError), match="localhost:"):
            engine.ask({"a": request("count", 1)})
