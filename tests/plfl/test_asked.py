"""What a radiologist asks: the commands `preparations` and `spoilt` on drawn knees."""

import cv2
import numpy as np
import pandas as pd
import pytest

from tffapps.data import knees
from tffapps.plfl import preparations, spoilt


@pytest.mark.parametrize(
    ("path", "side"), [("a/9000099L.jpg", "left"), ("9011918R.png", "right"), ("knee.png", ""), ("12Lateral.png", "")]
)
def test_the_side_is_the_letter_of_the_name(path, side):
    assert preparations.side(path) == side


def test_every_way_prepares_otherwise(tmp_path):
    folder = knees.write_knees(tmp_path / "k", images=80, size=64, progress=False)
    contents = next((folder / "train" / "0").iterdir()).read_bytes()
    made = {way: preparations.prepared(contents, way) for way in preparations.WAYS}
    assert len(set(made.values())) == len(preparations.WAYS)
    plain = cv2.imdecode(np.frombuffer(made["as it is"], np.uint8), cv2.IMREAD_GRAYSCALE)
    assert np.array_equal(plain, cv2.imdecode(np.frombuffer(contents, np.uint8), cv2.IMREAD_GRAYSCALE))


def test_spoilt_images_are_counted_by_way(tmp_path, capsys):
    folder = knees.write_knees(tmp_path / "k", images=80, size=64, progress=False)
    assert spoilt.main(["--data", str(folder), "--images", "10", "--results", str(tmp_path / "r")]) == 0
    table = pd.read_csv(tmp_path / "r" / "plfl" / "spoilt.csv").set_index("spoilt")
    assert table.share["nearly black"] == table.share["noise alone"] == table.share["nearly white"] == 1
    assert table.share["as it is"] <= 0.2 and (table.low <= table.share).all() and (table.share <= table.high).all()
    assert spoilt.wilson(0, 300) == pytest.approx((0, 0.01264), abs=1e-4)
    assert spoilt.main(["--data", str(tmp_path / "gone")]) == 2
