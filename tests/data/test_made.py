"""Images made in stacks: what is made again and what is not, what is refused, what is left after a kill."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import cv2
import numpy as np
import pytest

from preprocessing import stain
from tffapps.data import made
from tffapps.data.made import decode, made_images, stacks
from tffapps.errors import Rejected, RunStopped

SETTINGS = {"function": "add", "version": 1}


class Adder:
    """Adds each image's own number to it, and remembers what it was asked for."""

    def __init__(self, parameters):
        self.parameters, self.calls = parameters, []

    def __call__(self, images, rows):
        self.calls.append((images.shape, list(rows)))
        return images + np.array([self.parameters[row] for row in rows], np.uint8)[:, None, None, None]

    @property
    def rows(self):
        return [row for _, rows in self.calls for row in rows]


def run(paths, parameters, folder, make=None, settings=SETTINGS, batch=4, **options):
    make = make or Adder(parameters)
    options = {"workers": 2, "progress": False, **options}
    return (*made_images(paths, parameters, make, settings, folder, batch=batch, **options), make)


def pixels(path):
    return cv2.imread(str(path), cv2.IMREAD_UNCHANGED)


def test_every_image_is_made_with_its_own_parameter(numbered, tmp_path):
    parameters = [10 * row for row in range(11)]
    results, rejects, make = run(numbered, parameters, tmp_path / "c")
    assert rejects == {} and make.rows == list(range(11))
    assert [shape for shape, _ in make.calls] == [(4, 4, 6, 3), (4, 4, 6, 3), (3, 4, 6, 3)]
    for number, result in enumerate(results):
        assert (pixels(result) == 11 * number).all() and pixels(result).shape == (4, 6, 3)
        assert result.parent.parent.parent == tmp_path / "c"
        assert result.stem.startswith(result.parent.parent.name + result.parent.name)


def test_nothing_is_made_twice(numbered, tmp_path):
    first, _, _ = run(numbered, [1] * 11, tmp_path / "c")
    again, rejects, make = run([Path(path) for path in numbered], [1] * 11, tmp_path / "c")
    assert make.calls == [] and again == first and rejects == {}


def test_a_changed_parameter_makes_one_image(numbered, tmp_path):
    first, _, _ = run(numbered, [1] * 11, tmp_path / "c")
    changed = [1] * 7 + [2] + [1] * 3
    again, _, make = run(numbered, changed, tmp_path / "c")
    assert make.rows == [7]
    assert [old == new for old, new in zip(first, again)] == [row != 7 for row in range(11)]
    assert (pixels(again[7]) == 9).all()


def test_settings_and_content_are_part_of_the_key(numbered, tmp_path):
    run(numbered[:2], [1, 1], tmp_path / "c")
    assert run(numbered[:2], [1, 1], tmp_path / "c", settings={**SETTINGS, "version": 2})[2].rows == [0, 1]
    moved = tmp_path / "moved.png"
    os.rename(numbered[0], moved)
    assert run([moved], [1], tmp_path / "c")[2].rows == []
    moved.write_bytes(Path(numbered[5]).read_bytes())
    assert run([moved], [1], tmp_path / "c")[2].rows == [0]


def test_one_file_with_several_parameters_and_equal_files(numbered, tmp_path):
    copy = tmp_path / "copy.png"
    copy.write_bytes(Path(numbered[3]).read_bytes())
    results, _, make = run([numbered[3], numbered[3], copy], [1, 2, 1], tmp_path / "c")
    assert len(make.rows) == 2 and results[0] == results[2] != results[1]
    assert [int(pixels(result).max()) for result in results] == [4, 5, 4]


def test_images_kept_as_they_are_are_remembered(numbered, tmp_path):
    asked = []

    def odd_only(images, rows):
        asked.extend(rows)
        return [images[index] if row % 2 else None for index, row in enumerate(rows)]

    for _ in range(2):
        results, rejects, _ = run(numbered, [0] * 11, tmp_path / "c", make=odd_only)
        assert [result == Path(path) for result, path in zip(results, numbered)] == [row % 2 == 0 for row in range(11)]
        assert rejects == {}
    assert asked == list(range(11))
    os.rename(numbered[4], tmp_path / "elsewhere.png")
    assert run([tmp_path / "elsewhere.png"], [0], tmp_path / "c", make=odd_only)[0] == [tmp_path / "elsewhere.png"]
    assert len(asked) == 11


def test_images_of_several_sizes_come_in_stacks_of_one(tmp_path, encode):
    sizes = [(4, 6), (5, 5), (4, 6), (5, 5), (4, 6), (4, 6)]
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for number, (path, size) in enumerate(zip(paths, sizes)):
        path.write_bytes(encode(np.full((*size, 3), number, np.uint8)))
    results, _, make = run(paths, [100] * 6, tmp_path / "c")
    assert make.calls == [((2, 4, 6, 3), [0, 2]), ((2, 5, 5, 3), [1, 3]), ((2, 4, 6, 3), [4, 5])]
    assert [pixels(result).shape[:2] for result in results] == sizes
    assert [int(pixels(result).max()) for result in results] == [100, 101, 102, 103, 104, 105]


def test_unreadable_files_are_named_and_stop_nothing(numbered, tmp_path):
    bad, copy, cut, gone = (tmp_path / name for name in ("bad.png", "copy.png", "cut.png", "gone.png"))
    bad.write_text("hello")
    copy.write_text("hello")
    cut.write_bytes(Path(numbered[0]).read_bytes()[:-15])
    for _ in range(2):
        results, rejects, _ = run([bad, numbered[0], gone, cut, copy, numbered[1]], [1] * 6, tmp_path / "c")
        assert [result is None for result in results] == [True, False, True, True, True, False]
        assert set(rejects) == {str(bad), str(gone), str(cut), str(copy)}
        assert rejects[str(gone)] == "cannot be opened: No such file or directory"
        assert "truncated PNG" in rejects[str(cut)] and rejects[str(copy)] == rejects[str(bad)]
    copy.write_bytes(Path(numbered[2]).read_bytes())
    assert run([copy], [1], tmp_path / "c")[0][0] is not None


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (np.full((2, 3), 77, np.uint8), [77, 77, 77]),
        (np.full((2, 3, 3), [10, 20, 30], np.uint8), [30, 20, 10]),
        (np.full((2, 3, 4), [10, 20, 30, 255], np.uint8), [30, 20, 10]),
        (np.full((2, 3, 4), [10, 20, 30, 0], np.uint8), [255, 255, 255]),
        (np.full((2, 3, 4), [0, 100, 200, 51], np.uint8), [244, 224, 204]),  # a fifth of it on white
        (np.full((2, 3), 257 * 9 + 128, np.uint16), [9, 9, 9]),
        (np.full((2, 3, 3), [257 * 9 + 129, 0, 65535], np.uint16), [255, 0, 10]),
        (np.full((2, 3, 4), [65535, 0, 65535, 0], np.uint16), [255, 255, 255]),
    ],
)
def test_files_of_every_kind_become_rgb(stored, expected):
    image = decode(cv2.imencode(".png", stored)[1].tobytes())
    assert image.dtype == np.uint8 and image.shape == (2, 3, 3) and (image == expected).all()


def test_values_that_are_neither_8_nor_16_bits_are_refused():
    with pytest.raises(Rejected, match="float32"):
        decode(cv2.imencode(".tiff", np.zeros((2, 3), np.float32))[1].tobytes())


def test_answers_that_are_no_images_are_refused(numbered, tmp_path):
    with pytest.raises(TypeError, match=r"made of .*/0\.png, not float64"):
        run(numbered, [1] * 11, tmp_path / "c", make=lambda images, rows: images / 2)
    with pytest.raises(ValueError, match="3 images were made of 4"):
        run(numbered, [1] * 11, tmp_path / "c", make=lambda images, rows: images[1:])
    with pytest.raises(ValueError, match="2 parameters for 11 images"):
        run(numbered, [1, 2], tmp_path / "c")
    assert not list((tmp_path / "c").rglob("*.png"))


def test_what_was_made_before_a_mistake_is_kept(numbered, tmp_path):
    def fails_late(images, rows):
        if 8 in rows:
            raise ZeroDivisionError("a mistake")
        return images

    with pytest.raises(ZeroDivisionError):
        run(numbered, [1] * 11, tmp_path / "c", make=fails_late)
    results, _, make = run(numbered, [1] * 11, tmp_path / "c")
    assert set(range(8, 11)) <= set(make.rows) < set(range(11)) and None not in results


def test_a_full_disk_leaves_nothing(numbered, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RunStopped, match="no space"):
        run(numbered, [1] * 11, tmp_path / "c")
    assert [file for file in (tmp_path / "c").rglob("*") if file.is_file()] == []


_KILLED = """
import json, os, signal, sys
import numpy as np
from tffapps.data.made import made_images
paths, folder = json.loads(sys.argv[1]), sys.argv[2]
def make(images, rows):
    if rows[0] >= 64:
        os.kill(os.getpid(), signal.SIGKILL)
    return np.random.default_rng(0).integers(0, 256, (len(rows), 200, 200, 3), dtype=np.uint8)
made_images(paths, list(range(len(paths))), make, {"function": "killed"}, folder, batch=8, progress=False)
"""


def test_a_kill_leaves_whole_files_only(numbered, tmp_path):
    paths = [path for _ in range(10) for path in numbered]
    process = subprocess.run(
        [sys.executable, "-c", _KILLED, json.dumps(paths), str(tmp_path / "c")],
        env={**os.environ, "PYTHONPATH": str(Path(made.__file__).parents[2])},
        check=False,
    )
    assert process.returncode == -signal.SIGKILL
    entries = list((tmp_path / "c").rglob("[!.]*.png"))
    assert 40 <= len(entries) < len(paths)
    assert all(decode(entry.read_bytes()).shape == (200, 200, 3) for entry in entries)
    numbers = list(range(len(paths)))
    results, _, make = run(paths, numbers, tmp_path / "c", settings={"function": "killed"})
    assert len(make.rows) == len(paths) - len(entries) and None not in results


def test_making_is_done_here_and_a_few_batches_are_in_memory(tmp_path, encode):
    path, size, count, batch = tmp_path / "one.png", (160, 160, 3), 240, 8
    path.write_bytes(encode(np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)))
    threads = set()

    def make(images, rows):
        threads.add(threading.get_ident())
        return 255 - images

    tracemalloc.start()
    try:
        run([path] * count, list(range(count)), tmp_path / "c", make=make, batch=batch)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert threads == {threading.get_ident()}
    # Being read, read, a stack, made and being written; 30 if nothing were let go.
    assert peak < 12 * batch * np.prod(size)


def test_processes_make_the_same_files_and_tell_of_bad_ones(tmp_path, encode, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (7, 40, 40, 3), dtype=np.uint8)
    images[2] = 255  # has no stains: kept as it is
    paths = [tmp_path / f"{number}.png" for number in range(7)]
    for path, image in zip(paths, images):
        path.write_bytes(encode(image))
    paths[4].write_text("hello")
    parameters = [[0.6, 0.1, 0.7, 0.9 + number / 100, 0.3, 0.1] for number in range(7)]
    align = made.Apart(functools.partial(stain.in_stains, settings=stain.StainSettings(min_angle=0.0)))

    known, known_at_start = [], []

    def files(folder):
        found, rejects = made_images(paths, parameters, align, {}, folder, batch=2, workers=2, progress=False)
        return [path and path.read_bytes() for path in found], rejects

    def process_pool(workers, open_pool=made.process_pool):
        known_at_start.append(len(known))
        return open_pool(workers)

    def key_of(*arguments, work_out=made.key_of):
        known.append(work_out(*arguments))
        return known[-1]

    here = files(tmp_path / "here")
    known.clear()
    monkeypatch.setattr(made, "key_of", key_of)
    monkeypatch.setattr(made, "process_pool", process_pool)
    monkeypatch.setattr(made, "MANY", 2)
    monkeypatch.setattr(made, "_ROWS_APART", 3)
    assert files(tmp_path / "apart") == here
    assert len(known_at_start) == 1 and known_at_start[0] < len(known) == 7  # they start before all keys are known
    assert list(here[1]) == [str(paths[4])] and here[0][2] == paths[2].read_bytes() and here[0][1] != here[0][0]
    monkeypatch.setattr(made, "process_pool", None)  # what is there is not made again
    assert files(tmp_path / "apart") == here


def dies(images, given):
    os._exit(9)


def test_a_process_that_is_killed_stops_the_run(numbered, tmp_path, monkeypatch):
    monkeypatch.setattr(made, "MANY", 2)
    monkeypatch.setattr(made, "_ROWS_APART", 3)
    with pytest.raises(RunStopped, match="was killed"):
        run(numbered, [1] * 11, tmp_path / "c", make=made.Apart(dies))


def test_stacks_can_be_read_alone(numbered, tmp_path):
    (tmp_path / "bad.png").write_text("hello")
    rejects = {}
    paths = [str(tmp_path / "bad.png"), *numbered]
    read = list(stacks(paths, batch=5, workers=1, rejects=rejects))
    assert [rows for rows, _ in read] == [[1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    assert read[1][1].shape == (5, 4, 6, 3) and read[1][1][:, 0, 0, 0].tolist() == [4, 5, 6, 7, 8]
    assert list(rejects) == paths[:1]


def test_progress_in_plain_lines(numbered, tmp_path, capsys):
    run(numbered, [1] * 11, tmp_path / "c", progress=True, title="stained")
    assert "stained: 11/11" in capsys.readouterr().err
    run(numbered, [1] * 11, tmp_path / "c", progress=True, title="stained")
    assert capsys.readouterr().err == ""
