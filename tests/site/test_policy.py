"""A site's policy and its log: what is wrong with a file, and what was done to a log, in one line."""

from __future__ import annotations

import json

import pytest

from tffapps.errors import UserError
from tffapps.site import __main__ as commands
from tffapps.site import log as logs
from tffapps.site import policy
from tffapps.site.relay import Call, Refused
from tffapps.wire import jobs


def read(tmp_path, text: str) -> policy.Policy:
    file = tmp_path / "policy.ini"
    file.write_text(text)
    return policy.read(file)


def test_what_is_not_given_is_the_default(tmp_path, capsys):
    assert read(tmp_path, "") == policy.default() and policy.default().methods is None
    assert commands.main(["policy"]) == 0
    assert read(tmp_path, capsys.readouterr().out) == policy.default()
    given = read(
        tmp_path,
        "[work]\nmethods = fedavg, fedprox\njobs = none\n[rounds]\na_day = 7\n[answers]\nlargest = 20M\n"
        "predictions = no\n[privacy]\nepsilon = 8\ndelta = 1e-5\n",
    )
    assert given.methods == {"fedavg", "fedprox"} and given.jobs == frozenset() and given.a_day == 7
    assert given.largest == 20 * 2**20 and not given.predictions and (given.epsilon, given.delta) == (8.0, 1e-5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("methods = fedavg", "not a policy"),
        ("[wrok]", r"\[wrok\] is no section; there are work, rounds"),
        ("[rounds]\nper_day = 3", r"\[rounds\] per_day: no such key; there are of_a_run, a_day"),
        ("[rounds]\na_day = -3", r"\[rounds\] a_day = -3: give a whole number"),
        ("[answers]\nlargest = much", r"\[answers\] largest = much: give a number of bytes, such as 500K"),
        ("[answers]\npredictions = 1", r"\[answers\] predictions = 1: give yes or no"),
        ("[work]\nmethods = any, fedavg", r"\[work\] methods = any, fedavg: give names with commas"),
        ("[privacy]\nepsilon = 3", r"\[privacy\]: give both epsilon and delta, or neither"),
        ("[privacy]\nepsilon = nan\ndelta = 0.1", r"\[privacy\] epsilon = nan: give a number above 0"),
    ],
)
def test_what_is_wrong_with_a_policy(tmp_path, text, said):
    with pytest.raises(UserError, match=rf"^--policy \S*policy.ini: {said}"):
        read(tmp_path, text)


@pytest.fixture
def log(tmp_path):
    """A log of five lines, and its folder."""
    folder = tmp_path / "log"
    one = logs.Log(folder)
    one.served(what="5 images")
    one.write(Call("coordinator", "About", jobs.About("classify", "fedavg", "run-1").to_bytes()), "passed", 0)
    one.write(Call("coordinator", "CreateValue", b"12345", what="computation"), "refused: no", 0)
    one.write(Call("coordinator", "Ask", jobs.to_ask("0" * 20, "a")), "passed", 0)  # only looks: not written
    one.write(Call("coordinator", "Compute", b"1", what="update of 5 images", spent={"epsilon": 0.5}), "passed", 99)
    one.write(Call("coordinator", "Dispose", b"1"), "passed", 0)
    one.close()
    return folder


def test_a_log_is_shown_and_gone_on_with(log, capsys):
    assert commands.main(["log", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and "coordinator  About  classify fedavg: run-1" in lines[1]
    assert lines[3].endswith("Compute  update of 5 images  1 in, 99 out  passed  spent epsilon=0.5")
    assert lines[5].startswith("5 lines, none changed, removed or cut off; the last is 5:")
    head = lines[5].rpartition(" ")[2]
    assert commands.main(["log", str(log), "--refused"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    again = logs.Log(log)
    with pytest.raises(UserError, match="another process writes this log"):
        logs.Log(log)
    again.served(what="5 images")
    again.close()
    assert logs.check(log, logs.parse_head(head)).lines == 6


def edited(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[3].replace(b"99", b"98"), *lines[4:]]


def made_anew(lines: list[bytes]) -> list[bytes]:
    """By somebody who knows how hashes are made."""
    before, found = "0" * 64, []
    for number, content in enumerate([*lines[:2], *lines[3:]], 1):
        line = {**json.loads(content), "line": number}
        del line["hash"]
        before = logs._hash(before, line)
        found.append(json.dumps({**line, "hash": before}).encode() + b"\n")
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edited, "line 4 was changed, or what is before it"),
        (lambda lines: [*lines[:2], *lines[3:]], "line 3 says it is line 4: lines were removed or put in before it"),
        (lambda lines: lines[:4], "lines were cut off at the end: 4 lines are there, last says 5"),
        (lambda lines: [*lines[:4], lines[4][:20]], "line 5 cannot be read"),
        (lambda lines: [], "lines were cut off at the end: 0 lines are there"),
        (made_anew, "lines were cut off at the end: 4 lines are there, last says 5"),
    ],
)
def test_what_was_done_to_a_log_is_found(log, change, said, capsys):
    file = log / logs.LINES
    file.write_bytes(b"".join(change(file.read_bytes().splitlines(keepends=True))))
    assert commands.main(["log", str(log)]) == 2
    assert said in capsys.readouterr().err
    with pytest.raises(UserError, match="to begin anew keep that folder"):
        logs.Log(log)


def test_who_changes_both_files_is_found_by_what_others_know(log):
    known, file = logs.check(log), log / logs.LINES
    file.write_bytes(b"".join(made_anew(file.read_bytes().splitlines(keepends=True))))
    last = json.loads(file.read_bytes().splitlines()[-1])
    (log / logs.LAST).write_text(f"{last['line']}:{last['hash']}\n")
    assert logs.check(log).lines == 4
    with pytest.raises(UserError, match="4 lines are there, the hash that was given says 5"):
        logs.check(log, known)
    with pytest.raises(UserError, match="line 3 is another than the hash that was given says"):
        logs.check(log, logs.Head(3, known.hash))


def test_what_cannot_be_written_does_not_pass(log, monkeypatch):
    one = logs.Log(log)

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(logs.os, "fsync", fails)
    with pytest.raises(Refused, match="the site cannot write its log"):
        one.write(Call("coordinator", "Compute", b"1"), "passed", 9)
    monkeypatch.undo()
    one.write(Call("coordinator", "Compute", b"1"), "passed", 9)
    one.close()
    assert logs.check(log).lines == 6
