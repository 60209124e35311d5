"""The tables from hand-made records, and the paper's own numbers beside the right rows."""

from __future__ import annotations

import pathlib

import cv2
import numpy as np
import pandas as pd
import pytest

from models import stain_diffusion
from models.gaussian_mixture import Mixture
from preprocessing.stain import REFERENCE, StainSettings
from tests.evaluation import made
from tests.preprocessing.stains import patches
from tffapps.data import tissue
from tffapps.federated.moments import Moments
from tffapps.fedsda import METHODS, SIDES, paper, tables
from tffapps.fedsda.claims import compared
from tffapps.fedsda.data import FEDERATION, Fold, PatchPool
from tffapps.fedsda.diffusion import StainModel
from tffapps.fedsda.placement import Here
from tffapps.fedsda.quality import PictureQuality
from tffapps.fedsda.stain_mixtures import StainStatistics
from tffapps.fedsda.stains import Stains
from tffapps.study import Record

# Table 2 of the paper, typed from it, in percent: C17 AUROC, A22 AUROC, A22 AUPRC; without and with FedSDA.
TABLE_2 = {
    "fedavg": ((90.97, 78.99, 46.60), (93.84, 90.38, 64.20)),
    "fedprox": ((90.80, 79.82, 45.71), (93.89, 90.44, 64.89)),
    "fedsam": ((90.87, 82.17, 48.21), (93.04, 92.09, 67.45)),
    "fedlesam": ((90.17, 79.42, 44.39), (92.68, 90.20, 64.34)),
    "fedfa": ((92.31, 82.62, 48.45), (94.92, 91.79, 66.86)),
}
# Table 3: SSIM, FID, KID, WD.
TABLE_3 = {
    "none": (1.0000, 55.092, 0.1986, 0.0013),
    "ccst": (0.2462, 20.777, 0.0599, 0.0007),
    "amp-norm": (0.9731, 54.774, 0.1956, 0.0012),
    "fedsda": (0.9969, 40.311, 0.1365, 0.0009),
}
CLASSES = ["normal", "tumour"]
AREAS = ["paper_c17_auroc", "paper_a22_auroc", "paper_a22_auprc"]


def of_auroc(hundredths):
    """Ten patches of each class: of a hundred pairs of them, so many are in the right order."""
    below = [10] * (hundredths // 10) + [hundredths % 10]
    scores = [*range(10), *(count - 0.5 for count in (below + [0] * 10)[:10])]
    tumour = 0.52 + np.array(scores) / 40
    return made.rows_of(["normal"] * 10 + ["tumour"] * 10, np.stack([1 - tumour, tumour], axis=1), CLASSES)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")

    def record(method, side, auroc, seed=0, fold=FEDERATION, rounds=1, rows=None):
        """Of a run whose last model has that AUROC."""
        labels = {"method": method, "side": side, "fold": fold, "seed": seed}
        told = pd.DataFrame({"round": range(1, rounds + 1)})
        return made.record(root, labels, of_auroc(round(100 * auroc)) if rows is None else rows, rounds=told)

    return record


def scores_of(*records):
    return tables.scores_of(tables.entries_of(records), records)


@pytest.fixture(scope="module")
def all_scores(record):
    pairs = [(method, side) for method in METHODS for side in SIDES]
    return scores_of(*(record(*pair, 0.5 + place / 100) for place, pair in enumerate(pairs)))


def quality_of(*sides):
    scores = {side: {"ssim": place, "fid": place + 10, "kid": place + 20, "wd": place + 30}
              for place, side in enumerate(sides)}  # fmt: skip
    return PictureQuality("InceptionV3 random, 75 px", scores, {})


def learned(block, epochs, *distances, clients=3):
    """A round for each distance; None where it was not measured."""
    rows = [
        {"round": number, "fd": fd, "wd": None if fd is None else fd / 10, "worst_fd": None if fd is None else 2 * fd}
        for number, fd in enumerate(distances, start=1)
    ]
    rounds = pd.DataFrame(rows).astype(float).astype({"round": int})
    record = Record({"block": block, "epochs": epochs}, rounds, pd.DataFrame(), {}, pathlib.Path(), list)
    return StainModel(stain_diffusion.build(block, clients=clients), None, 0, clients, record)


def row_of(table, **values):
    """The one row with these values."""
    chosen = table[np.logical_and.reduce([table[name] == value for name, value in values.items()])]
    assert len(chosen) == 1, f"{len(chosen)} rows with {values}"
    return chosen.iloc[0]


# ---- classifiers ----


def test_scores_are_the_last_models_means_over_seeds(record):
    table = scores_of(record("fedavg", "none", 0.5, rounds=2), record("fedavg", "none", 0.7, seed=1, rounds=2))
    (row,) = table.to_dict("records")
    assert row["auroc"] == pytest.approx(0.6) and row["auroc_std"] == pytest.approx(0.2 / 2**0.5)
    assert row["auroc_low"] < 0.6 < row["auroc_high"]
    assert row["accuracy"] == pytest.approx(0.5)  # all are called tumours
    assert (row["fold"], row["seeds"], row["rounds"], row["images"]) == (FEDERATION, "0 1", 2, 20)
    assert (row["worst_client"], row["worst_client_auroc"]) == ("client1", pytest.approx(0.6))


@pytest.mark.parametrize(
    ("classes", "auprc", "positive"),
    [
        (["normal", "Tumor"], (1 + 2 / 3) / 2, "Tumor"),  # hits are first and third
        (["one", "two"], ((1 + 2 / 3) / 2 + 1 / 2) / 2, "every class in turn"),  # of the other class second
    ],
)
def test_auprc_is_the_tumours(classes, auprc, positive, record):
    second = np.array([0.9, 0.5, 0.7])
    rows = made.rows_of([classes[1], classes[1], classes[0]], np.stack([1 - second, second], axis=1), classes)
    (row,) = scores_of(record("fedavg", "none", 0, rows=rows)).to_dict("records")
    assert row["auprc"] == pytest.approx(auprc) and row["positive"] == positive


def test_methods_and_folds_are_not_mixed(record):
    table = scores_of(
        record("fedavg", "none", 0.9),
        record("fedavg", "fedsda", 0.8),
        record("fedprox", "none", 0.7),
        record("fedavg", "none", 0.6, fold="centre0"),
    )
    assert table.auroc.tolist() == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert table.fold.tolist() == [FEDERATION] * 3 + ["centre0"]


def test_each_centres_score_is_its_own(record):
    right, wrong = of_auroc(100), of_auroc(50)
    both = pd.concat([right.assign(client="b2"), wrong.assign(client="b10")], ignore_index=True)
    both = both.assign(image=[f"i{number}" for number in range(40)], subject=[f"s{number}" for number in range(40)])
    entries = tables.entries_of([record("fedavg", "none", 0, rows=both)])
    found = tables.by_centre(entries, tables.metrics_of(entries))
    assert found.centre.tolist() == ["b2", "b10"] and found.auroc.tolist() == pytest.approx([1, 0.5])
    assert found.images.tolist() == [20, 20] and found.auroc_low.notna().all()
    alone = tables.entries_of([record("fedavg", "fedsda", 0.8)])
    assert tables.by_centre(alone, tables.metrics_of(alone)).empty


def test_variants_of_fedsda_are_compared_with_plain_fedavg(record):
    runs = [("fedavg", "none"), ("fedavg", "gaussian"), ("fedavg", "fedsda+"), ("fedsam", "amp-norm")]
    with made.few_swaps():
        claimed = compared(tables.entries_of([record(*run, 0.8) for run in [*runs, ("silobn", "none")]]))
    assert list(zip(claimed.method, claimed.baseline)) == [
        ("fedavg + gaussian", "fedavg"), ("fedavg + fedsda+", "fedavg"), ("harmofl", "fedavg"), ("silobn", "fedavg"),
    ]  # fmt: skip


def test_folds_are_compared_by_themselves_and_centres_left_out_together(record):
    def left_out(side, auroc, fold):
        rows = of_auroc(round(100 * auroc))
        rows = rows.assign(image=fold + rows.image, subject=fold + rows.subject)
        return record("fedavg", side, auroc, fold=fold, rows=rows)

    records = [
        record("fedavg", "none", 0.6), record("fedavg", "fedsda", 0.9), record("fedavg", "ccst", 0.7),
        record("fedprox", "fedsda", 0.2), left_out("none", 0.5, "c0"), left_out("fedsda", 0.3, "c0"),
        left_out("none", 0.1, "c1"), left_out("fedsda", 0.5, "c1"),
    ]  # fmt: skip
    with made.few_swaps():
        found = compared(tables.entries_of(records))
    assert found[["claim", "method", "baseline", "role", "splits"]].values.tolist() == [
        ["AUROC", "fedavg + fedsda", "fedavg", "baseline", 1], ["AUROC", "fedavg + fedsda", "ccst", "control", 1],
        ["AUROC", "fedavg + ccst", "fedavg", "baseline", 1],
        ["AUROC, each centre left out", "fedavg + fedsda", "fedavg", "baseline", 2],
    ]  # fmt: skip
    assert found.gain.tolist() == pytest.approx([0.3, 0.2, 0.1, (0.4 - 0.2) / 2])
    assert found.p_holm.iloc[-1] == found.p.iloc[-1]  # alone in its question


def test_the_papers_values_are_shown_with_its_own_patches_alone(all_scores):
    table = tables.table2(all_scores)
    assert set(AREAS) <= set(tables._shown(table, own=True).columns)
    assert not [name for name in tables._shown(table, own=False).columns if name.startswith("paper_")]


def test_table_2_is_the_papers_beside_ours(all_scores):
    table = tables.table2(all_scores)
    assert set(table.side) == {"none", "fedsda"} and len(table) == 2 * len(METHODS)
    for method, values in TABLE_2.items():
        for side, expected in zip(("none", "fedsda"), values):
            row = row_of(table, method=method, side=side)
            assert row[AREAS].tolist() == pytest.approx([value / 100 for value in expected])
            assert row.auroc == pytest.approx(0.5 + (4 * METHODS.index(method) + SIDES.index(side)) / 100)
    assert row_of(table, method="fedavg", side="none").paper_c17_auroc == 0.9097
    assert row_of(table, method="fedfa", side="fedsda").paper_c17_auroc == 0.9492
    assert row_of(table, method="fedsam", side="fedsda").paper_a22_auprc == 0.6745


def test_table_3_is_the_papers_beside_ours(all_scores):
    table = tables.table3(all_scores, quality_of(*SIDES))
    assert table.side.tolist() == [*SIDES, "amp-norm"] and table.method.tolist() == ["fedavg"] * 4 + ["fedsam"]
    for place, side in enumerate(SIDES):
        row = row_of(table, side=side, method="fedavg")
        assert row[["paper_ssim", "paper_fid", "paper_kid", "paper_wd"]].tolist() == list(TABLE_3[side])
        assert row[["ssim", "fid", "kid", "wd"]].tolist() == [place, place + 10, place + 20, place + 30]
        assert row.auroc == pytest.approx(0.5 + place / 100) and row.features == "InceptionV3 random, 75 px"
    assert row_of(table, side="ccst").paper_ssim == 0.2462
    assert row_of(table, side="amp-norm", method="fedavg")[AREAS].tolist() == [0.7749, 0.7701, 0.4283]
    assert row_of(table, side="ccst")[AREAS].tolist() == [0.7189, 0.8009, 0.3843]


def test_what_did_not_run_has_no_row(record):
    scores = scores_of(record("fedsam", "none", 0.5), record("fedsam", "ccst", 0.6))
    assert tables.table2(scores)[["method", "side"]].values.tolist() == [["fedsam", "none"]]
    third = tables.table3(scores, quality_of("none", "ccst"))
    assert third[["method", "side"]].values.tolist() == [["fedsam", "none"], ["fedsam", "ccst"]]
    assert third[AREAS].iloc[1].isna().all()  # which the paper has not run either
    assert third.paper_ssim.tolist() == [1.0, 0.2462]


# ---- the stain model ----


def test_table_1_is_the_papers_beside_ours():
    table = tables.table1(
        [learned("transformer", 300, None, 4.0, 0.5), learned("token-mlp", 300, 7.0)], [10.0, 2.0, 3.0]
    )
    first, second = (row_of(table, block=block) for block in ("transformer", "token-mlp"))
    assert (first.paper_fd, second.paper_fd) == (0.40, 18.91)
    assert (first.fd, first.worst_client_fd, first["rounds"], first.epochs) == (0.5, 1.0, 3, 300)
    assert first.wd == pytest.approx(0.05) and second.fd == 7
    assert (first.hidden, first.heads, first.clients) == (32, 8, 3) and pd.isna(second.heads)
    assert first.parameters == learned("transformer", 1, 1.0).denoiser.count_params() > second.parameters
    assert set(table.fd_between_clients) == {5.0} and set(table.fd_between_nearest) == {2.0}


def test_a_single_client_has_nobody_to_be_compared_with():
    table = tables.table1([learned("mlp", 300, 7.0, clients=1)], [])
    assert table[["fd_between_clients", "fd_between_nearest"]].isna().all(axis=None) and table.clients.tolist() == [1]


def test_table_1_has_each_stain_model_in_its_schedules():
    moments = Moments(np.zeros(6), np.ones(6))
    component = Mixture(np.array([0.5, 0.5, 0]), np.zeros((3, 6)), np.zeros((3, 6, 6)))
    mixture = StainStatistics("mixture", [component] * 2, moments, {"fd": 0.1, "mmd": 0.2, "worst_fd": 0.3})
    table = tables.table1([learned("mlp", 300, 7.0), mixture, learned("mlp", 5, 9.0)], [1.0])
    assert table.block.tolist() == ["mlp", "mixture", "mlp"] and table.epochs.tolist() == [300, 0, 5]
    last = row_of(table, block="mixture")
    assert (last.parameters, last["rounds"], last.fd, last.mmd, last.worst_client_fd) == (2 * 2 * 28, 1, 0.1, 0.2, 0.3)
    assert tables.denoisers([mixture]) == []


def test_rounds_and_epochs_where_the_distance_was_measured():
    models = [learned("mlp", 4, None, 3.0), learned("transformer", 4, 1.0, 1.0), learned("mlp", 1, 9.0, None, 5.0)]
    table = tables.rounds_vs_epochs(models)
    assert table.columns.tolist() == ["local_epochs", "round", "epochs_in_all", "fd", "wd"]
    assert table.to_numpy() == pytest.approx(
        np.array([[4, 2, 8, 3, 0.3], [1, 1, 1, 9, 0.9], [1, 3, 3, 5, 0.5]])
    )  # of the first block only


def test_the_papers_numbers_are_shares():
    assert all(0 < value < 1 for values in paper.AREAS.values() for value in values)
    assert set(paper.QUALITY) == set(SIDES) and {method for method, _ in paper.AREAS} == set(METHODS)


# ---- separation ----


def rotated(matrices, degrees):
    """Every column turned by that angle, away from where it was."""
    axis = np.cross(matrices, matrices[..., ::-1], axis=-2)
    axis /= np.linalg.norm(axis, axis=-2, keepdims=True)
    turn = np.radians(degrees)
    return matrices * np.cos(turn) + np.cross(axis, matrices, axis=-2) * np.sin(turn)


@pytest.fixture
def separated(tmp_path):
    """Two clients of three patches, the stains of one turned by 5 degrees; a patch of the other is not measured."""
    images, _ = patches(6, size=64)
    paths = [str(tmp_path / f"{number}.png") for number in range(6)]
    for path, image in zip(paths, images):
        cv2.imwrite(path, image[..., ::-1])
    true = tissue.centre_stains(0, 6, 0)
    numbers = pd.DataFrame(true.transpose(0, 2, 1).reshape(-1, 6), columns=list(tissue.NUMBERS), index=paths)
    table = pd.DataFrame(
        {"path": paths, "label": ["a", "b"] * 3, "client": ["one"] * 3 + ["two"] * 3, "split": "train"}
    )
    found = np.concatenate([rotated(true[:3], 5.0), true[3:]])
    found[5] = REFERENCE
    reasons = np.array(["", "", "", "", "", "too little tissue: 1.0% of the pixels"])
    measured = Stains(paths, found, reasons == "", reasons)
    fold = Fold(FEDERATION, table, table)
    return PatchPool("stand-in", table, ["a", "b"], "key", ("png",), truth=numbers), fold, measured


def separation_table(pool, fold, measured, settings):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tffapps.fedsda.stains.measure", lambda *arguments: measured)
        return pd.DataFrame(Here(pool, settings).separation(fold))


def test_angles_to_the_true_stains(separated):
    pool, fold, measured = separated
    table = separation_table(pool, fold, measured, StainSettings(lambda_matrix=0.02))
    one, two = (row_of(table, client=client) for client in ("one", "two"))
    assert (one.h_degrees, one.e_degrees) == pytest.approx((5.0, 5.0), abs=0.01)
    assert (two.h_degrees, two.e_degrees) == pytest.approx((0.0, 0.0), abs=0.05)
    assert (one.patches, one.separated, one.not_separated) == (3, 3, "")
    assert (two.patches, two.separated, two.not_separated) == (3, 2, "1 too little tissue")
    assert set(table["lambda"]) == {0.02} and set(table.method) == {"vahadane"}
    assert ((table.reconstruction_ssim > 0.97) & (table.reconstruction_ssim < 1)).all()


def test_a_drawn_patch_without_known_stains_does_not_count(separated):
    pool, fold, measured = separated
    pool.truth.iloc[1] = np.nan
    table = separation_table(pool, fold, measured, StainSettings())
    assert row_of(table, client="one").h_degrees == pytest.approx(5.0, abs=0.01)


def test_real_patches_have_no_angles(separated):
    pool, fold, measured = separated
    real = PatchPool(pool.name, pool.table, pool.classes, pool.key, pool.formats)
    table = separation_table(real, fold, measured, StainSettings())
    assert not {"h_degrees", "e_degrees"} & set(table.columns) and table.client.tolist() == ["one", "two"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of means over nothing
def test_a_client_of_which_nothing_can_be_separated_has_a_row(separated):
    pool, fold, measured = separated
    nothing = Stains(measured.paths, measured.matrices, np.zeros(6, bool), np.full(6, "too little tissue: none"))
    table = separation_table(pool, fold, nothing, StainSettings())
    assert table.separated.tolist() == [0, 0] and table.not_separated.tolist() == ["3 too little tissue"] * 2
    assert table[["h_degrees", "reconstruction_ssim"]].isna().all(axis=None)


def test_unmeasured_patches_are_listed_and_said(separated, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, _, measured = separated
    measured.announce(tmp_path)
    assert pd.read_csv("unmeasured.csv").values.tolist() == [["5.png", "too little tissue: 1.0% of the pixels"]]
    said = capsys.readouterr().err
    assert "1 of 6 training patches keep their stains (1 too little tissue)" in said
    Stains(measured.paths[:5], measured.matrices, measured.ok[:5], measured.reasons[:5]).announce(tmp_path)
    assert pd.read_csv("unmeasured.csv").empty and capsys.readouterr().err == ""
