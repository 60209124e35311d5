import json
import os
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from tffapps.data import cache
from tffapps.data.cache import cached_images
from tffapps.errors import Rejected, RunStopped, UserError

CALLS = []


def invert(contents, strength=255):
    """What is cached in these tests."""
    CALLS.append(strength)
    image = cv2.imdecode(np.frombuffer(contents, np.uint8), cv2.IMREAD_GRAYSCALE)
    if image is None:
        raise Rejected("not an image\nat all")
    return cv2.imencode(".png", strength - image)[1].tobytes()


def buggy(contents):
    raise ZeroDivisionError("a mistake")


def deadly(contents):
    os._exit(9)


@pytest.fixture(autouse=True)
def forget_calls():
    CALLS.clear()
    invert.__dict__.pop("version", None)
    yield
    invert.__dict__.pop("version", None)


def run(paths, folder, function=invert, parameters=None, workers=1):
    return cached_images(paths, function, parameters or {}, folder, workers=workers, progress=False)


def test_the_answer_is_stored_and_not_worked_out_again(numbered, tmp_path):
    results, rejects = run(numbered, tmp_path / "c")
    assert rejects == {} and len(CALLS) == 11
    for number, result in enumerate(results):
        assert cv2.imread(str(result), cv2.IMREAD_UNCHANGED).max() == 255 - number
        assert result.parent.parent.parent == tmp_path / "c"
        assert result.stem.startswith(result.parent.parent.name + result.parent.name)
    assert run(numbered, tmp_path / "c") == (results, {})
    assert len(CALLS) == 11


def test_content_and_settings_are_the_key(numbered, tmp_path):
    (first,), _ = run(numbered[:1], tmp_path / "c")
    moved = tmp_path / "moved.png"
    os.replace(numbered[0], moved)
    assert run([moved], tmp_path / "c")[0] == [first]  # a Path, and another name
    assert len(CALLS) == 1
    assert run([moved], tmp_path / "c", parameters={"strength": 200})[0] != [first]
    assert CALLS == [255, 200]
    invert.version = 2
    assert run([moved], tmp_path / "c")[0] != [first]
    moved.write_bytes(Path(numbered[1]).read_bytes())
    assert run([moved], tmp_path / "c")[0] != [first]
    assert len(CALLS) == 4


def test_the_order_of_parameters_does_not_matter(tmp_path):
    keys = [cache._keys([__file__], invert, parameters, 1) for parameters in ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
    assert keys[0] == keys[1]


def test_equal_files_are_worked_out_once(numbered, tmp_path):
    copy = tmp_path / "copy.png"
    copy.write_bytes(Path(numbered[3]).read_bytes())
    (first, second, third), _ = run([numbered[3], copy, numbered[3]], tmp_path / "c")
    assert first == second == third and len(CALLS) == 1


def test_rejections_are_remembered(numbered, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_text("hello")
    for _ in range(2):
        results, rejects = run([numbered[0], str(bad)], tmp_path / "c")
        assert results[0] is not None and results[1] is None
        assert rejects == {str(bad): "not an image at all"}
    assert len(CALLS) == 2


def test_a_missing_file_is_a_reject_until_it_is_back(numbered, tmp_path):
    gone = str(tmp_path / "gone.png")
    results, rejects = run([gone], tmp_path / "c")
    assert results == [None] and rejects == {gone: "cannot be opened: No such file or directory"}
    os.replace(numbered[0], gone)
    assert run([gone], tmp_path / "c")[0][0] is not None


def test_half_written_files_are_not_taken_for_results(numbered, tmp_path):
    (first,), _ = run(numbered[:1], tmp_path / "c")
    whole = first.read_bytes()
    # What a kill in the middle of writing leaves behind.
    first.rename(first.with_name(f".{first.name}.12345.tmp"))
    first.with_name(f".{first.name}.12345.tmp").write_bytes(whole[:20])
    assert run(numbered[:1], tmp_path / "c") == ([first], {})
    assert first.read_bytes() == whole and len(CALLS) == 2
    first.write_bytes(b"")  # what a power cut may
    assert run(numbered[:1], tmp_path / "c") == ([first], {})
    assert first.read_bytes() == whole and len(CALLS) == 3


def test_a_full_disk_leaves_nothing(numbered, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RunStopped, match="no space"):
        run(numbered[:1], tmp_path / "c")
    assert [file for file in (tmp_path / "c").rglob("*") if file.is_file()] == []


def test_a_folder_that_cannot_be_written(numbered, tmp_path):
    (tmp_path / "c").write_text("a file")
    with pytest.raises(UserError, match="cannot write"):
        run(numbered[:1], tmp_path / "c")


def test_a_mistake_in_the_function_names_the_file(numbered, tmp_path):
    with pytest.raises(RuntimeError, match=r"buggy failed on .*/0\.png: ZeroDivisionError: a mistake"):
        run(numbered[:1], tmp_path / "c", function=buggy)


def test_functions_other_processes_cannot_import_are_refused(numbered, tmp_path):
    with pytest.raises(TypeError, match="top level"):
        run(numbered, tmp_path / "c", function=lambda contents: contents)


def test_several_processes_give_the_same(numbered, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_text("hello")
    paths = [*numbered, str(bad)]
    alone, rejects = run(paths, tmp_path / "one")
    CALLS.clear()
    several, same_rejects = run(paths, tmp_path / "two", workers=2)
    assert CALLS == []  # none of it was done here
    assert rejects == same_rejects and len(rejects) == 1
    for one, two in zip(alone[:-1], several[:-1]):
        assert one.name == two.name and one.read_bytes() == two.read_bytes()


def test_a_killed_process_is_reported(numbered, tmp_path):
    with pytest.raises(RunStopped, match="run the same command again"):
        run(numbered, tmp_path / "c", function=deadly, workers=2)


def test_progress_in_plain_lines(numbered, tmp_path, capsys):
    cached_images(numbered, invert, {}, tmp_path / "c", workers=1)
    assert "invert: 11/11" in capsys.readouterr().err
    cached_images(numbered, invert, {}, tmp_path / "c", workers=1)
    assert capsys.readouterr().err == ""  # nothing was left to do


_SLOW = """
import time
def slow(contents):
    time.sleep(60)
"""
_MAIN = """
import sys, json
from tffapps.data.cache import cached_images
from slow_function import slow
if __name__ == "__main__":
    cached_images(json.loads(sys.argv[1]), slow, {}, sys.argv[2], workers=2, progress=False)
"""


def test_no_process_outlives_a_killed_parent(numbered, tmp_path):
    (tmp_path / "slow_function.py").write_text(_SLOW)
    (tmp_path / "main.py").write_text(_MAIN)
    root = Path(cache.__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "main.py"), json.dumps(numbered), str(tmp_path / "c")],
        env={**os.environ, "PYTHONPATH": f"{root}:{tmp_path}"},
    )
    try:
        assert wait_until(lambda: len(spawned_by(parent.pid)) == 2)
        children = spawned_by(parent.pid)
        time.sleep(2)  # until they have begun
    finally:
        parent.kill()
        parent.wait()
    assert wait_until(lambda: not any(is_running(child) for child in children))


def wait_until(condition, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def spawned_by(parent):
    """The process ids of its pool, without the helper that tracks its semaphores."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in listed if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
