"""The contact sheet: every image is on it, beside its heat; the caution is; any name is taken as it is."""

import types

import cv2
import numpy as np
import pytest

from tffapps.use import explained, predict, sheet
from tffapps.use.sheet import Answer, overlay, write_sheet

SIDE = 16


def made(count: int, channels: int = 3) -> tuple[np.ndarray, np.ndarray, list[Answer]]:
    """Green images, each with one hot pixel block."""
    images = np.zeros((count, SIDE, SIDE, channels), np.float32)
    images[..., channels // 2] = 1.0
    heats = np.zeros((count, SIDE, SIDE), np.float32)
    heats[:, 4:8, 4:8] = 1.0
    return images, heats, [Answer(f"image{index}.png", "class", 0.5) for index in range(count)]


def pictures(path) -> tuple[np.ndarray, int]:
    """The sheet, and how many pictures in full green are on it."""
    image = cv2.imread(str(path))
    green = (image == (0, 255, 0)).all(axis=-1).astype(np.uint8)
    return image, cv2.connectedComponents(green)[0] - 1


@pytest.mark.parametrize("count", [1, 3, 7])
def test_every_image_is_on_it(tmp_path, count):
    images, heats, answers = made(count)
    write_sheet(tmp_path / "s.png", images, heats, answers, title="title")
    image, found = pictures(tmp_path / "s.png")
    assert found == count
    assert image.shape[1] >= 500 and 0.4 < image.shape[0] / image.shape[1] < 2.2


def test_more_than_fit_are_more_sheets(tmp_path, monkeypatch):
    monkeypatch.setattr(sheet, "MOST", 2)
    monkeypatch.setattr(explained, "explain", lambda model, images, classes, method: np.zeros(images.shape[:3]))
    bundle = types.SimpleNamespace(
        classes=("good", "bad"), system="classify", network=types.SimpleNamespace(values={"model": "tiny"})
    )
    sheets = explained.Sheets(types.SimpleNamespace(bundle=bundle, model=None), "gradcam", tmp_path / "s.png")
    images, _, _ = made(5)
    for start in (0, 3):
        part = images[start : start + 3]
        answers = [predict.Answer(place, *[np.array([0.3, 0.7])] * 2, sure=True) for place in range(len(part))]
        sheets.add(part, answers, ["a.png"] * len(part))
    sheets.add(images[:1], [predict.Answer(0, problem="damaged")], ["b.png"])
    sheets.finish()
    assert [path.name for path in sheets.paths] == ["s.png", "s-2.png", "s-3.png"]
    assert [pictures(path)[1] for path in sheets.paths] == [2, 2, 1]
    with pytest.raises(ValueError, match="3 images; 2 fit on a sheet"):
        write_sheet(tmp_path / "s.png", *made(3), title="title")


def test_texts(tmp_path, monkeypatch):
    """Of the figure itself: long names keep both ends, formulas and what steers a terminal are shown as text."""
    images, heats, _ = made(2, channels=1)
    long = "a" * 300 + ".png"
    answers = [Answer("$\\frac$\x1b.png", "mild", 0.123), Answer(long, "grade " * 30, 1.0)]
    figure = sheet._figure(images, heats, answers, "title", "note")
    texts = [text.get_text() for text in figure.texts]
    assert "$\\frac$?.png" in texts and "12.3%" in texts and "100.0%" in texts and "mild" in texts
    assert "Not a medical device" in " ".join(texts)
    assert max(map(len, texts)) < 120 and any(text.endswith(".png") and "…" in text for text in texts)
    write_sheet(tmp_path / "s.png", images, heats, answers, title="title")


def test_overlay():
    """Cold is the image in grey, hot is the hot colour, mostly."""
    image = np.full((1, 2, 3), 0.6, np.float32) * [0.0, 1.0, 0.5]
    found = overlay(image, np.array([[0.0, 1.0]]))
    np.testing.assert_allclose(found[0, 0], [0.3] * 3, atol=1e-6)
    np.testing.assert_allclose(found[0, 1], 0.2 * 0.3 + 0.8 * np.array([0.988362, 0.998364, 0.644924]), atol=1e-4)
