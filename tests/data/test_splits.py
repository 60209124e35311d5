import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from tffapps.app import Common
from tffapps.data import splits
from tffapps.data.pool import Pool
from tffapps.errors import UserError


def pool(subjects=30, seed=0, root="/images") -> Pool:
    """Of each subject one to four images of one class, at one of two clients."""
    rng = np.random.default_rng(seed)
    rows = []
    for subject in range(subjects):
        label, client = "abc"[subject % 3], f"client{subject // 3 % 2}"
        for image in range(rng.integers(1, 5)):
            rows.append((f"{root}/{subject}-{image}.png", label, client, "train", f"s{subject}"))
    table = pd.DataFrame(rows, columns=["path", "label", "client", "split", "subject"])
    return Pool("made", table, ["a", "b", "c"], "key", given=True)


def divided(given: Pool, **changes) -> list[splits.Split]:
    return splits.divided(given, list(given.table.subject), **{"folds": 4, "repeats": 2, **changes})


@pytest.mark.parametrize("seed", range(5))
def test_no_subject_is_in_two_parts_and_folds_cover_every_image_once(seed):
    given = pool(seed=seed)
    found = divided(given)
    assert [each.name for each in found] == [f"r{repeat}f{fold}" for repeat in range(2) for fold in range(4)]
    for each in found:
        table = each.pool.table
        assert sorted(table.path) == sorted(given.table.path)
        assert (table.groupby("subject").split.nunique() == 1).all()
        assert set(table.split) == {"train", "val", "test"}
        for split in ("train", "test"):
            assert set(table.label[table.split == split]) == {"a", "b", "c"}
    for repeat in range(2):
        tested = [path for each in found[4 * repeat : 4 * repeat + 4] for path in each.pool.part("test").path]
        assert sorted(tested) == sorted(given.table.path)


def test_folds_have_the_same_mix_of_clients_and_classes():
    """Of a subject an image each: 12 images of every class and client in 4 folds."""
    rows = [(f"{number}.png", "ab"[number % 2], f"client{number // 2 % 2}", "train") for number in range(48)]
    table = pd.DataFrame(rows, columns=["path", "label", "client", "split"])
    given = Pool("made", table, ["a", "b"], "key")
    for each in splits.divided(given, list(table.path), folds=4, repeats=3, val_share=0.0):
        assert set(each.pool.part("test").groupby(["client", "label"]).size()) == {3}


def test_the_same_again_and_other_repeats_are_other_divisions():
    first, again = divided(pool()), divided(pool(root="/elsewhere"))
    assert [each.pool.key for each in first] == [each.pool.key for each in again]  # by the images, not their folder
    assert [list(each.pool.table.split) for each in first] == [list(each.pool.table.split) for each in again]
    assert len({each.pool.key for each in first}) == 8
    fewer = divided(pool(), repeats=1)
    assert [each.pool.key for each in fewer] == [each.pool.key for each in first[:4]]


def test_validation_images_are_a_share_of_the_training_subjects():
    given = pool(subjects=120)
    for each in divided(given, val_share=0.25):
        rest = each.pool.table[each.pool.table.split != "test"]
        assert (rest.split == "val").mean() == pytest.approx(0.25, abs=0.05)
    assert all(not len(each.pool.part("val")) for each in divided(given, val_share=0.0))


def test_nothing_is_tuned_on_a_test_image():
    for each in divided(pool()):
        tuning = each.for_tuning()
        parts = {split: set(each.pool.part(split).path) for split in ("train", "val", "test")}
        assert set(tuning.pool.part("test").path) == parts["val"]
        assert set(tuning.pool.table.path) == parts["train"] | parts["val"]
        assert tuning.pool.key != each.pool.key and each.name in tuning.name
    with pytest.raises(UserError, match="--tune: no validation images"):
        splits.Split("", pool()).for_tuning()


def test_sizes_are_counted():
    sizes = splits.sizes(divided(pool(), repeats=1))
    assert sizes.groupby("split").images.sum().eq(len(pool().table)).all()
    assert sizes[["a", "b", "c"]].sum(axis=1).eq(sizes.images).all()
    assert sizes.groupby("split").subjects.sum().eq(30).all()


def test_flags_choose_the_splits():
    common = Common(splits=3, repeats=2, group="subject")
    assert [each.name for each in splits.of(pool(), common)] == ["r0f0", "r0f1", "r0f2", "r1f0", "r1f1", "r1f2"]
    some = dataclasses.replace(common, only_splits=("r1f1",))
    assert [each.labels for each in splits.of(pool(), some)] == [{"split": "r1f1"}]
    assert not len(splits.of(pool(), common, val=False)[0].pool.part("val"))
    (whole,) = splits.of(pool(), Common())
    assert whole.labels == {} and whole.pool.key == "key"


def test_validation_images_are_drawn_where_the_data_has_none(capsys):
    (drawn,) = splits.of(pool(), Common(select="validation"))
    table = drawn.pool.table
    assert set(table.split) == {"train", "val"} and (table.groupby("subject").split.nunique() == 1).all()
    assert "20% of the training images are held out, by subject" in capsys.readouterr().err
    given = pool()
    given.table.loc[:3, "split"] = "val"
    (same,) = splits.of(given, Common(select="validation"))
    assert same.pool is given


ERRORS = {
    "few subjects": (pool(subjects=3), {}, "--splits 4: there are only 3 subjects, which are never divided"),
    "few of a class": (pool(subjects=11), {}, "--splits 4: class c has images of only 3 subjects"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_too_few_subjects_are_one_clear_line(case):
    given, changes, message = ERRORS[case]
    with pytest.raises(UserError, match=message):
        divided(given, **changes)


def test_a_client_that_would_not_train_is_named():
    given = pool()
    given.table.loc[given.table.subject == "s0", "client"] = "tiny"
    with pytest.raises(UserError, match="leaves the client tiny without training images"):
        divided(given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"only_splits": ("r9f0",)}, "--only-splits r9f0: no such split; there are r0f0 to r0f2"),
        ({"val_share": 0.0, "select": "validation"}, "--val-share 0: nothing is left to choose by"),
    ],
)
def test_flags_that_do_not_go_together(changes, message):
    with pytest.raises(UserError, match=message):
        splits.of(pool(), Common(**{"splits": 3, "group": "subject", **changes}))


def test_every_pair_of_repeats_differs():
    found = divided(pool(), repeats=4)
    for one, other in itertools.combinations(range(4), 2):
        assert list(found[4 * one].pool.table.split) != list(found[4 * other].pool.table.split)
