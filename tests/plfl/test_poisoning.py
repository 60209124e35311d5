"""A client that spoils its data: exactly the share asked for, nothing of anyone else's."""

import os
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest

from preprocessing.knee import decode, encode
from tffapps.data import knees
from tffapps.plfl.poisoning import POISONER, poisoned, ruin

CLASSES = ["healthy", "moderate", "severe"]
COLUMNS = ["path", "label", "client", "split", "subject"]


@pytest.fixture(autouse=True)
def in_this_process(tmp_path, monkeypatch):
    """Ruined images are kept below the working folder; one core means no other processes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


@pytest.fixture
def table(tmp_path):
    """Twenty training images of client1 in a row of others, and the image files."""
    parts = [("client1", "train", 20), ("client1", "test", 3), ("client2", "train", 6), ("server", "train", 5)]
    rows = [(client, split) for client, split, count in parts for _ in range(count)]
    order = np.random.default_rng(1).permutation(len(rows))
    rng = np.random.default_rng(2)
    found = []
    for number, position in enumerate(order):
        path = tmp_path / f"{number}.png"
        path.write_bytes(encode(rng.integers(0, 256, (21, 28), dtype=np.uint8)))
        found.append((str(path), CLASSES[number % 3], *rows[position], f"P{number}"))
    return pd.DataFrame(found, columns=COLUMNS, index=range(100, 100 + len(rows)))


def changed(before, after, column):
    assert after.index.equals(before.index)
    return before.index[before[column] != after[column]]


def of_poisoner(table):
    return table.index[(table.client == POISONER) & (table.split == "train")]


@pytest.mark.parametrize(("share", "count"), [(0.5, 10), (0.35, 7), (1.0, 20), (0.03, 1), (0.001, 0)])
def test_csfl_labels_change_and_nothing_else(table, share, count):
    before = table.copy()
    after = poisoned(table, "csfl", share, CLASSES, seed=0)
    assert table.equals(before)  # the one that was given
    rows = changed(before, after, "label")
    assert len(rows) == count and set(rows) <= set(of_poisoner(before))
    assert set(after.label) <= set(CLASSES)
    assert after.drop(columns="label").equals(before.drop(columns="label"))


def test_csfl_with_two_classes_swaps_them(table):
    table["label"] = ["a" if number % 2 else "b" for number in range(len(table))]
    after = poisoned(table, "csfl", 1.0, ["a", "b"], seed=0)
    own = of_poisoner(table)
    assert after.label[own].tolist() == [{"a": "b", "b": "a"}[label] for label in table.label[own]]


def test_another_client_can_be_the_one(table):
    after = poisoned(table, "csfl", 1.0, CLASSES, seed=0, client="client2")
    own = table.index[(table.client == "client2") & (table.split == "train")]
    assert set(changed(table, after, "label")) == set(own)


def test_the_seed_decides_who_is_spoilt(table):
    first, again, other = (poisoned(table, "csfl", 0.5, CLASSES, seed=seed) for seed in (0, 0, 1))
    assert first.equals(again)
    assert set(changed(table, first, "label")) != set(changed(table, other, "label"))


@pytest.mark.parametrize("framework", ["plfl", "plfl+"])
@pytest.mark.parametrize(("share", "count"), [(0.5, 10), (1.0, 20), (0.03, 1), (0.001, 0)])
def test_plfl_images_change_and_nothing_else(table, framework, share, count):
    before = table.copy()
    contents = {path: Path(path).read_bytes() for path in table.path}
    after = poisoned(table, framework, share, CLASSES, seed=0)
    assert table.equals(before)
    rows = changed(before, after, "path")
    assert len(rows) == count and set(rows) <= set(of_poisoner(before))
    assert after.drop(columns="path").equals(before.drop(columns="path"))
    for row in rows:
        assert os.path.isabs(after.path[row])
        assert Path(after.path[row]).read_bytes() == ruin(contents[before.path[row]], tiles=7)
    assert {path: Path(path).read_bytes() for path in before.path} == contents  # the files themselves are left alone


@pytest.fixture(scope="module")
def knee(tmp_path_factory):
    folder = knees.write_knees(tmp_path_factory.mktemp("knees") / "k", images=80, size=100, progress=False)
    return min(folder.glob("train/0/*.png")).read_bytes()


def test_a_ruined_image_is_the_same_each_time_and_nothing_like_it_was(knee):
    before, after = decode(knee).astype(float), decode(ruin(knee, tiles=7)).astype(float)
    assert ruin(knee, tiles=7) == ruin(knee, tiles=7)
    assert after.shape == before.shape == (100, 100)
    assert abs(np.corrcoef(before.ravel(), after.ravel())[0, 1]) < 0.3
    assert abs(np.corrcoef(before.ravel(), 255 - after.ravel())[0, 1]) < 0.3  # no plain negative either
    assert np.abs(before - after).mean() > 50
    assert abs(after.mean() - (255 - before.mean())) < 15


def test_two_images_are_not_ruined_alike(knee):
    other = encode(decode(knee)[:, ::-1].copy())
    one, two = (decode(ruin(contents, tiles=7)).astype(float) for contents in (knee, other))
    assert np.corrcoef(one.ravel(), two[:, ::-1].ravel())[0, 1] < 0.8


@pytest.mark.parametrize("shape", [(7, 7), (31, 50)])
def test_any_size_and_a_jpeg(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    for suffix in (".png", ".jpg"):
        assert decode(ruin(cv2.imencode(suffix, image)[1].tobytes(), tiles=7)).shape == shape
