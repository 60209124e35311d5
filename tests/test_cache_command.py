"""`python -m tffapps cache`: what it lists, what it removes, and what it must never touch."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.architecture import ROOT
from tffapps import cache_command, cache_contents, cache_lock

NOW, DAY = time.time(), 24 * 60 * 60
ABOUT = {
    "network": "net", "weights": "imagenet", "cut": "block_3", "size": [96, 96, 3], "view": "weak", "views": 4,
    "shape": [6, 6, 96], "dtype": "float16",
}  # fmt: skip
BASE, OTHER = "features/net-0123456789ab", "features/net-ba9876543210"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path / "home"))
    handler = signal.getsignal(signal.SIGTERM)  # a command sets one
    yield tmp_path / "home"
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def cache(home):
    return home / "data" / "cache"


def write(file: Path, size: int = 10, days: float = 0) -> Path:
    """A file that was last used so many days ago."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    os.utime(file, (NOW - days * DAY,) * 2)
    return file


@pytest.fixture
def filled(cache):
    write(cache / "aligned/3f/a2/3fa2.png", 3000)
    write(cache / "aligned/3f/b1/3fb1.json", 20, days=50)
    write(cache / "generators/north-12345678/generator.npz", 5000, days=50)
    write(cache / "generators/north-12345678/samples/epoch-0005.png", 100)
    write(cache / "generators/south-12345678/generator.npz", 5000, days=50)
    for base, days in ((BASE, 50), (OTHER, 0)):
        write(cache / base / "ab/cd.f16", 6912, days=50)
        write(cache / base / "about.json", days=days).write_text(json.dumps(ABOUT))
        os.utime(cache / base / "about.json", (NOW, NOW - days * DAY))  # listing reads it
    write(cache / "features/digests.json", 7)
    write(cache / "features/12/34/1234.f16", 8, days=50)  # as earlier versions have them
    write(cache / "own-system/thing", 1)
    write(cache / "stray", 2)
    return cache


def below(folder: Path) -> set[str]:
    """The files and links in a folder, but for the lock."""
    paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {str(path.relative_to(folder)) for path in paths if path.name != ".in-use"}


def run(*arguments: str, capsys) -> tuple[int, str, str]:
    status = cache_command.main(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


def rows(text: str) -> dict[str, list[str]]:
    return {line.split("  ")[0]: re.split(r" {2,}", line)[1:] for line in text.splitlines()}


def test_what_lies_there_is_listed_by_kind(filled, capsys):
    status, out, _ = run(capsys=capsys)
    listed, today = rows(out), time.strftime("%Y-%m-%d", time.localtime(NOW))
    described = len(json.dumps(ABOUT))
    assert status == 0
    assert listed["aligned"] == ["2 files", "2.9 KiB", today, "images in another client's stains or look"]
    assert listed["generators"][:2] == ["3 files", "9.9 KiB"]
    assert listed["features"][:2] == ["6 files", f"{(2 * (6912 + described) + 15) / 1024:.1f} KiB"]
    then = time.strftime("%Y-%m-%d", time.localtime(NOW - 50 * DAY))
    what = "cut block_3, weights imagenet, images 96×96×3 weak, 4 views: 6×6×96 float16"
    assert listed[BASE] == ["2 files", f"{(6912 + described) / 1024:.1f} KiB", then, what]
    assert listed[OTHER][2] == today
    assert listed["own-system"][:2] == ["1 files", "1 B"] and listed["(other files)"][:2] == ["1 files", "2 B"]
    total = sum(path.stat().st_size for path in filled.rglob("*") if path.is_file())
    assert listed["total"] == ["13 files", f"{total / 1024:.1f} KiB"]
    assert len(listed) == 8 + 1  # and the line that says how to clean


def test_only_what_is_old_is_listed(filled, capsys):
    listed = rows(run("--older", "30", capsys=capsys)[1])
    assert {name: row[0] for name, row in listed.items() if row} == {
        "aligned": "1 files", "features": "3 files", BASE: "2 files", "generators": "1 files", "total": "5 files",
    }  # fmt: skip
    assert "nothing so old in" in run("--older", "60", capsys=capsys)[1]


def test_all_of_it_is_removed(filled, capsys):
    status, out, _ = run("--clean", capsys=capsys)
    assert status == 0 and below(filled) == set() and os.listdir(filled) == [".in-use"]
    assert "aligned: 2 files, 2.9 KiB" in out.splitlines()
    assert re.fullmatch(r"freed 2\d\.\d KiB of 13 files in .*/data/cache", out.splitlines()[-1])
    assert "nothing in" in run(capsys=capsys)[1]
    assert run("--clean", capsys=capsys)[0] == 0


def test_named_kinds_and_bases_are_removed_and_no_others(filled, capsys):
    before = below(filled)
    assert run("--clean", BASE, "generators", "stains", capsys=capsys)[0] == 0
    gone = before - below(filled)
    assert gone == {name for name in before if name.startswith((BASE, "generators/"))} and len(gone) == 5
    assert not (filled / BASE).exists() and not (filled / "generators").exists()
    run("--clean", "features", capsys=capsys)
    assert not (filled / "features").exists() and len(below(filled)) == 4


def test_what_belongs_together_is_as_young_as_its_youngest_part(filled, capsys):
    before = below(filled)
    assert run("--clean", "--older", "30", capsys=capsys)[0] == 0
    assert before - below(filled) == {
        "aligned/3f/b1/3fb1.json", "generators/south-12345678/generator.npz", f"{BASE}/about.json", f"{BASE}/ab/cd.f16",
        "features/12/34/1234.f16",
    }  # fmt: skip
    assert run("--clean", "aligned", "--older", "0", capsys=capsys)[0] == 0
    assert not (filled / "aligned").exists() and (filled / "own-system").exists()


def test_what_was_read_lately_is_not_old(cache, capsys):
    file = write(cache / "styled/3f/a2/x.png")
    os.utime(file, (NOW, NOW - 50 * DAY))  # read today, made long ago
    run("--clean", "--older", "30", capsys=capsys)
    assert file.exists()


@pytest.mark.parametrize(
    "kind", ["nothing", "", ".", "..", "../sites", "/", "features/..", "features/", "(other files)", ".in-use", "stray"]
)
def test_an_unknown_kind_removes_nothing(filled, kind, capsys):
    write(filled.parent / "sites" / "north" / "answer")
    before = below(filled.parent)
    status, out, err = run("--clean", "aligned", kind, capsys=capsys)
    assert status == 2 and out == "" and err.count("\n") == 1
    assert f"error: --clean {kind}: no such kind; choose from aligned, " in err
    assert below(filled.parent) == before


@pytest.mark.parametrize("days", ["-1", "nan", "inf"])
def test_days_that_are_none(filled, days, capsys):
    before = below(filled)
    status, _, err = run("--clean", f"--older={days}", capsys=capsys)
    assert status == 2 and "must be 0 or more days" in err and below(filled) == before


def test_links_are_neither_followed_nor_removed(filled, tmp_path, capsys):
    outside = [write(tmp_path / "outside" / name) for name in ("a.png", "deep/b.png")]
    links = [filled / "styled", filled / BASE / "linked", filled / BASE / "ab/file.f16", filled / "aligned/3f/c.png"]
    for link in links[:2]:
        link.symlink_to(tmp_path / "outside")
    for link in links[2:]:
        link.symlink_to(outside[0])
    out = run(capsys=capsys)[1]
    assert rows(out)["styled"] == ["a symbolic link: not followed"] and rows(out)["total"][0] == "13 files"
    assert "styled: a symbolic link, left as it is" in run("--clean", capsys=capsys)[1]
    assert all(file.exists() for file in outside) and all(link.is_symlink() for link in links)
    assert below(filled) == {str(link.relative_to(filled)) for link in links}


def test_the_cache_itself_may_lie_elsewhere(filled, tmp_path, capsys):
    os.rename(filled, tmp_path / "large-disk")
    filled.symlink_to(tmp_path / "large-disk")
    assert rows(run(capsys=capsys)[1])["total"][0] == "13 files"
    assert run("--clean", capsys=capsys)[0] == 0
    assert filled.is_symlink() and below(tmp_path / "large-disk") == set()


def test_a_folder_that_is_exchanged_for_a_link_meanwhile(filled, tmp_path, monkeypatch, capsys):
    outside = write(tmp_path / "outside" / "generator.npz")
    unlink, folder = os.unlink, filled / "generators" / "south-12345678"

    def exchanged(name, *, dir_fd=None):
        if name == "generator.npz" and not (tmp_path / "moved").exists() and os.fstat(dir_fd).st_ino == inode:
            os.rename(folder, tmp_path / "moved")
            folder.symlink_to(outside.parent)
        unlink(name, dir_fd=dir_fd)

    inode = folder.stat().st_ino
    monkeypatch.setattr(os, "unlink", exchanged)
    run("--clean", "generators", capsys=capsys)
    assert outside.exists() and folder.is_symlink() and list((tmp_path / "moved").iterdir()) == []


def test_what_cannot_be_removed_is_named(filled, monkeypatch, capsys):
    unlink = os.unlink

    def refused(name, *, dir_fd=None):
        if name == "3fa2.png":
            raise PermissionError(13, "Permission denied")
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refused)
    status, out, _ = run("--clean", "aligned", capsys=capsys)
    assert status == 1 and below(filled / "aligned") == {"3f/a2/3fa2.png"}
    assert f"PROBLEM  {filled}/aligned/3f/a2/3fa2.png: Permission denied" in out and "freed 20 B of 1 files" in out


@pytest.mark.parametrize(
    "about", ["", "[]", "{", '{"shape": 3, "size": null, "views": {"a": 1}}', '{"cut": "\\u001b[2J"}', "[" * 10**5]
)
def test_a_base_that_says_nonsense_of_itself(filled, about, capsys):
    (filled / BASE / "about.json").write_text(about)
    status, out, _ = run(capsys=capsys)
    assert status == 0 and "images ?" in rows(out)[BASE][3] and "\x1b" not in out
    assert run("--clean", BASE, capsys=capsys)[0] == 0 and not (filled / BASE).exists()


def test_no_cache_is_nothing(home, capsys):
    for arguments in ([], ["--clean"], ["--clean", "features"], ["--older", "3"]):
        status, out, _ = run(*arguments, capsys=capsys)
        assert status == 0 and out.startswith("nothing") and not home.exists()


HOLDER = """
import sys
from tffapps import cache_lock
with cache_lock.used():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def another_process(home):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TFFAPPS_HOME": str(home)}
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_nothing_is_removed_while_a_process_uses_the_cache(filled, home, capsys):
    before = below(filled)
    with another_process(home) as one, another_process(home):  # any number of them
        one.kill()
        one.wait()
        status, out, err = run("--clean", "--older", "30", capsys=capsys)
        assert status == 2 and out == "" and err.count("\n") == 1
        assert err.endswith("data/cache; wait for it or end it, then clean\n") and below(filled) == before
        assert run(capsys=capsys)[0] == 0  # a list may be had
    assert run("--clean", capsys=capsys)[0] == 0 and below(filled) == set()


def test_a_run_waits_until_it_is_clean(cache):
    cache.mkdir(parents=True)
    began = threading.Event()

    def begin():
        with cache_lock.used():
            began.set()

    with cache_lock.alone():
        thread = threading.Thread(target=begin, daemon=True)
        thread.start()
        assert not began.wait(0.3)
    assert began.wait(10)
    thread.join()


def test_a_cache_that_cannot_be_written_can_be_used(home):
    home.parent.mkdir(exist_ok=True)
    home.write_text("a file")
    with cache_lock.used():
        pass


def test_every_kind_that_the_systems_have_is_known():
    sources = [path.read_text() for path in (ROOT / "tffapps").rglob("*.py")]
    used = {kind for text in sources for kind in re.findall(r'\bcache(?:_folder\(\))? / "(\w+)"', text)}
    assert used == set(cache_contents.KINDS)


def test_features_say_what_they_are_where_it_is_looked_for():
    from tffapps.data import features

    assert features.ABOUT == cache_contents.ABOUT


def test_it_does_not_wait_for_tensorflow(filled):
    code = (
        "import sys; from tffapps import cache_command; cache_command.main(['--clean', 'aligned']);"
        "print([name for name in ('tensorflow', 'pandas', 'numpy') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and not (filled / "aligned").exists()
