"""The patch: where it is, what it leaves as it was, in every depth."""

import cv2
import numpy as np
import pytest

from tffapps.data import backdoor
from tffapps.errors import UserError


@pytest.mark.parametrize(
    ("shape", "kind"), [((12, 20), np.uint8), ((12, 20, 3), np.uint16), ((12, 20, 4), np.uint8)], ids=str
)
def test_the_corner_and_nothing_else(shape, kind):
    image = np.random.default_rng(0).integers(1, 99, shape).astype(kind)
    found = cv2.imdecode(
        np.frombuffer(backdoor.stamp(cv2.imencode(".png", image)[1].tobytes(), 0.25), np.uint8), cv2.IMREAD_UNCHANGED
    )
    assert found.shape == shape and found.dtype == kind
    changed = (found != image) if image.ndim == 2 else (found != image).any(axis=2)
    assert changed[-3:, -3:].all() and changed.sum() == 9  # a quarter of 12
    most = np.iinfo(kind).max
    colours = found[-3:, -3:] if image.ndim == 2 else found[-3:, -3:, 0]
    assert colours.tolist() == [[most, 0, most], [0, most, 0], [most, 0, most]]
    if shape[-1] == 4:
        assert (found[-3:, -3:, 3] == most).all()


def test_copies_lie_in_the_cache_and_a_bad_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path))
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    cv2.imwrite(str(good), np.full((8, 8), 50, np.uint8))
    bad.write_bytes(b"nothing")
    (copy,) = backdoor.patched([str(good)], 0.25)
    assert copy != str(good) and cv2.imread(copy, cv2.IMREAD_UNCHANGED)[:6, :6].tolist() == [[50] * 6] * 6
    with pytest.raises(UserError, match=r"bad\.png: cannot be given the patch"):
        backdoor.patched([str(bad)], 0.25)
