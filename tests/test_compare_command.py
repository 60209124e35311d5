"""`tffapps compare` on run folders made by hand."""

import json

import numpy as np
import pandas as pd
import pytest

from tffapps.compare_command import main
from tffapps.evaluation import stored


def run(root, name, hits, *, seed=0, classes=("no", "yes"), images=None):
    """A finished run: labels alternate, `hits` says which predictions are right, with a confidence of 0.9."""
    folder = root / name
    folder.mkdir(parents=True)
    labels = np.arange(len(hits)) % 2
    predicted = np.where(hits, labels, 1 - labels)
    probabilities = np.where(np.eye(2)[predicted] > 0, 0.9, 0.1)
    names = images or [f"image{number}" for number in range(len(hits))]
    rows = pd.DataFrame({"image": names, "subject": names, "client": "a", "judge": "", "part": "test"})
    rows = rows.assign(
        label=[classes[code] for code in labels], **stored.probability_columns(probabilities, list(classes))
    )
    stored.write(folder, {"last": rows})
    (folder / "settings.json").write_text(json.dumps({"labels": {"seed": seed, "method": name}}))
    (folder / "finished.json").write_text("{}")
    return str(folder)


def right(count, of=60):
    return np.arange(of) < count


def test_the_better_run_is_ahead(tmp_path, capsys):
    first, second = run(tmp_path, "plain-0a", right(30)), run(tmp_path, "better-0b", right(54))
    assert main([first, f"ours={second}", "--primary", "accuracy", "--ordered", "-o", str(tmp_path / "out")]) == 0
    scores = pd.read_csv(tmp_path / "out" / "scores.csv").set_index("run")
    assert scores.accuracy.to_dict() == {"plain": 0.5, "ours": 0.9} and scores.images.tolist() == [60, 60]
    assert scores.ece["ours"] == pytest.approx(0) and scores.quadratic_kappa["ours"] == pytest.approx(0.8)
    (claim,) = pd.read_csv(tmp_path / "out" / "claims.csv").to_dict("records")
    assert (claim["method"], claim["baseline"], claim["verdict"]) == ("ours", "plain", "ahead")
    assert claim["gain"] == pytest.approx(0.4) and claim["gain_low"] > 0.2
    assert (tmp_path / "out" / "compare.png").stat().st_size > 5000
    assert "ours against plain, accuracy: +0.400" in capsys.readouterr().out


def test_several_seeds_are_one_method(tmp_path, capsys):
    seeds = ",".join(run(tmp_path, f"seed{seed}", right(30 + 6 * seed), seed=seed) for seed in range(2))
    assert main([f"both={seeds}"]) == 0
    out = capsys.readouterr()
    assert "0.550 [" in out.out and "0 1" in out.out and "nothing to compare it with" in out.err


def test_other_images_are_not_comparable(tmp_path, capsys):
    first = run(tmp_path, "first", right(30))
    other = run(tmp_path, "other", right(50), images=[f"else{number}" for number in range(60)])
    assert main([first, f"other={other}"]) == 0
    assert "other against first, macro_f1: no images in common" in capsys.readouterr().out.replace("-", "")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["{nowhere}"], "nowhere: not a finished run's folder"),
        (["{first}", "{first}"], "two runs of the same images and seed"),
        (["{first}", "x={classes}"], "x: its classes are a, b; those of the first are no, yes"),
        (["{first}", "--metrics", "f9"], "--metrics f9: unknown; choose from accuracy"),
        (["{damaged}"], "predictions.csv cannot be understood"),
        (["{empty}"], "no predictions of a classifier's test images"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, tmp_path, capsys):
    places = {
        "nowhere": str(tmp_path / "nowhere"),
        "first": run(tmp_path, "first", right(30)),
        "classes": run(tmp_path, "classes", right(30), classes=("a", "b")),
        "damaged": run(tmp_path, "damaged", right(30)),
        "empty": run(tmp_path, "empty", right(30)),
    }
    (tmp_path / "damaged" / stored.FILE).write_text("model,part\n1,2,3,4\n")
    (tmp_path / "empty" / stored.FILE).unlink()
    assert main([argument.format(**places) for argument in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
