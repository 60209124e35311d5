"""Hashes of files that are remembered: never a wrong one, whatever happened to the file, the memo or its neighbours."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture import ROOT
from tffapps.data import digests
from tffapps.errors import UserError

LONG_AGO = 1_600_000_000


@pytest.fixture(autouse=True)
def grown_up(monkeypatch):
    """The inode's time of a test's files is now: they would not be remembered."""
    monkeypatch.setattr(digests, "_YOUNG", -1)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "images").mkdir()
    paths = [tmp_path / "images" / f"{number}.png" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 100)
    return [str(path) for path in paths]


@pytest.fixture
def memo(tmp_path):
    return tmp_path / "cache" / "digests.json"


@pytest.fixture
def reads(monkeypatch):
    """The files that were read."""
    read, seen = Path.read_bytes, []
    monkeypatch.setattr(Path, "read_bytes", lambda path: seen.append(str(path)) or read(path))
    return seen


def by_hand(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def test_a_file_that_did_not_change_is_read_once(files, memo, reads):
    expected = {path: by_hand(path) for path in files}
    assert digests.sha256_of([*files, files[0]], memo) == expected
    assert reads == files
    assert digests.sha256_of(files[::-1], memo) == expected
    assert reads == files


def test_it_is_known_by_its_whole_path(files, memo, reads, tmp_path, monkeypatch):
    digests.sha256_of(files[:1], memo)
    monkeypatch.chdir(tmp_path / "images")
    assert digests.sha256_of(["0.png"], memo) == {"0.png": by_hand("0.png")}
    assert len(reads) == 1


def change_size(path):
    Path(path).write_bytes(b"longer" * 100)


def change_content(path):
    Path(path).write_bytes(b"x" * 100)


def change_behind_its_date(path):
    """As `cp -p` and rsync do: the same size, the same date."""
    before = os.stat(path)
    Path(path).write_bytes(b"y" * 100)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def put_in_its_place(path):
    before = os.stat(path)
    Path(f"{path}.new").write_bytes(b"z" * 100)
    os.utime(f"{path}.new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(f"{path}.new", path)


@pytest.mark.parametrize("change", [change_size, change_content, change_behind_its_date, put_in_its_place])
def test_a_changed_file_is_read_anew(files, memo, change):
    before = digests.sha256_of(files, memo)
    change(files[2])
    after = digests.sha256_of(files, memo)
    assert after == {path: by_hand(path) for path in files}
    assert [path for path in files if after[path] != before[path]] == [files[2]]


def test_a_file_that_was_just_written_is_not_remembered(files, memo, monkeypatch):
    monkeypatch.setattr(digests, "_YOUNG", 2_000_000_000)
    digests.sha256_of(files, memo)
    assert not memo.exists()


def test_a_file_that_changes_while_it_is_read_is_not_remembered(files, memo, monkeypatch):
    read = Path.read_bytes

    def read_and_write(path):
        content = read(path)
        if path.name == "1.png":
            path.write_bytes(b"meanwhile")
        return content

    monkeypatch.setattr(Path, "read_bytes", read_and_write)
    digests.sha256_of(files, memo)
    assert sorted(json.loads(memo.read_text())) == [files[0], *files[2:]]


DAMAGES = {
    "not JSON": lambda known: "{",
    "cut off": lambda known: json.dumps(known)[:-20],
    "not a mapping": lambda known: "[1, 2]",
    "too deep": lambda known: "[" * 100_000,
    "no lists": lambda known: json.dumps(dict.fromkeys(known, 3)),
    "empty lists": lambda known: json.dumps({path: [] for path in known}),
    "a path for a hash": lambda known: json.dumps({path: [*row[:-1], "../" * 21 + "x"] for path, row in known.items()}),
    "a number for a hash": lambda known: json.dumps({path: [*row[:-1], 7] for path, row in known.items()}),
    "another file's": lambda known: json.dumps(dict(zip(known, [*known.values()][1:]))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_memo_is_not_believed(files, memo, damage):
    for number, path in enumerate(files):  # no two of one date
        os.utime(path, (LONG_AGO + number, LONG_AGO + number))
    expected = digests.sha256_of(files, memo)
    memo.write_text(DAMAGES[damage](json.loads(memo.read_text())))
    assert digests.sha256_of(files, memo) == expected


def test_files_that_are_gone_are_forgotten(files, memo):
    digests.sha256_of(files[:3], memo)
    os.unlink(files[0])
    digests.sha256_of(files[3:], memo)
    assert sorted(json.loads(memo.read_text())) == files[1:]


def test_a_memo_that_cannot_be_written_ends_nothing(files, tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert digests.sha256_of(files, tmp_path / "file" / "memo") == {path: by_hand(path) for path in files}


def test_a_file_that_is_gone_is_named(files, memo, tmp_path):
    with pytest.raises(UserError, match=r"nothing\.png: cannot be opened: No such file or directory"):
        digests.sha256_of([*files, str(tmp_path / "nothing.png")], memo)


WRITER = """
import sys
from pathlib import Path
from tffapps.data import digests
digests._YOUNG = -1
memo, *files = sys.argv[1:]
for file in files:
    for path, found in digests.sha256_of([file], Path(memo)).items():
        assert found == digests.hashlib.sha256(Path(path).read_bytes()).hexdigest()
"""


def test_two_processes_at_once(memo, tmp_path):
    halves = [[str(tmp_path / f"{half}-{number}") for number in range(150)] for half in "ab"]
    for path in (path for half in halves for path in half):
        Path(path).write_text(path)
    command = [sys.executable, "-c", WRITER, str(memo)]
    processes = [subprocess.Popen([*command, *half], env={**os.environ, "PYTHONPATH": str(ROOT)}) for half in halves]
    assert [process.wait(60) for process in processes] == [0, 0]
    known = json.loads(memo.read_text())  # whole; what one lost of the other's is worked out again
    assert len(known) >= 150 and all(entry[-1] == by_hand(path) for path, entry in known.items())
    assert [path.name for path in memo.parent.iterdir()] == [memo.name]
