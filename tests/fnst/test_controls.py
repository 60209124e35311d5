"""Controls of FNST: what is copied, what is joined, and what validation images choose."""

import cv2
import numpy as np
import pandas as pd
import pytest

from tests.evaluation import made
from tests.fnst.conftest import styler_of
from tffapps import cli
from tffapps.errors import UserError
from tffapps.evaluation import evidence
from tffapps.fnst import APP, Augmentation, choices, comparison, parts
from tffapps.fnst import copies as module
from tffapps.fnst.copies import copies, jittered, turned
from tffapps.fnst.dispatch import Delivery
from tffapps.fnst.exchange import mismatched, repeated

CLASSES = ["normal", "adenoma"]


def test_turned_images_are_the_seven_others():
    image = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)
    found = turned(np.repeat(image, module.TURNS, axis=0), range(1, module.TURNS + 1))
    assert len({each.tobytes() for each in [*found, image[0]]}) == module.TURNS + 1
    assert all(sorted(each.ravel()) == sorted(image.ravel()) for each in found)


def test_jitter_is_light_colour_and_nothing_by_its_neutral_numbers():
    image = np.random.default_rng(0).integers(30, 220, (1, 8, 8, 3), np.uint8)
    assert np.abs(jittered(image, [[1, 1, 1, 0]]).astype(int) - image).max() <= 1
    assert jittered(image, [[1.2, 1, 1, 0]]).mean() > image.mean() + 10
    grey = jittered(image, [[1, 1, 0, 0]]).astype(int)
    assert np.ptp(grey, axis=-1).max() <= 1


@pytest.mark.parametrize("how", ["turned", "jitter", "hed"])
def test_as_many_copies_as_fnst_makes_each_another_image(how, federation, away):
    rows, key = copies(how, federation, Augmentation(2, 2), 0)
    plain, none = copies("repeated", federation, Augmentation(2, 2), 0)
    assert none == "" and plain.equals(repeated(federation, Augmentation(2, 2)))
    assert rows.drop(columns="path").equals(plain.drop(columns="path")) and rows.path.is_unique
    for old, new in list(zip(plain.path, rows.path))[:4]:
        assert not np.array_equal(cv2.imread(old), cv2.imread(new))
    assert copies(how, federation, Augmentation(2, 2), 0)[1] == key != copies(how, federation, Augmentation(2, 2), 1)[1]


def test_what_goes_together_and_what_does_not():
    method = parts.parse("adain+turned+focal")
    assert method.multiplies and method.styles and method.balance.loss == "focal"
    assert parts.on_best(["fedavg", "fnst+best-control"]) == ["fnst"]
    assert [each.name for each in parts.trained(["centralised", "fedavg", "fnst+best-control", "fnst-plus"])] == [
        "fedavg"
    ]
    assert parts.joined("adain+turned", "turned") == "adain+turned"
    for wrong, complaint in (
        ("turned+turned", "names a part twice"), ("focal+balanced-loss", "two losses"),
        ("separate+turned", "separate cannot be joined"), ("fnst-plus+turned", "fnst-plus cannot be joined"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=complaint):
            parts.parse(wrong)
    with pytest.raises(UserError, match="--methods wrong: unknown"):
        cli.parse(APP, ["--methods", "fnst+wrong"])
    with pytest.raises(UserError, match="does not cover the Gram matrices"):
        cli.parse(APP, ["--methods", "adain+turned", "--aggregator", "secure"])


def test_styles_of_other_classes_are_as_many():
    files = [Delivery(sender, "d", label, 2, 10, None) for sender, label in zip("abc", "xyz")]
    found = mismatched([*files, Delivery("d", "a", "w", 2, 10, None)])
    assert [each.label for each in found] == ["y", "z", "x", "w"]  # w: there is no other
    assert [each.sender for each in found] == ["a", "b", "c", "d"]


def test_stain_is_colour_alone_and_texture_all_but_colour():
    images = np.random.default_rng(0).integers(60, 200, (2, 32, 32, 3), np.uint8)
    images[1] = images[1] // 2  # a darker one, whose style is given
    found = {}
    for part in ("whole", "stain", "texture"):
        styler = styler_of("--style-part", part)
        styler._wholly_styled = lambda *arguments: images[1:]
        found[part] = styler._styled(images[:1], None, np.array([[0, 0]]))[0].astype(float)
    assert np.array_equal(found["whole"], images[1])
    near = [abs(found[part].mean() - images[row].mean()) for part, row in (("stain", 1), ("texture", 0))]
    assert max(near) < 8 < abs(images[0].mean() - images[1].mean())
    alike = [
        np.corrcoef(found[part].ravel(), images[row].ravel())[0, 1] for part, row in (("stain", 0), ("texture", 1))
    ]
    assert min(alike) > 0.9


def record(root, method, right, validated, augmentation="", split="r0f0"):
    told = pd.DataFrame(
        {"round": [1, 2], "accuracy": 0.0, "macro_f1": 0.5, "auroc": 1.0, "val_macro_f1": [1, validated]}
    )
    labels = {"method": method, "site": "federation", "rare": 5, "augmentation": augmentation, "made": 0, "seed": 0,
              "split": split}  # fmt: skip
    return made.record(root, labels, made.hits(right, 10, CLASSES), rounds=told)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    root, own = tmp_path_factory.mktemp("runs"), "S2C5"
    records = [
        record(root, "fedavg", 4, 0.4),
        record(root, "focal", 5, 0.55),
        record(root, "turned", 6, 0.6, own),  # best of the controls by validation images, not by those of test
        record(root, "hed", 9, 0.5, own),
        record(root, "adain", 7, 0.7, own),
        record(root, "adain+turned", 8, 0.65, own),
    ]
    with made.few_swaps():
        yield comparison.rows_of(
            records, [each.entry() for each in records], ["best-control", "adain+best-control", "fnst-plus"]
        )


def test_validation_images_choose(rows):
    chosen = {row.entry.labels["method"]: (row.was, row.validated) for row in rows[6:]}
    assert chosen == {"best-control": ("turned", 0.6), "adain+best-control": ("adain+turned", 0.65),
                      "fnst-plus": ("adain", 0.7)}  # fmt: skip


def test_each_row_stands_beside_fedavg_and_styles_beside_the_best_control(rows):
    table = comparison.table(rows).set_index("method")
    assert (
        table.loc["best-control", "accuracy"] == pytest.approx(0.6) and table.loc["best-control", "was"] == "turned 1"
    )
    assert table.loc["turned", "was"] == "" and np.isnan(table.loc["fedavg", "gain"])
    assert table.loc["focal", "gain"] == pytest.approx(table.loc["focal", "macro_f1"] - table.loc["fedavg", "macro_f1"])
    assert table.loc["adain", "val_macro_f1"] == 0.7 and (table.loc["adain", "splits"] == 1).all()
    entries = [row.entry for row in rows]
    found = evidence.claims(entries, comparison.rivals(entries))
    assert set(zip(found.method, found.baseline)) == {
        ("best-control S2C5", "fedavg"), ("adain S2C5", "best-control"), ("adain+turned S2C5", "best-control"),
        ("adain+best-control S2C5", "best-control"), ("fnst-plus S2C5", "best-control"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("methods", "complaint"),
    [
        (["fnst-plus", "fnst"], "there are none"),
        (["best-control", "fnst"], "no control to choose from"),
        (["fnst-plus", "turned"], "nothing to choose from"),
    ],
)
def test_nothing_is_chosen_without_images_or_methods_to_choose_from(methods, complaint):
    with pytest.raises(UserError, match=complaint):
        choices.check(methods, complaint != "there are none")


def test_a_command_with_controls(tmp_path, here):
    methods = "fedavg,turned,balanced-sampling,fnst,best-control,fnst+best-control,fnst-plus"
    arguments = [
        "--profile",
        "smoke",
        "--select",
        "validation",
        "--methods",
        methods,
        "--no-attack",
        "--style-steps",
        "1",
    ]
    assert cli.main(APP, [*arguments, "--results", str(tmp_path / "own")]) == 0
    table = pd.read_csv(tmp_path / "own" / "fnst" / "comparison.csv").set_index("method")
    assert set(table.index) - {"fnst+turned", "fnst+balanced-sampling"} == set(methods.split(","))
    assert table.loc["best-control", "was"] in ("turned 1", "balanced-sampling 1")
    assert table.loc["fnst+best-control", "was"].startswith("fnst+")
    assert (table.val_macro_f1.between(0, 1)).all() and table.drop("fedavg").gain.notna().all()
