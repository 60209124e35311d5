"""Figures are drawn from the records they are given."""

import cv2
import pandas as pd

from tffapps.figures import Canvas, curves


def test_curves_are_drawn(tmp_path):
    flat = pd.DataFrame({"name": "a", "round": [1, 2, 1, 2], "accuracy": [0.5, 0.5, 0.5, 0.5]})
    steep = flat.assign(accuracy=[0.1, 0.9, 0.2, 0.8])
    for name, records in (("flat", flat), ("steep", steep)):
        curves(tmp_path / f"{name}.png", records, "accuracy", "a title")
    first, second = (cv2.imread(str(tmp_path / f"{name}.png")) for name in ("flat", "steep"))
    assert first.shape == second.shape and first.shape[0] > 400
    assert (first != second).any()


def test_a_name_is_not_a_formula(tmp_path):
    records = pd.DataFrame({"name": r"$\frac$", "round": [1, 2], "accuracy": [0.5, 0.6]})
    curves(tmp_path / "curves.png", records, "accuracy", r"of $\frac$")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_ticks_by_logarithms_are_numbers(tmp_path):
    with Canvas(tmp_path / "log.png", width=3, height=3) as canvas:
        axes = canvas.axes[0, 0]
        axes.plot([1, 100], [1, 2])
        axes.set_xscale("log")
    assert "$" not in "".join(label.get_text() for label in axes.get_xticklabels())
