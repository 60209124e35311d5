"""Predictions as they are stored: what is read is what was written, and damage is one line."""

import numpy as np
import pytest

from tests.evaluation import made
from tffapps.errors import UserError
from tffapps.evaluation import stored

CLASSES = ["benign", "in situ, grade 1", 'called "x"', "p_p", "NA", "1"]


def drawn(count, dtype=np.float32):
    values = np.random.default_rng(0).random((count, len(CLASSES)), dtype) ** 8  # some are tiny
    return values / values.sum(axis=1, keepdims=True)


def rows(count=300):
    names = [f"{number:04}" for number in range(count)]
    truth = [CLASSES[number % len(CLASSES)] for number in range(count)]
    return made.rows_of(truth, drawn(count), CLASSES, images=names, clients=["007"] * count)


def test_single_precision_comes_back_exactly(tmp_path):
    stored.write(tmp_path, {stored.LAST: rows()})
    found = stored.read_classifier(tmp_path)
    assert np.array_equal(found.probabilities.astype(np.float32), drawn(300)) and len(found) == 300
    assert found.classes == CLASSES and found.labels.tolist() == [number % len(CLASSES) for number in range(300)]


def test_names_stay_names(tmp_path):
    stored.write(tmp_path, {stored.LAST: rows(13)})
    table = stored.read(tmp_path)
    assert table.image.tolist()[12] == table.subject.tolist()[12] == "0012" and set(table.client) == {"007"}
    assert set(table.judge) == {""} and table.label.tolist()[4:6] == ["NA", "1"]


def test_probabilities_of_0_and_1_alone(tmp_path):
    stored.write(tmp_path, {stored.LAST: made.rows_of(["a", "b"], np.eye(2), ["a", "b"])})
    assert stored.read_classifier(tmp_path).probabilities.tolist() == [[1, 0], [0, 1]]


def test_models_and_parts_are_told_apart(tmp_path):
    last, chosen = made.hits(1, 4, ["a", "b"]), made.hits(3, 4, ["a", "b"])
    validation = made.hits(2, 6, ["a", "b"], part=stored.VALIDATION)
    stored.write(tmp_path, {stored.LAST: last, stored.CHOSEN: chosen})
    first, second = (stored.read_classifier(tmp_path, model) for model in (stored.LAST, stored.CHOSEN))
    assert [(each.probabilities.argmax(axis=1) == each.labels).sum() for each in (first, second)] == [1, 3]
    stored.write(tmp_path, {stored.LAST: validation})
    assert len(stored.read_classifier(tmp_path, stored.CHOSEN, stored.VALIDATION)) == 6  # nothing was chosen
    with pytest.raises(UserError, match=r"no predictions of a classifier's test images; run it again with --fresh"):
        stored.read_classifier(tmp_path)


def test_where_nothing_was_predicted_nothing_is_written(tmp_path):
    stored.write(tmp_path, {stored.LAST: rows(0)})
    assert not list(tmp_path.iterdir()) and stored.read(tmp_path).empty
    with pytest.raises(UserError, match="no predictions"):
        stored.read_classifier(tmp_path)


DAMAGE = {
    "not text": lambda text: b"\xff\xfe\x00" + text,
    "empty": lambda text: b"",
    "another table": lambda text: b"round,accuracy\n1,0.5\n",
    "a word for a number": lambda text: text.replace(b"0.8", b"much", 1),
    "a blank": lambda text: text.replace(b"0.8", b"", 1),
    "not finite": lambda text: text.replace(b"0.8", b"1e999", 1),
    "an unknown class": lambda text: text.replace(b",b,", b",c,", 1),
    "a quote that is not closed": lambda text: text.replace(b"\nlast", b'\n"last', 1),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_line(damage, tmp_path):
    stored.write(tmp_path, {stored.LAST: made.hits(3, 5, ["a", "b"])})
    path = tmp_path / stored.FILE
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(UserError) as stopped:
        stored.read_classifier(tmp_path)
    line = str(stopped.value)
    assert str(path) in line and "--fresh" in line and "\n" not in line
