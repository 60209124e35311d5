"""`python -m tffapps.fedstyle` as a user types it: tables, figures, resume, the query, mistakes."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import cv2
import numpy as np
import pandas as pd
import pytest

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.contract import *  # noqa: F403
from tests.evaluation import made
from tests.faults.killing import killed
from tests.test_commands import environment
from tffapps import cli
from tffapps.fedstyle import APP, METHODS, cases, query

SMOKE = ["--profile", "smoke"]
BRIEF = [*SMOKE, "--studies", "none"]
SCORES = [*made.columns("accuracy", "macro_f1", "top_3", "top_5", "mrr", worst="accuracy"), "rounds"]
LAST = "last_rounds_accuracy"
WHAT_RAN = ["data", "profile", "weights", "model"]
TABLES = {
    "data": ["client", "split", "label", "pictures", "data"],
    "rejected": ["path", "client", "reason"],
    "claims": None,
    "comparison": ["method", "artists", *SCORES, "bytes_per_client", LAST, *WHAT_RAN],
    "table1_scalability": ["method", "artists", *SCORES, LAST, *WHAT_RAN],
    "ablation": ["variant", "method", "artists", *SCORES, LAST, *WHAT_RAN],
    "heterogeneity": ["dealt", "method", "artists", *SCORES, LAST, *WHAT_RAN],
    "cloaking": ["cloaked", "method", "artists", *SCORES, LAST, *WHAT_RAN],
    "queries": [
        "picture", "artist", "rank_by_probability", "rank_by_style", "artist1", "probability1", "cosine1", "artist2",
        "probability2", "cosine2", "chance_first", *WHAT_RAN,
    ],
}  # fmt: skip
FIGURES = ("artists", "comparison", "sheet-1")


def call(*arguments):
    assert cli.main(APP, arguments) == 0


@pytest.fixture(scope="module")
def compared(place):
    """The results of all six methods."""
    with working_in(place):
        call(*BRIEF, "--results", "compared")
    return place / "compared" / "fedstyle"


@pytest.fixture(scope="module")
def studied(place, compared):
    """The results of all studies, with two methods and two of the ablations."""
    with working_in(place):
        call(*SMOKE, "--methods", "fedavg,fedstyle", "--results", "studied")
    return place / "studied" / "fedstyle"


@pytest.fixture(scope="module")
def smoke(studied):
    return studied


@pytest.fixture(scope="module")
def smoke_arguments():
    return [*SMOKE, "--methods", "fedavg,fedstyle"]


@pytest.fixture(scope="module")
def run_folders(compared, studied):
    return [*compared.glob("runs/*"), *studied.glob("runs/*")]


@pytest.fixture(scope="module", autouse=True)
def few_ablations():
    """Rounds take seconds to build."""
    few = {name: cases.ABLATIONS[name] for name in ("without L2", "without styles")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "ABLATIONS", few)
        yield


def test_every_method_was_run(compared):
    table = pd.read_csv(compared / "comparison.csv")
    assert table.method.tolist() == list(METHODS) and table.accuracy.between(0, 1).all()
    assert table.columns.tolist() == TABLES["comparison"]
    rounds, _ = record(compared, "comparison-fedstyle-2artists-seed0")
    row = table[table.method == "fedstyle"].iloc[0]
    assert row.accuracy == pytest.approx(rounds.accuracy.iloc[-1], abs=1e-5)
    assert row.last_rounds_accuracy == pytest.approx(rounds.accuracy.tail(2).mean(), abs=1e-5)
    assert set(pd.read_csv(compared / "claims.csv").baseline) == {"fedavg", "local", "fedprox", "fedproto", "fpl"}
    sent = table.set_index("method").bytes_per_client
    assert sent["local"] == 0 < sent["fedproto"] < 0.05 * sent["fedavg"] < sent["fedstyle"]


def test_rivals_that_begin_with_the_public_pictures(place):
    """Tuned and chosen on validation pictures; FedAvg's layer is trained anew after the round that validation chose."""
    methods = "local,fedavg,fedavg_ccvr,neighbours,prototypes"
    with working_in(place):
        call(
            *BRIEF, "--methods", methods, "--splits", "3", "--only-splits", "r0f0", "--select", "validation",
            "--patience", "1", "--start-from", "public", "--tune", "learning_rate=0.01,0.05", "--results", "rivals",
        )  # fmt: skip
    folder = place / "rivals" / "fedstyle"
    table = pd.read_csv(folder / "comparison.csv").set_index("method")
    assert table.start.fillna("").to_dict() == {
        "local": "", "fedavg": "public", "fedavg_ccvr": "public", "neighbours": "", "prototypes": "",
    }  # fmt: skip
    assert table.tuned.dropna().str.contains("learning_rate=").all() and table.tuned.notna().sum() == 3
    assert (table.chosen == "lowest validation loss").all()
    assert (table.rounds == 0).to_dict() == {name: name in ("neighbours", "prototypes") for name in table.index}
    tuning = pd.read_csv(folder / "tuning.csv")
    assert tuning.groupby("method").size().to_dict() == {"local": 2, "fedavg from public": 2}
    claims = pd.read_csv(folder / "by_split.csv").set_index("method")
    runs = {path.name: json.loads((path / "settings.json").read_text()) for path in folder.glob("runs/*-seed0-*")}
    (anew,) = [about for name, about in runs.items() if "fedavg_ccvr" in name]
    assert anew["key"]["rounds"] == claims.loc["fedavg", "round"]
    starts = {about["key"]["initial"].get("start") for name, about in runs.items() if "public" in name}
    assert len(starts) == 1 and None not in starts  # of tuning runs too


def test_every_table_and_figure_is_there(studied):
    assert sorted(file.stem for file in studied.glob("*.csv")) == sorted(TABLES)
    for name, columns in TABLES.items():
        table = pd.read_csv(studied / f"{name}.csv")
        assert columns is None or table.columns.tolist() == columns, name
        if "data" in table:
            assert len(table) and set(table.data) == {"stand-in"}, name
    assert sorted(file.stem for file in studied.glob("*.png")) == sorted(FIGURES)
    for name in FIGURES:
        assert cv2.imread(str(studied / f"{name}.png")).std() > 1


def test_every_study_was_made(studied):
    read = {name: pd.read_csv(studied / f"{name}.csv") for name in TABLES}
    assert set(zip(read["table1_scalability"].artists, read["table1_scalability"].method)) == {
        (3, "fedavg"), (3, "fedstyle"),
    }  # fmt: skip
    assert read["ablation"].variant.tolist() == [
        "all losses", "without L2", "without styles",
    ]  # fmt: skip
    dealt = read["heterogeneity"]
    assert set(zip(dealt.dealt, dealt.method)) == {
        (kind, method) for kind in ("even", "dirichlet 1", "one artist each") for method in ("fedavg", "fedstyle")
    }
    assert read["cloaking"].cloaked.tolist() == [0, 1] and set(read["cloaking"].method) == {"centralised"}
    queries = read["queries"]
    assert queries.rank_by_probability.between(1, 2).all() and (queries.chance_first == 0.5).all()
    assert len(queries) == read["data"].query("split == 'test'").pictures.sum()


def test_runs_that_two_commands_share_are_equal(compared, studied):
    for method in ("fedavg", "fedstyle"):
        first, second = (record(folder, f"comparison-{method}-2artists-seed0") for folder in (compared, studied))
        assert first[0].equals(second[0]) and largest_difference(first[1], second[1]) == 0


def test_a_killed_run_ends_like_one_that_was_not(compared, here):
    """FedProto, whose clients' models lie in the run's folder: killed in its second round."""
    arguments = [*BRIEF, "--methods", "fedproto", "--results", "killed"]
    code = (
        "import os, signal, sys\n"
        "from tffapps import cli, fedstyle\n"
        "import tffapps.runs as runs\n"
        "old = runs.Run.keep\n"
        "def new(self, number, client, arrays):\n"
        "    if (number, client) == (2, 1): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return old(self, number, client, arrays)\n"
        "runs.Run.keep = new\n"
        "sys.exit(cli.main(fedstyle.APP, sys.argv[1:]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment(), capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    call(*arguments)
    found, expected = (
        record(folder, "comparison-fedproto-2artists-seed0") for folder in (here / "killed" / "fedstyle", compared)
    )
    assert found[0].equals(expected[0]) and largest_difference(found[1], expected[1]) == 0


KILLS = {
    "tffapps.fedstyle.global_model:save": 1,
    "tffapps.fedstyle.global_model:publish": 1,
    "tffapps.data.made:store": 14,
    "tffapps.fedstyle.tables:write_table": 3,
}


@pytest.mark.slow
def test_a_command_that_is_killed_at_every_stage_ends_like_one_that_was_not(studied, here):
    """As a trained model is to be written, and to be published, making cloaks, between tables; then to its end."""
    arguments = [*SMOKE, "--methods", "fedstyle", "--studies", "cloaking", "--results", "stages"]
    shutil.rmtree("data/cache/cloaked")
    for where, number in KILLS.items():
        killed("fedstyle", arguments, here, where, number)
    call(*arguments)
    results = here / "stages" / "fedstyle"
    for name in ("cloaking", "queries"):
        tables = [pd.read_csv(folder / f"{name}.csv") for folder in (results, studied)]
        assert tables[0].equals(tables[1])
    found, expected = (record(folder, "comparison-fedstyle-2artists-seed0") for folder in (results, studied))
    assert found[0].equals(expected[0]) and largest_difference(found[1], expected[1]) == 0


def test_another_data_set_in_the_same_folder_is_not_asked_of_the_old_model(compared, here, tmp_path):
    shutil.copytree(compared, tmp_path / "fedstyle")
    (tmp_path / "fedstyle" / "queries.csv").unlink()
    for number in (1, 2):
        shutil.copytree(here / f"data/painters-32-3x12-0/painter0{number}", tmp_path / "art" / f"other{number}")
    call(*BRIEF, "--data", str(tmp_path / "art"), "--methods", "fedavg", "--results", str(tmp_path))
    assert not (tmp_path / "fedstyle" / "queries.csv").exists()


def test_a_model_that_is_gone_is_made_again_of_the_finished_run(compared, here):
    (file,) = compared.glob("runs/comparison-fedstyle-*/model.npz")
    assert len(list(compared.glob("runs/*/model.npz"))) == 1 and file.read_bytes() == read_model(compared)
    before, rounds = read_model(compared), (file.parent / "rounds.csv").stat().st_mtime_ns
    file.unlink()
    (compared / "model.npz").unlink()
    call(*BRIEF, "--methods", "fedstyle", "--results", "compared")
    assert read_model(compared) == file.read_bytes() == before
    assert (file.parent / "rounds.csv").stat().st_mtime_ns == rounds


def read_model(results):
    return (results / "model.npz").read_bytes()


def test_other_cloaks_are_other_runs(compared, here):
    """A new number of pictures, say, must not find the old run; runs without cloaks go on."""
    brief = [*SMOKE, "--methods", "local", "--studies", "cloaking", "--cloaked", "1", "--results", "cloaks"]
    call(*brief, "--cloak-pictures", "6")
    call(*brief, "--cloak-pictures", "4")
    runs = [folder.name.rpartition("-")[0] for folder in (here / "cloaks" / "fedstyle" / "runs").iterdir()]
    assert sorted(runs) == ["cloaking-1-centralised-2artists-seed0"] * 2 + ["comparison-local-2artists-seed0"]


def test_a_stored_run_is_run_again_alone(compared, here):
    (settings,) = compared.glob("runs/comparison-fedavg-2artists-seed0-*/settings.json")
    call("--settings", str(settings))
    again = here / "compared-again" / "fedstyle"
    assert [folder.name.rpartition("-")[0] for folder in again.glob("runs/*")] == ["comparison-fedavg-2artists-seed0"]


def ask(*arguments):
    return query.main([str(argument) for argument in arguments])


def test_a_query_ranks_artists_and_draws_sheets(compared, here, tmp_path, capsys):
    source = here / "data" / "painters-32-3x12-0"
    for artist in ("painter01", "painter02"):
        shutil.copytree(source / artist, tmp_path / "pictures" / artist)
    (tmp_path / "pictures" / "broken.png").write_bytes(b"nothing")
    cv2.imwrite(str(tmp_path / "pictures" / "grey.png"), np.full((20, 30), 128, np.uint8))
    assert ask(tmp_path / "pictures", "--results", "compared", "--top", 9, "-o", tmp_path / "out") == 0
    printed = capsys.readouterr()
    assert "left out" in printed.err and "broken.png" in printed.err and "by chance 50%" in printed.out
    table = pd.read_csv(tmp_path / "out" / "queries.csv")
    assert len(table) == 25 * 2 and table.groupby("picture").probability.sum().to_numpy() == pytest.approx(1, abs=1e-4)
    assert (table[table["rank"] == 1].set_index("picture").probability >= 0.5).all()
    sheets = sorted((tmp_path / "out").glob("sheet-*.png"))
    assert len(sheets) == 4 and all(cv2.imread(str(sheet)).std() > 5 for sheet in sheets)


def test_a_query_by_style_orders_by_cosine(compared, here, tmp_path):
    picture = here / "data" / "painters-32-3x12-0" / "painter02" / "0003.png"
    assert ask(picture, "--results", "compared", "--by", "style", "-o", tmp_path) == 0
    table = pd.read_csv(tmp_path / "queries.csv")
    assert table.cosine.is_monotonic_decreasing and set(table.right) == {"painter02"}


def test_a_query_builds_its_model_once(compared, here, tmp_path, monkeypatch):
    from models import classifiers

    built = []
    build = classifiers.build
    monkeypatch.setattr(classifiers, "build", lambda *a, **k: built.append(1) or build(*a, **k))
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(100):
        cv2.imwrite(str(folder / f"{number}.png"), np.full((8 + number, 40, 3), number, np.uint8))
    assert ask(folder, "--results", "compared", "-o", tmp_path / "out") == 0
    assert len(built) == 1 and pd.read_csv(tmp_path / "out" / "queries.csv").picture.nunique() == 100


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nothing.png"], "nothing.png: no such picture or folder"),
        (["{picture}", "--results", "nowhere"], "no trained model there; run python -m tffapps.fedstyle first"),
        (["{picture}", "--model", "{picture}"], "not a model of tffapps.fedstyle"),
        (["{picture}", "--top", "0"], "--top 0: must be 1 or more"),
        (["{empty}"], "no pictures"),
        (["{broken}"], "none of 1 pictures can be read"),
    ],
)
def test_a_wrong_query_is_one_line(arguments, complaint, compared, here, tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG")
    names = {"picture": here / "data/painters-32-3x12-0/painter01/0000.png", "empty": empty, "broken": broken}
    given = [argument.format(**names) for argument in arguments]
    results = [] if "--results" in given else ["--results", "compared"]
    assert ask(*given, *results, "-o", tmp_path / "out") == 2
    assert complaint in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--artists", "9"], "9"),
        (["--studies", "everything"], "--studies everything: choose from scalability"),
        (["--methods", "fedsam"], "--methods fedsam: unknown; choose from local"),
        (["--style-ce", "-1"], "--style-ce -1.0: must be 0 or more"),
        (["--min-clients", "3"], "--min-clients 3: there are only 2 clients"),
        (["--data", "missing"], "missing: no such folder"),
        (["--aggregator", "dp", "--methods", "fpl"], "does not cover what fpl gathers"),
        (["--train-from", "head", "--methods", "fedavg,fedstyle"], "--methods fedstyle: its own loss is of embeddings"),
    ],
)
def test_a_mistake_is_one_line(arguments, complaint, compared, here, capsys):
    assert cli.main(APP, [*BRIEF, "--results", "mistakes", *arguments]) == 2
    errors = capsys.readouterr().err
    (line,) = (line for line in errors.splitlines() if "error:" in line)
    assert complaint in line and "Traceback" not in errors
    assert not (here / "mistakes" / "fedstyle" / "comparison.csv").exists()


def test_the_papers_loss_weights():
    from tffapps.federated.fedstyle import FedStyle
    from tffapps.fedstyle.trials import with_weights

    def weights(*arguments):
        method = with_weights(cli.parse(APP, ["--profile", "small", *arguments]))[FedStyle]
        return (
            method.style_ce, method.style_contrast, method.style_mse, method.style_server_ce,
            method.style_server_contrast,
        )  # fmt: skip

    assert weights("--style-ce", "3") == (3, 0.05, 2, 1, 0.005)
    assert weights("--loss-weights", "artiststyle") == (10, 0.05, 20, 10, 0.005)
    assert weights("--loss-weights", "conllustration") == (40, 0.5, 20, 10, 0.005)


def test_an_artist_with_one_picture_a_grey_one_and_a_broken_one(compared, here, tmp_path, capsys):
    for artist in ("painter01", "painter02"):
        shutil.copytree(here / "data" / "painters-32-3x12-0" / artist, tmp_path / "art" / artist)
    (tmp_path / "art" / "once").mkdir()
    grey = cv2.imread(str(here / "data/painters-32-3x12-0/painter03/0000.png"), cv2.IMREAD_GRAYSCALE)
    cv2.imwrite(str(tmp_path / "art" / "once" / "only.png"), grey)
    (tmp_path / "art" / "painter01" / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing")
    call(*BRIEF, "--data", str(tmp_path / "art"), "--artists", "0", "--methods", "fedstyle", "--results", "odd")
    errors = capsys.readouterr().err
    assert "once: 1 picture, none to test with and none for the server" in errors and "broken.jpg" in errors
    rounds, _ = record(here / "odd" / "fedstyle", "comparison-fedstyle-3artists-seed0")
    assert rounds.clients.tolist() == [3, 3]


@pytest.mark.skipif("TFFAPPS_REAL_DATA" not in os.environ, reason="no real data here")
def test_real_art(here, tmp_path):
    data = pathlib.Path(os.environ["TFFAPPS_REAL_DATA"]) / "art"
    call(
        *BRIEF, "--data", str(data), "--artists", "2", "--methods", "fedstyle", "--rounds", "1", "--last-rounds", "1",
        "--results", str(tmp_path),
    )  # fmt: skip
    table = pd.read_csv(tmp_path / "fedstyle" / "comparison.csv")
    assert set(table.data) == {"art"} and table.accuracy.between(0, 1).all()
