import os
import unicodedata

import pandas as pd
import pytest

from tests.data.conftest import put
from tffapps.data import artists, manifest
from tffapps.data.unreadable import drop_unreadable
from tffapps.errors import UserError

ENDS = ".png, .jpg, .jpeg, .bmp, .tif, .tiff, .dcm, .dicom, .ima, .nii, .nii.gz"


def fill(root, **counts):
    return put(root, *(f"{name}/{number}.jpg" for name, count in counts.items() for number in range(count)))


def splits(table, artist):
    counts = table.split[table.label == artist].value_counts()
    return [int(counts.get(split, 0)) for split in ("train", "test", "public")]


def sides(table):
    """Each picture's split by its artist and name."""
    return {(row.label, os.path.basename(row.path)): row.split for row in table.itertuples()}


def test_one_artist_is_one_client_in_natural_order(tmp_path):
    root = fill(tmp_path, b10=11, b9=2, a=1)
    put(root, "a/x.PNG", "a/y.jpeg", "a/.hidden.jpg", "a/notes.txt", ".thumbs/1.jpg", "readme.md")
    table, _ = artists.read(root)
    assert list(table.columns) == list(manifest.COLUMNS)
    assert (table.label == table.client).all()
    expected = [
        "a/0.jpg",
        "a/x.PNG",
        "a/y.jpeg",
        "b9/0.jpg",
        "b9/1.jpg",
        *(f"b10/{number}.jpg" for number in range(11)),
    ]
    assert list(table.path) == [str(root / name) for name in expected]


@pytest.mark.parametrize(
    ("count", "expected"),  # train, test, public
    [
        (1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (5, [3, 1, 1]),
        (20, [14, 4, 2]),  # 16 to train with, less a tenth
        (100, [72, 20, 8]),
        (216, [156, 43, 17]),  # Artiststyle's mean: 43.2 and 17.3
    ],
)  # fmt: skip
def test_shares(tmp_path, count, expected):
    table, _ = artists.read(fill(tmp_path, one=count, other=10))
    assert splits(table, "one") == expected
    assert splits(table, "other") == [7, 2, 1]


def test_too_few_to_share_out_is_noted(tmp_path):
    put(fill(tmp_path, one=1, two=2, three=3), "empty/notes.txt", "empty/x.gif")
    (tmp_path / "bare").mkdir()
    table, notes = artists.read(tmp_path)
    assert manifest.classes(table) == ["one", "three", "two"]
    assert notes == [
        f"{tmp_path}/bare: left out: no pictures ({ENDS}) in it",
        f"{tmp_path}/empty: left out: no pictures ({ENDS}) in it (2 files of other types)",
        "one: 1 picture, none to test with and none for the server",
        "two: 2 pictures, none for the server",
    ]
    assert artists.few(table) == notes[2:]
    assert artists.few(table[table.split != "train"]) == [
        "three: 2 pictures, none to train with",
        "two: 1 picture, none to train with and none for the server",
    ]


def test_the_seed_decides(tmp_path):
    root = fill(tmp_path, one=50, two=50)
    first = sides(artists.read(root)[0])
    assert first == sides(artists.read(root)[0])
    second = sides(artists.read(root, seed=1)[0])
    assert sum(first[key] != second[key] for key in first) > 20
    assert any(first["one", f"{number}.jpg"] != first["two", f"{number}.jpg"] for number in range(50))


def test_other_artists_do_not_matter(tmp_path):
    root = fill(tmp_path, b=40, c=40)
    before = sides(artists.read(root)[0])
    (root / "c").rename(root / "a")
    fill(root, aa=7)
    after = sides(artists.read(root)[0])
    assert {key: side for key, side in before.items() if key[0] == "b"} == {
        key: side for key, side in after.items() if key[0] == "b"
    }


def test_one_picture_more_moves_hardly_any_other(tmp_path):
    root = fill(tmp_path, a=100, b=2)
    before = sides(artists.read(root)[0])
    put(root, "a/later.jpg")
    after = sides(artists.read(root)[0])
    assert sum(before[key] != after[key] for key in before) <= 3


def test_accents_are_read_alike_from_any_disk(tmp_path):
    composed, apart = (unicodedata.normalize(form, "Cézanne") for form in ("NFC", "NFD"))
    first, _ = artists.read(fill(tmp_path / "1", **{composed: 30, "b": 2}))
    second, _ = artists.read(fill(tmp_path / "2", **{apart: 30, "b": 2}))
    assert sides(first) == sides(second) and composed in set(second.label)
    assert all(os.path.isfile(path) for path in second.path)


@pytest.mark.parametrize("twin", ["claude monet", "Claude  Monet", "Claude Monet ", "Ｃlaude Monet"])
def test_two_artists_of_the_same_name(tmp_path, twin):
    put(tmp_path, "Claude Monet/1.jpg", f"{twin}/1.jpg", "other/1.jpg")
    with pytest.raises(UserError, match="two artists of the same name") as error:
        artists.read(tmp_path)
    assert repr(f"{tmp_path}/Claude Monet") in str(error.value) and repr(f"{tmp_path}/{twin}") in str(error.value)


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["a/1.jpg"], "pictures of 1 artist, 2 are needed; lay the pictures out as"),
        (["a/1.txt", "b/1.gif"], "pictures of no artists, 2 are needed"),
        (["a/1.jpg", "b/early/1.jpg"], "b/early/1.jpg: a folder within an artist's folder"),
        (["train/a/1.jpg", "test/a/1.jpg"], "test/a/1.jpg: a folder within an artist's folder"),
        (["a/1.jpg", "b/1.jpg", "2.png"], "2.png: a picture outside the artists' folders"),
    ],
)
def test_a_wrong_layout_is_named(tmp_path, names, line):
    with pytest.raises(UserError, match=line):
        artists.read(put(tmp_path, *names))


def test_no_such_folder(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such folder; lay the pictures out"):
        artists.read(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file: not a folder"):
        artists.read(tmp_path / "file")


def test_unreadable_files_are_dropped_as_elsewhere(tmp_path, encode, rgb):
    table, _ = artists.read(fill(tmp_path, a=10, b=10))
    for path in table.path[1:]:
        with open(path, "wb") as file:
            file.write(encode(rgb))
    kept, dropped = drop_unreadable(table, 3)
    assert dropped.to_numpy().tolist() == [[table.path[0], "a", "empty file"]]
    assert kept.equals(table[1:].reset_index(drop=True))


@pytest.fixture
def table(tmp_path):
    return artists.read(fill(tmp_path, **{f"p{number}": 20 + number for number in range(1, 13)}))[0]


def test_the_first_artists(table):
    few, more = artists.artists(table, 3), artists.artists(table, 11)
    assert manifest.classes(few) == ["p1", "p2", "p3"]
    assert set(few.path) < set(more.path) and "p12" not in set(more.label)
    assert artists.artists(table, 12).equals(table)
    for wrong in (13, 1, 0):
        with pytest.raises(UserError, match=f"{wrong} artists asked for, there are 12; choose from 2 to 12"):
            artists.artists(table, wrong)


def counts(table):
    """(clients, artists): training pictures."""
    training = table[table.split == "train"]
    return pd.crosstab(training.client, training.label)


def test_single_is_what_was_read(table):
    dealt = artists.heterogeneous(table, "even")
    assert artists.heterogeneous(dealt, "single").equals(table)
    with pytest.raises(UserError, match="5 clients of one artist each, but there are 12 artists"):
        artists.heterogeneous(table, "single", 5)


@pytest.mark.parametrize("kind", ["even", "dirichlet", "sorted"])
def test_only_training_pictures_are_dealt(table, kind):
    dealt = artists.heterogeneous(table, kind, 5, 0.5, seed=3)
    assert dealt.drop(columns="client").equals(table.drop(columns="client"))
    assert set(dealt.client[dealt.split != "train"]) == {artists.SERVER}
    assert sorted(set(dealt.client[dealt.split == "train"])) == [f"client{number}" for number in range(1, 6)]
    assert dealt.equals(artists.heterogeneous(table, kind, 5, 0.5, seed=3))
    assert not dealt.equals(artists.heterogeneous(table, kind, 5, 0.5, seed=4))
    assert len(counts(artists.heterogeneous(table, kind, alpha=10))) == 12  # as many as artists


def test_kinds_differ_in_how_mixed_clients_are(table):
    """The share of a client's most frequent artist."""

    def share(kind, alpha=0.5):
        found = counts(artists.heterogeneous(table, kind, 12, alpha))
        return (found.max(axis=1) / found.sum(axis=1)).mean()

    assert counts(artists.heterogeneous(table, "even", 12)).to_numpy().max() <= 2
    assert share("even") < share("dirichlet", 10) < share("dirichlet", 0.2) < share("sorted") <= 1


def test_sorted_is_single_where_artists_have_equally_many(tmp_path):
    table, _ = artists.read(fill(tmp_path, a=20, b=20, c=20))
    assert sorted(counts(artists.heterogeneous(table, "sorted")).to_numpy().tolist()) == [
        [0, 0, 14],
        [0, 14, 0],
        [14, 0, 0],
    ]


def test_what_cannot_be_dealt(table):
    with pytest.raises(UserError, match="kind uneven: unknown; choose from single, even, dirichlet, sorted"):
        artists.heterogeneous(table, "uneven")
    with pytest.raises(UserError, match="alpha 0: the Dirichlet concentration must be above 0"):
        artists.heterogeneous(table, "dirichlet", alpha=0)
    with pytest.raises(UserError, match="0 parts"):
        artists.heterogeneous(table, "even", 0)


def test_distribution(tmp_path):
    table, _ = artists.read(fill(tmp_path, client=5, p10=20, p9=2))  # an artist may be called anything
    expected = [
        ["client", "train", "client", 3], ["client", "test", "client", 1], ["client", "public", "client", 1],
        ["p9", "train", "p9", 1], ["p9", "test", "p9", 1],
        ["p10", "train", "p10", 14], ["p10", "test", "p10", 4], ["p10", "public", "p10", 2],
    ]  # fmt: skip
    found = artists.distribution(table)
    assert list(found.columns) == ["client", "split", "label", "pictures"]
    assert found.to_numpy().tolist() == expected
    dealt = artists.distribution(artists.heterogeneous(table, "even", 2))
    assert dealt.pictures.sum() == len(table)
    assert dealt[dealt.client == "server"].groupby("split").pictures.sum().to_dict() == {"public": 3, "test": 6}


@pytest.fixture
def listed(tmp_path):
    """Writes a manifest; rows are path, label, client, split, and the files are there."""

    def write(*rows):
        put(tmp_path, *(row[0] for row in rows))
        pd.DataFrame(rows, columns=list(manifest.COLUMNS)).to_csv(tmp_path / "list.csv", index=False)
        return tmp_path / "list.csv"

    return write


DIVIDED = (
    ("1.jpg", "p2", "a", "test"), ("2.jpg", "p1", "a", "train"), ("3.jpg", "p2", "a", "train"),
    ("4.jpg", "p1", "server", "train"), ("5.jpg", "p2", "server", "train"),
)  # fmt: skip


def test_a_manifest_says_who_has_what(tmp_path, listed):
    table, notes = artists.read(listed(*DIVIDED, ("6.jpg", "p1", "a", "val")))
    expected = [
        ("1.jpg", "p2", "a", "test"), ("2.jpg", "p1", "a", "train"), ("3.jpg", "p2", "a", "train"),
        ("4.jpg", "p1", "server", "public"), ("5.jpg", "p2", "server", "public"),
    ]  # fmt: skip
    assert table.to_numpy().tolist() == [[str(tmp_path / row[0]), *row[1:]] for row in expected]
    assert notes == [
        "pictures of split val are not used, nothing is chosen by them: 1", "p1: 2 pictures, none to test with",
    ]  # fmt: skip


def test_public_pictures_alone(tmp_path, listed):
    both = [["p1", "server", "public"], ["p2", "server", "public"]]
    assert artists.read_public(listed(*DIVIDED))[0].drop(columns="path").to_numpy().tolist() == both
    nobody = listed(("1.jpg", "p1", "all", "train"), ("2.jpg", "p2", "all", "train"))
    assert artists.read_public(nobody)[0].drop(columns="path").to_numpy().tolist() == both
    table, notes = artists.read_public(put(tmp_path / "folders", "p1/1.jpg", "p2/1.jpg", "p3/notes.txt"))
    assert table.drop(columns="path").to_numpy().tolist() == both and all(map(os.path.isfile, table.path))
    assert len(notes) == 1 and "p3: left out: no pictures" in notes[0]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (DIVIDED[:3], "list.csv: no pictures of the client server, which are the public ones"),
        ([*DIVIDED, ("6.jpg", "p1", "server", "test")], "6.jpg: of the server and of split test; its pictures are"),
        ([*DIVIDED, ("6.jpg", "P1", "b", "train")], "'P1' and 'p1': two artists of the same name"),
        ([*DIVIDED, ("6.jpg", "p1", "b", "test")], "a client without training images"),
        ([row for row in DIVIDED if row[1] == "p1"], "pictures of 1 artist, 2 are needed"),
    ],
)
def test_a_wrong_manifest_is_named(listed, rows, line):
    with pytest.raises(UserError, match=line):
        artists.read(listed(*rows))


def test_public_pictures_of_several_clients(listed):
    with pytest.raises(UserError, match="has the clients a, b; across sites it is the public pictures, of the client"):
        artists.read_public(listed(*DIVIDED[:3], ("6.jpg", "p1", "b", "train")))
