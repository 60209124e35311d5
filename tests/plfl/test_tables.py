"""The tables from hand-made records, the thesis's own numbers, and splits that let no subject into two parts."""

import dataclasses
import pathlib

import numpy as np
import pandas as pd
import pytest

from tests.evaluation import made
from tffapps.data import knees, oai
from tffapps.data.pool import Pool
from tffapps.data.splits import Split
from tffapps.plfl import division, paper, parameters, tables
from tffapps.plfl.parameters import Shape
from tffapps.results import write_table
from tffapps.study import Record

CLASSES = ["healthy", "moderate", "severe"]
# Tables 4.9 and 4.10 of the thesis, typed from it.
PARAMETERS = {
    "densenet169": (20874243, 12642880, 33517123),
    "densenet201": (24085507, 18321984, 42407491),
    "mobilenetv2": (16057347, 2257984, 18315331),
}
MEGABYTES = {
    "densenet169": (79.63, 48.23, 127.86),
    "densenet201": (91.88, 69.89, 161.77),
    "mobilenetv2": (61.25, 8.61, 69.87),
}


def cells(prefix, matrix):
    return {f"{prefix}_{i}_{j}": count for (i, j), count in np.ndenumerate(np.array(matrix))}


def diagonal(*counts):
    return np.diag(counts)


def rounds(*accuracies, counts=((4, 0, 0), (1, 2, 0), (0, 1, 2)), seconds=60.0):
    """A row for each accuracy; the other metrics are the accuracy and a tenth, two tenths, … less."""
    rows = [
        {
            "round": number,
            **{metric: accuracy - rank / 10 for rank, metric in enumerate(tables.METRICS)},
            **cells("test", counts),
            "seconds": seconds,
            "training_seconds": seconds / 2,
        }
        for number, accuracy in enumerate(accuracies, start=1)
    ]
    return pd.DataFrame(rows)


def reports(number, client, test, **others):
    return {"round": number, "client": client, **cells("test", test), **others}


def plfl_report(number, client, kept, right, test, truth):
    counts = {f"kept_{code}": count for code, count in enumerate(kept)}
    counts |= {f"right_{code}": count for code, count in enumerate(right)}
    return reports(number, client, test, **counts, **cells("truth", truth))


def record(method, model, seed, poison, rounds, clients):
    labels = {"method": method, "model": model, "seed": seed, "poison": poison}
    return Record(labels, rounds, clients, {}, pathlib.Path(), list)


def gold(seed, accuracy, model="mobilenetv2", seconds=120.0):
    own = pd.DataFrame([{"round": 1, "client": "server", "examples": 80, "loss": 0.5}])
    return record("gold", model, seed, 0.0, rounds(accuracy, seconds=seconds), own)


def plfl(seed, *accuracies, kept=(6, 2, 0), right=(3, 2, 0), poison=0.0):
    rows = [
        plfl_report(number, client, kept, right, diagonal(3, 1, 0), [[4, 0, 0], [0, 3, 1], [2, 0, 0]])
        for number in range(1, len(accuracies) + 1)
        for client in oai.CLIENTS
    ]
    return record("plfl", "mobilenetv2", seed, poison, rounds(*accuracies), pd.DataFrame(rows))


def csfl(seed, *accuracies, model="densenet169", poison=0.0, counts=((4, 0, 0), (1, 2, 0), (0, 1, 2))):
    rows = [
        reports(number, client, [[5, 0, 0], [3, 1, 0], [0, 0, 1]])
        for number in range(1, len(accuracies) + 1)
        for client in oai.CLIENTS
    ]
    return record("csfl", model, seed, poison, rounds(*accuracies, counts=counts), pd.DataFrame(rows))


def ended(root, record, right, of=10):
    """The record of a run whose last model names so many of ten test images rightly; the first ones."""
    return dataclasses.replace(record, folder=made.folder_with(root, made.hits(right, of, CLASSES)))


def entries_of(records):
    return [record.entry(framework=record["method"]) for record in records]


def last_scores(records):
    return tables.scores_of(entries_of(records), records)


def row_of(table, **values):
    """The one row with these values."""
    chosen = table[np.logical_and.reduce([table[name] == value for name, value in values.items()])]
    assert len(chosen) == 1, f"{len(chosen)} rows with {values}"
    return chosen.iloc[0]


WANTED = [Shape(name, 32, 1, "gap", cut="all", norm="batch", classes=3) for name in ("tiny", "mobilenetv2")]


@pytest.fixture(scope="module")
def models():
    return parameters.table_of(WANTED)


@pytest.mark.slow
def test_the_networks_are_those_of_the_thesis(models):
    for name in PARAMETERS:
        row = row_of(models, model=name, size=224)
        for number, kind in enumerate(("trainable", "non_trainable", "total")):
            assert row[kind] == row[f"paper_{kind}"] == PARAMETERS[name][number]
            assert row[f"{kind}_mb"] == row[f"paper_{kind}_mb"] == MEGABYTES[name][number]
        assert row["base"] == "frozen"
    assert paper.PARAMETERS == PARAMETERS and paper.MEGABYTES == MEGABYTES


@pytest.mark.slow
def test_the_networks_that_ran_stand_below(models):
    row = row_of(models, model="tiny", size=32)
    # Convolutions 1·8·9, 8·16·9, 16·32·9; 2 trained and 2 other numbers for each of 56 filters; 32·3 + 3 in the head.
    assert (row.trainable, row.non_trainable, row.total) == (5832 + 112 + 99, 112, 5832 + 224 + 99)
    assert row.total_mb == 0.02 and pd.isna(row.paper_total) and row["base"] == "trained"
    assert models[["model", "size"]].values.tolist()[3:] == [["tiny", 32], ["mobilenetv2", 32]]


def test_written_parameters_keep_every_digit(models, tmp_path):
    write_table(tmp_path / "models.csv", models)
    text = (tmp_path / "models.csv").read_text()
    for numbers in PARAMETERS.values():
        for number in numbers:
            assert text.count(str(number)) == 2  # ours and the thesis's


def test_counted_networks_are_not_counted_again(models, tmp_path, monkeypatch):
    write_table(tmp_path / "models.csv", models)
    monkeypatch.setattr(parameters, "_counts", None)
    again = parameters.table_of(WANTED, tmp_path / "models.csv")
    write_table(tmp_path / "again.csv", again)
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "models.csv").read_text()
    with pytest.raises(TypeError):  # two classes: another network
        parameters.table_of([dataclasses.replace(WANTED[0], classes=2)], tmp_path / "models.csv")


def test_all_parameters_of_a_network(models):
    assert parameters.totals(models, [parameters.THESIS[2]]) == {"mobilenetv2": 18_315_331}


def test_a_network_of_the_thesis_stands_in_the_table_once(models, tmp_path):
    write_table(tmp_path / "models.csv", models)
    again = parameters.table_of(parameters.THESIS[:1], tmp_path / "models.csv")
    assert again.model.tolist() == list(PARAMETERS)


@pytest.mark.parametrize("fresh", [False, True])
def test_networks_are_counted_again_with_fresh(fresh, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(parameters, "table_of", lambda *arguments: given.append(arguments) or pd.DataFrame())
    parameters.write(tmp_path, WANTED, fresh)
    assert given == [(WANTED, None if fresh else tmp_path / "models.csv")] and (tmp_path / "models.csv").exists()


def test_a_seed_that_stopped_early_counts_with_its_last_round(tmp_path):
    (row,) = last_scores([ended(tmp_path, csfl(0, 0.9, 0.9), 5), ended(tmp_path, csfl(1, 0.9), 7)]).to_dict("records")
    assert row["accuracy"] == pytest.approx(0.6) and row["accuracy_std"] == pytest.approx(0.2 / 2**0.5)
    assert row["accuracy_low"] < 0.6 < row["accuracy_high"] and row["rounds"] == 1.5
    assert (row["images"], row["subjects"], row["splits"], row["seeds"]) == (10, 10, 1, "0 1")


def test_a_grade_that_is_missed_by_two_costs_four_times_as_much(tmp_path):
    healthy, moderate, severe = CLASSES
    rows = made.answers([healthy, healthy, moderate, severe], [healthy, moderate, moderate, healthy], CLASSES)
    run = dataclasses.replace(gold(0, 0.5), folder=made.folder_with(tmp_path, rows))
    (row,) = last_scores([run]).to_dict("records")
    # Squares 0 + 1 + 0 + 4 of 4 images; by chance, 2, 1, 1 images of the grades called 2, 2, 0: (4 + 2 + 10) / 4.
    assert row["quadratic_kappa"] == pytest.approx(1 - 5 / 4)
    assert row["recall_severe"] == 0 and row["ece"] == pytest.approx(0.3)  # two of four right, all held for sure to 0.8
    # F1 1/2, 2/3 and 0 of the grades, and 2, 1, 1 images.
    assert row["macro_f1"] == pytest.approx((1 / 2 + 2 / 3) / 3) and row["f1"] == pytest.approx((1 + 2 / 3) / 4)


@pytest.fixture(scope="module")
def comparison():
    records = [gold(0, 0.5), plfl(0, 0.6, 0.7), gold(1, 0.7), plfl(1, 0.8, 0.9), csfl(0, 0.4)]
    return tables.by_round(records, own=True)


def test_scores_are_means_over_seeds(comparison):
    row = row_of(comparison, framework="plfl", round="1", site="server")
    assert row.accuracy == pytest.approx(0.8) and row.accuracy_std == pytest.approx(0.2 / 2**0.5)
    assert row.f1 == pytest.approx(0.5) and row.auroc == pytest.approx(0.3) and row.seeds == "0 1"
    alone = row_of(comparison, framework="csfl", site="server")
    assert alone.accuracy == pytest.approx(0.4) and np.isnan(alone.accuracy_std) and alone.seeds == "0"


def test_rounds_count_from_0_and_gold_is_the_initial_one(comparison):
    assert set(comparison["round"][comparison.framework == "plfl"]) == {"0", "1"}
    row = row_of(comparison, framework="gold")
    assert (row["round"], row.site, row.labels) == ("initial", "server", "true")
    assert row.accuracy == pytest.approx(0.6) and row.paper_accuracy == 0.84


def test_clients_are_scored_by_their_own_counts(comparison):
    own = row_of(comparison, framework="csfl", round="0", site="client2")
    assert own.labels == "true" and own.accuracy == pytest.approx(7 / 10) and np.isnan(own.auroc)
    # precision 5/8, 1, 1 of 5, 4, 1 images
    assert own.precision == pytest.approx((5 * 5 / 8 + 4 + 1) / 10)
    pseudo = row_of(comparison, framework="plfl", round="0", site="client1", labels="pseudo")
    truth = row_of(comparison, framework="plfl", round="0", site="client1", labels="true, all images")
    assert pseudo.accuracy == 1 and truth.accuracy == pytest.approx(7 / 10)


def test_the_thesis_stands_beside_what_it_measured(comparison):
    server = row_of(comparison, framework="plfl", round="1", site="server")
    assert server[["paper_accuracy", "paper_precision", "paper_recall", "paper_f1"]].tolist() == [0.88] * 4
    assert np.isnan(server.paper_macro_f1)
    pseudo = row_of(comparison, framework="plfl", round="1", site="client2", labels="pseudo")
    assert pseudo.paper_accuracy == 0.92
    papers = [column for column in comparison.columns if column.startswith("paper_")]
    assert len(papers) == 6 and server.paper_says_also == "0.84 (Table 5.11)"
    assert comparison.loc[comparison.labels == "true, all images", papers].isna().all(axis=None)
    first = row_of(comparison, framework="csfl", round="0", site="server")
    assert first.paper_accuracy == 0.69966 and np.isnan(first.paper_f1)


def test_other_studies_stand_beside_plfl(comparison):
    scores = pd.DataFrame(
        [{"framework": name, "model": "mobilenetv2", "accuracy": 0.7, "accuracy_low": 0.6, "accuracy_high": 0.8}
         for name in ("gold", "plfl")]
    )  # fmt: skip
    found = tables.studies(scores, {"mobilenetv2": 18_315_331})
    assert found.accuracy.tolist() == [0.8929, 0.8929, 0.89, 0.8815, 0.7]
    assert found.million_parameters.tolist() == [28.0, 60.4, 7.8, 3.4, 18.3]


def test_the_best_network_of_each_framework(tmp_path):
    records = [
        ended(tmp_path, csfl(0, 0.9, 0.9), 5), ended(tmp_path, csfl(0, 0.4, 0.4, model="mobilenetv2"), 6),
        ended(tmp_path, gold(0, 0.3), 3), ended(tmp_path, plfl(0, 0.2, 0.2), 1),
    ]  # fmt: skip
    last = last_scores(records)
    assert last.accuracy.tolist() == pytest.approx([0.5, 0.6, 0.3, 0.1]) and last["rounds"].tolist() == [2, 2, 1, 2]
    best = tables.best(last)
    assert row_of(best, framework="csfl").model == "mobilenetv2" and len(best) == 3


def test_frameworks_are_held_against_gold_alone_and_without_poison(tmp_path):
    records = [
        ended(tmp_path, gold(0, 0.5), 5), ended(tmp_path, plfl(0, 0.5), 9),
        ended(tmp_path, plfl(0, 0.5, poison=1.0), 1),
        ended(tmp_path, csfl(0, 0.5), 9),  # of another network: gold has not run with it
    ]  # fmt: skip
    (row,) = tables.claims_of(entries_of(records)).itertuples()
    assert (row.claim, row.method, row.baseline, row.role) == (
        "macro F1, mobilenetv2", "plfl", "gold only", "baseline",
    )  # fmt: skip
    assert row.gain > 0 and row.p > 0.05 and row.verdict == "level"


def test_frameworks_are_held_against_gold_that_goes_on(tmp_path):
    """Where it was played; in macro F1 and, grades having an order, in quadratic kappa."""
    continued = dataclasses.replace(gold(0, 0.5), labels={**gold(0, 0.5).labels, "method": "gold+"})
    records = [ended(tmp_path, gold(0, 0.5), 5), ended(tmp_path, continued, 5), ended(tmp_path, plfl(0, 0.5), 9)]
    found = tables.claims_of(entries_of(records))
    assert list(found[["method", "baseline", "metric", "role"]].itertuples(index=False, name=None)) == [
        ("plfl", "gold only", "macro_f1", "baseline"),
        ("gold+", "gold only", "macro_f1", "baseline"),
        ("gold+", "gold only", "quadratic_kappa", "baseline"),
        ("plfl", "gold continued", "macro_f1", "control"),
        ("plfl", "gold continued", "quadratic_kappa", "control"),
    ]
    assert found.gain.tolist()[1:3] == [0, 0] and found.gain[3] == found.gain[0] > 0


@pytest.mark.parametrize("own", [False, True])
def test_the_thesis_stands_beside_its_own_images_alone(own, pool, tmp_path):
    records = [ended(tmp_path, gold(0, 0.5), 5), ended(tmp_path, plfl(0, 0.5), 9)]
    found = tables.all_of(records, pool, [Split("", pool)], [0], own)
    assert len(found["claims"]) == 1 and found["poisoning"].empty
    beside = {name for name, table in found.items() if any(str(column).startswith("paper_") for column in table)}
    assert beside == ({"rounds", "pseudo_labels", "times", "splits"} if own else set())


def test_pseudo_labels_and_how_many_were_right():
    records = [csfl(0, 0.5), plfl(0, 0.6, 0.7), plfl(1, 0.8, 0.9, kept=(2, 4, 0), right=(1, 3, 0))]
    table = tables.pseudo_labels(records, CLASSES)
    assert set(table.framework) == {"plfl"} and set(table["round"]) == {0, 1} and len(table) == 2 * 2 * 3
    row = row_of(table, round=1, client="client1", **{"class": "healthy"})
    assert (row.kept, row.right, row.share_right) == (4, 2, 0.5) and row.paper_kept == 661
    assert row.kept_std == pytest.approx(8**0.5)
    row = row_of(table, round=0, client="client2", **{"class": "moderate"})
    assert (row.kept, row.right) == (3, 2.5) and row.share_right == pytest.approx(2.5 / 3) and row.paper_kept == 209
    row = row_of(table, round=0, client="client2", **{"class": "severe"})
    assert row.kept == 0 and np.isnan(row.share_right)
    assert tables.pseudo_labels([csfl(0, 0.5)], CLASSES).empty


def test_confusion_is_the_last_round_summed_over_seeds():
    first = csfl(0, 0.5, 0.6)
    first.rounds.loc[0, "test_0_0"] = 99  # a round before the last
    second = csfl(1, 0.5, counts=((3, 1, 0), (0, 3, 0), (0, 0, 0)))
    table = tables.confusion([first, second], CLASSES)
    predicted = table[[f"predicted_{label}" for label in CLASSES]].to_numpy()
    assert predicted.tolist() == [[7, 1, 0], [1, 5, 0], [0, 1, 2]]
    assert table.true.tolist() == CLASSES and table.support.tolist() == [8, 6, 3]
    assert table.recall.tolist() == pytest.approx([7 / 8, 5 / 6, 2 / 3])
    assert table.precision.tolist() == pytest.approx([7 / 8, 5 / 7, 1])


def test_times_include_the_servers_first_training():
    records = [gold(0, 0.5), plfl(0, 0.6, 0.7), csfl(0, 0.4, 0.5, 0.6)]
    table = tables.times(records)
    row = row_of(table, framework="plfl")
    assert (row.wall_minutes, row.training_minutes, row.paper_minutes) == (2 + 2, 1 + 1, 18.34)
    row = row_of(table, framework="csfl")
    assert (row.wall_minutes, row.training_minutes, row.paper_minutes) == (3, 1.5, 59.517)
    assert row_of(table, framework="gold").wall_minutes == 2


def test_a_run_whose_first_training_is_not_there_has_no_time():
    """Of an earlier command, say, whose gold cannot be read."""
    assert tables.times([plfl(0, 0.6), csfl(0, 0.4)]).framework.tolist() == ["csfl"]
    assert tables.times([plfl(0, 0.6)]).empty


def test_poisoning_against_the_share(tmp_path):
    clean = [ended(tmp_path, csfl(0, 0.1, 0.1), 8), ended(tmp_path, csfl(1, 0.1), 6)]
    spoilt = [ended(tmp_path, csfl(0, 0.1, poison=0.5), 4), ended(tmp_path, csfl(1, 0.1, poison=0.5), 2)]
    alone = [ended(tmp_path, plfl(0, 0.1, poison=1.0), 9), ended(tmp_path, plfl(0, 0.1), 10)]
    unspoilt = ended(tmp_path, csfl(2, 0.1), 0)  # a seed without poison
    records = [ended(tmp_path, gold(0, 0.5), 5), *spoilt, *clean, *alone, unspoilt]
    table = tables.poisoning_table(entries_of(records))
    assert set(table.framework) == {"csfl", "plfl"}
    rows = table[table.framework == "csfl"]
    assert rows.share.tolist() == [0.0, 0.5] and set(rows.what) == {"labels changed"} and set(rows.seeds) == {"0 1"}
    assert rows.accuracy.tolist() == pytest.approx([0.7, 0.3])
    assert (rows.macro_f1_low < rows.macro_f1).all() and (rows.macro_f1 < rows.macro_f1_high).all()
    rows = table[table.framework == "plfl"]
    assert rows.share.tolist() == [0.0, 1.0] and set(rows.what) == {"images ruined"}
    assert rows.macro_f1.iloc[0] == 1
    assert tables.poisoning_table(entries_of(clean)).empty


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = knees.write_knees(tmp_path_factory.mktemp("knees") / "k", images=120, size=64, progress=False)
    return Pool("stand-in", oai.read_oai(folder), CLASSES, "key")


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", ["csfl", "plfl", "fssfl"])
def test_no_subject_is_in_two_parts(pool, kind, seed):
    table = division.split(pool, kind, seed)
    assert sorted(table.path) == sorted(pool.table.path)
    assert (table.groupby("subject").size() > 1).any()
    assert set(table.client[table.split == "test"]) == ({"server"} if kind == "plfl" else {"server", *oai.CLIENTS})
    parts = table.client + " " + table.split
    if kind == "fssfl":
        parts += " " + table.labelled.astype(str)
    assert (parts.groupby(table.subject).nunique() == 1).all()


def test_the_splits_add_up(pool):
    table = tables.splits(Split("", pool), ["csfl", "plfl", "fssfl"], [0, 1])
    for (kind, _), rows in table.groupby(["split", "seed"]):
        whole, parts = rows[rows.part == "all"], rows[rows.part != "all"]
        for column, expected in (("images", 120), ("healthy", 83), ("moderate", 29), ("severe", 8)):
            assert whole[column].sum() == parts[column].sum() == expected
        assert whole.site.tolist() == ["client1", "client2", "server"]
        server = {"csfl": [271, 104, 31], "plfl": [930, 329, 93], "fssfl": [930, 329, 93]}[kind]
        assert whole[[f"paper_{label}" for label in CLASSES]].iloc[-1].tolist() == server
        thirds = whole.images.to_numpy() / 120
        assert np.abs(thirds - ([0.45, 0.45, 0.1] if kind == "csfl" else [1 / 3] * 3)).max() < 0.03
    test = row_of(table, split="csfl", seed=0, site="server", part="test")
    assert test.images == row_of(table, split="csfl", seed=0, site="server", part="all").images
