"""The open catalogue: artists join and leave it, nobody trains; its scores; what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from tests.fedstyle.conftest import COLOURS
from tffapps.errors import UserError
from tffapps.fedstyle import catalogue, enrol, retrieval, scoring, withdraw
from tffapps.fedstyle.catalogue import Catalogue, Entry


def test_similarities_are_centred_and_none_of_these_is_an_answer():
    prototypes = np.array([[3.0, 1.0], [1.0, 3.0], [-1.0, -1.0]])  # centre (1, 1)
    found = scoring.similarities(np.array([[2.0, 1.0]]), prototypes)
    np.testing.assert_allclose(found, [[1.0, 0.0, -(0.5**0.5)]], atol=1e-9)
    shares = scoring.Scoring(1.0, 0.0).probabilities(found)
    np.testing.assert_allclose(shares[0, 3], 1 / (np.e + 1 + np.exp(-(0.5**0.5)) + 1))
    by_pictures = scoring.judged_by_pictures(
        np.array([[1.0, 0.0]]), np.array([0]), np.array([[1.0, 0.1], [-1.0, 0.0], [0.0, -1.0]]), np.array([1, 0, 1]), 2
    )  # fmt: skip
    assert by_pictures["map_2"] == 0 and by_pictures["recall_2"] == 0  # both others are nearer


def test_an_artist_joins_and_leaves_without_a_trace(bundle, paintings, tmp_path, capsys):
    file, keys = tmp_path / "catalogue.db", {}
    for artist in COLOURS:
        keys[artist] = tmp_path / f"{artist}.json"
        picture = str(paintings / "gallery" / artist / "0.png")
        arguments = [bundle, paintings / "gallery" / artist, "--name", artist, "--catalogue", file, "-o", keys[artist]]
        assert (
            enrol.main(
                [*map(str, arguments), "--embedding", "both", "--words", "colours", "--consent", "--publish", picture]
            )
            == 0
        )
    held = Catalogue(file)
    ids, prototypes, spreads = held.enrolled()
    assert len(ids) == 5 and np.linalg.norm(prototypes, axis=1).max() < 1.001
    assert oct(keys["Ada"].stat().st_mode)[-3:] == "600"
    ada = json.loads(keys["Ada"].read_text())
    place = ids.index(ada["artist"])
    # In parts: long rows are divided among the pages of the file.
    rows = [prototypes[place].tobytes(), spreads[place].tobytes()]
    parts = [row[start : start + 64] for row in rows for start in range(0, len(row) - 64, 64)]
    assert spreads[place].shape == (5, prototypes.shape[1])
    assert (
        sum(part in file.read_bytes() for part in parts) > 0.9 * len(parts)
        and len(held.rows("SELECT * FROM published")) == 5
    )
    assert retrieval.main([str(bundle), "--catalogue", str(file), "--queries", str(paintings / "queries")]) == 0
    assert "fitted on 30 pictures" in capsys.readouterr().out and Catalogue(file).about["fitted"] == "30"

    assert withdraw.main([str(keys["Ada"])]) == 0
    contents = file.read_bytes()
    assert not any(part in contents for part in parts) and ada["artist"].encode() not in contents
    assert len(held.ids()) == 4
    assert held.rows("SELECT * FROM published WHERE artist = ?", ada["artist"]) == []
    assert withdraw.main([str(keys["Ada"])]) == 2 and "nobody" in capsys.readouterr().err
    assert withdraw.main(["--catalogue", str(file), "--name", "BO"]) == 0 and len(held.ids()) == 3


def test_an_encoder_is_judged(bundle, paintings, tmp_path):
    folders = ["--gallery", str(paintings / "gallery"), "--queries", str(paintings / "queries")]
    assert retrieval.main([str(bundle), *folders, "-o", str(tmp_path / "table.csv")]) == 0
    table = pd.read_csv(tmp_path / "table.csv").set_index(["embedding", "measure"])
    assert list(table.index) == [(kind, how) for kind in catalogue.EMBEDDINGS for how in ("whitened", "centred")]
    scores = ["top_1", "top_3", "top_5", "mrr", "open_set_auroc", "map_10", "recall_10", "nearest_1"]
    assert table[scores].apply(lambda column: column.between(0, 1)).all(axis=None)
    assert table.xs("style").top_1.min() > 0.9  # colours are easy


def test_what_is_refused(bundle, paintings, tmp_path, capsys):
    file = tmp_path / "catalogue.db"
    given = [str(bundle), str(paintings / "gallery" / "Ada"), "--name", "Ada"]
    assert enrol.main([*given, "--catalogue", str(file)]) == 2 and "--consent: nobody" in capsys.readouterr().err
    assert not file.exists()
    assert enrol.main([*given, "--consent", "--catalogue", str(file), "-o", str(tmp_path / "a.json")]) == 0
    assert enrol.main([*given, "--consent", "--catalogue", str(file), "-o", str(tmp_path / "b.json")]) == 2
    assert "there is a Ada already" in capsys.readouterr().err and not (tmp_path / "b.json").exists()
    held = Catalogue(file)
    width = int(held.about["width"])
    unit = np.eye(1, width)[0]
    for entry, why in (
        (Entry("B", "", 1, np.full(width, np.nan), catalogue.CONSENT), "finite numbers"),
        (Entry("B", "", 1, np.zeros(width + 1), catalogue.CONSENT), "finite numbers"),
        (Entry("B\nC", "", 1, np.zeros(width), catalogue.CONSENT), "one line"),
        (Entry("B", "", 1, np.zeros(width), "yes"), "consent"),
        (Entry("B", "", 1, np.zeros(width), catalogue.CONSENT, spread=np.zeros((2, width + 1))), "spread: expected"),
        (Entry("B", "", 1, np.zeros(width), catalogue.CONSENT, spread=np.full((1, width), 9)), "spread: more"),
        (Entry("B", "", 1, np.zeros(width), catalogue.CONSENT, spread=np.zeros((1, width))), "spread: more"),
        (Entry("B", "", 20, unit, catalogue.CONSENT, spread=unit[None] / 2), "spread: more"),  # all pictures are alike
    ):
        with pytest.raises(UserError, match=why):
            held.enrol(entry)
    (tmp_path / "other.db").write_bytes(b"nothing")
    with pytest.raises(UserError, match="not a catalogue"):
        Catalogue(tmp_path / "other.db")

    with held.opened() as rows:  # as an older version made it: one can still leave
        rows.execute("ALTER TABLE artists DROP COLUMN spread")
        rows.execute("UPDATE about SET value = 'tffapps catalogue 1' WHERE name = 'format'")
    with pytest.raises(UserError, match="made by an older version"):
        Catalogue(file)
    assert withdraw.main([str(tmp_path / "a.json")]) == 0 and Catalogue(file, leaving=True).ids() == []
