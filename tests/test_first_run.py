"""The study of first runs: how it divides images, what its table says, that it goes on where it stopped."""

import pandas as pd
import pytest

from benchmarks import first_run
from benchmarks.first_run import REGRESSION, Source, images_of, manifest, scored_on, summary, with_others
from tffapps.errors import UserError


def write(folder, *names):
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")  # only the application looks into it


@pytest.fixture
def knees(tmp_path):
    """Two classes, the left and the right knee of each of 30 subjects."""
    names = [f"{grade}/{100 + number}{side}.png" for number in range(30) for side, grade in zip("LR", "03")]
    write(tmp_path / "knee", *names, "notes.txt")
    return Source("knee", tmp_path / "knee", subject="(.+)[LR]")


@pytest.fixture
def stains(tmp_path):
    for place in ("a", "b"):
        write(tmp_path / "stains", *(f"{place}/{label}/{n}.jpg" for label in ("normal", "tumour") for n in range(10)))
    return Source("stains", tmp_path / "stains", by_folder=True)


def test_a_subject_is_in_one_part_and_at_one_client(knees):
    table = manifest(images_of(knees), 0)
    assert len(table) == 60 and set(table.label) == {"0", "3"}
    assert set(table.subject) == {str(100 + number) for number in range(30)}
    assert (table.groupby("subject")[["split", "client"]].nunique() == 1).all(axis=None)
    assert table.split.value_counts().to_dict() == {"train": 36, "val": 12, "test": 12}
    assert table.client.value_counts().to_dict() == {"client1": 20, "client2": 20, "client3": 20}


def test_the_topmost_folders_are_clients(stains):
    table = manifest(images_of(stains), 0)
    counts = table.groupby(["client", "label", "split"]).size().unstack()
    assert list(counts.index) == [("a", "normal"), ("a", "tumour"), ("b", "normal"), ("b", "tumour")]
    assert (counts[["train", "val", "test"]] == [6, 2, 2]).all(axis=None)


def test_a_split_is_drawn_by_its_number(stains):
    images = images_of(stains)
    first, again, second = manifest(images, 0), manifest(images, 0), manifest(images, 1)
    assert first.equals(again) and not first.equals(second)


def test_validation_looks_at_no_test_image(stains):
    table = manifest(images_of(stains), 0)
    seen = scored_on(table, "val")
    assert set(seen.path[seen.split == "test"]) == set(table.path[table.split == "val"])
    assert not set(seen.path) & set(table.path[table.split == "test"])
    assert set(seen.split) == {"train", "test"} and scored_on(table, "test") is table


@pytest.mark.parametrize(
    "names, options, said",
    [
        (["0/a.png"], {"subject": "([0-9]+)[LR]"}, "does not fit a.png"),
        (["a.png"], {}, "lies in no folder of its class"),
        (["0/a.png"], {"by_folder": True}, "lies in no folder of its class and client"),
        (["0/a.txt"], {}, "no images there"),
    ],
)
def test_what_cannot_be_divided_is_refused(tmp_path, names, options, said):
    write(tmp_path, *names)
    with pytest.raises(UserError, match=said):
        images_of(Source("own", tmp_path, **options))


def scores_of(method, macro_f1, predicted, data="knee"):
    rows = [{"split": number, "macro_f1": value, "predicted": classes}
            for number, (value, classes) in enumerate(zip(macro_f1, predicted))]  # fmt: skip
    counts = {"classes": 5, "training_images": 60, "test_images": 20}
    return pd.DataFrame(rows).assign(data=data, method=method, accuracy=0.5, **counts)


def test_a_row_is_the_mean_over_splits_and_its_distance_from_the_regression():
    scores = [scores_of("fedavg", [0.4, 0.6], [5, 3]), scores_of("centralised", [0.5, 0.5], [4, 4])]
    # The regression's rows in another order: a difference is one of the same split.
    scores.append(scores_of(REGRESSION, [0.5, 0.55], [5, 1])[::-1])
    table = summary(pd.concat(scores)).set_index("method")
    assert list(table.index) == ["fedavg", "centralised"]
    fedavg = table.loc["fedavg"]
    assert fedavg.macro_f1 == pytest.approx(0.5) and fedavg.macro_f1_std == pytest.approx(0.02**0.5)
    assert fedavg.regression_macro_f1 == pytest.approx(0.525) and fedavg.difference == pytest.approx(-2.5)
    assert fedavg.difference_std == pytest.approx((2 * 7.5**2) ** 0.5)  # of -10 and +5
    assert fedavg.fewest_classes_predicted == 3 and fedavg.splits == 2 and fedavg.test_images == 20


def rows_of(*rows, scored_on):
    return pd.DataFrame(rows, columns=["model", "data", "cut"]).assign(method="fedavg", scored_on=scored_on)


@pytest.mark.parametrize("scored_on, left", [("test", ["b", "a"]), ("val", ["a", "b", "a"])])
def test_rows_of_other_networks_stay(tmp_path, scored_on, left):
    """Of the same network and data the new one counts; on validation images its cuts are compared."""
    file = tmp_path / "table.csv"
    rows_of(("a", "knee", "head"), ("b", "knee", "head"), scored_on=scored_on).to_csv(file, index=False)
    table = with_others(file, rows_of(("a", "knee", "layer3"), scored_on=scored_on))
    assert list(table.model) == left and table.cut.iloc[-1] == "layer3"
    table.to_csv(file, index=False)
    assert len(with_others(file, rows_of(("a", "knee", "layer3"), scored_on=scored_on))) == len(left)
    assert len(with_others(file, rows_of(("a", "colon", "layer3"), scored_on=scored_on))) == len(left) + 1


def test_a_stopped_study_goes_on(knees, tmp_path, monkeypatch):
    """And the command gets nothing but images, network and weights."""
    commands = []

    def run(command):
        commands.append(command)
        if len(commands) == 2:
            raise KeyboardInterrupt
        scores = [{"method": method, "macro_f1": 0.5, "accuracy": 0.5, "predicted": 2} for method in first_run.METHODS]
        return {"weights": "w.npz, frozen up to block_15_add", "scores": scores}

    regression = {"method": REGRESSION, "macro_f1": 0.6, "accuracy": 0.5, "predicted": 2, "C": 1.0}
    monkeypatch.setattr(first_run, "_run", run)
    monkeypatch.setattr(first_run, "_regression", lambda command: regression)
    (tmp_path / "w.npz").write_bytes(b"weights")
    out = tmp_path / "table.csv"
    study = ["--data", f"knee={knees.folder}", "--subjects", f"knee={knees.subject}", "--model", "mobilenetv2"]
    study += [
        "--weights",
        str(tmp_path / "w.npz"),
        "--splits",
        "2",
        "--work",
        str(tmp_path / "work"),
        "--out",
        str(out),
    ]
    with pytest.raises(KeyboardInterrupt):
        first_run.main(study)
    first_run.main(study)
    assert len(commands) == 3 and commands[1] == commands[2] != commands[0]
    flags = [word for word in commands[0] if word.startswith("--")]
    assert flags == ["--model", "--weights", "--methods", "--seeds", "--data", "--results"]
    table = pd.read_csv(out)
    assert list(table.method) == list(first_run.METHODS) and table.difference.tolist() == pytest.approx([-10, -10])
    assert set(table.cut) == {"block_15_add"} and set(table["size"]) == {224}
    assert table.settings[0] == (
        "profile demo: 10 rounds, 2 local epochs, batch 32, adam, learning rate 0.001, augmentation none, seed 0; "
        "split by subject, 3 random clients"
    )


def test_flags_are_tried_on_validation_images_alone(knees):
    study = ["--data", f"knee={knees.folder}", "--model", "resnet18", "--weights", "w.npz"]
    with pytest.raises(UserError, match="try flags with --validate"):
        first_run.main([*study, "--", "--train-from", "layer2"])
    with pytest.raises(UserError, match="colon: no data set of that name"):
        first_run.main([*study, "--subjects", "colon=(.+)"])
