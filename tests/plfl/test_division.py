"""Server and clients as a manifest or the sites say."""

import cv2
import numpy as np
import pandas as pd
import pytest

from tests.plfl.test_command import SMALL
from tffapps import Common, cli
from tffapps.data import knees, oai
from tffapps.data.pool import Pool
from tffapps.errors import UserError
from tffapps.plfl import APP, data, division, placement

CLASSES = ["healthy", "moderate", "severe"]
SPLITS = ("train", "val", "test")


def rows(client, split, **counts):
    found = [(label, client, split) for label, count in counts.items() for _ in range(count)]
    return pd.DataFrame(found, columns=["label", "client", "split"])


def table(*parts):
    joined = pd.concat(parts, ignore_index=True)
    return joined.assign(path=[f"{row}.png" for row in joined.index], subject=joined.index.astype(str))


def given(table):
    return Pool("m", table, CLASSES, "key", given=True)


def servers(split="train"):
    return rows("server", split, healthy=3, moderate=2, severe=1)


SERVER = [servers("train"), servers("val"), servers("test")]
WHOLE = table(*SERVER, rows("k10", "train", healthy=20, severe=10), rows("k2", "train", moderate=10))


def test_ownership_is_given_by_a_server_and_others():
    assert division.is_given(WHOLE) and division.clients(given(WHOLE)) == ("k2", "k10")
    assert not division.is_given(table(*SERVER))
    assert not division.is_given(WHOLE[WHOLE.client != "server"])


@pytest.mark.parametrize("kind", ["csfl", "plfl"])
def test_nothing_is_divided_anew(kind):
    assert division.split(given(WHOLE), kind, 0).equals(WHOLE) and division.split(given(WHOLE), kind, 1).equals(WHOLE)


def test_a_fifth_of_the_labels_by_class_and_order_alone():
    found = division.split(given(WHOLE), "fssfl", 0)
    assert found.drop(columns="labelled").equals(WHOLE) and found.labelled[found.client == "server"].all()
    known = found[found.labelled & (found.client != "server")]
    assert known.groupby(["client", "label"]).size().to_dict() == {
        ("k10", "healthy"): 4, ("k10", "severe"): 2, ("k2", "moderate"): 2,
    }  # fmt: skip
    elsewhere = WHOLE.assign(path="train/0/" + WHOLE.path, subject="")
    assert division.split(given(elsewhere), "fssfl", 0).labelled.equals(found.labelled)
    assert not division.split(given(WHOLE), "fssfl", 1).labelled.equals(found.labelled)


def test_too_few_images_for_a_fifth():
    with pytest.raises(UserError, match=r"the labels that k1 knows in fssfl: .*1 images"):
        division.split(given(table(*SERVER, rows("k1", "train", healthy=1))), "fssfl", 0)


MISTAKES = {
    "no validation": ((servers("train"), servers("test"), rows("k", "train", healthy=1)), "no val image of the server"),
    "a class less": (
        (rows("server", "train", healthy=2), servers("val"), servers("test"), rows("k", "train", healthy=1)),
        "no moderate and no severe among the server's training images",
    ),
    "idle": ((*SERVER, rows("k", "test", healthy=1)), "no train image of k; give it some, or leave it out"),
    "untested": (
        (*SERVER, rows("k", "train", healthy=1)),
        "--methods csfl: k has no image of split test, and clients test there",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake):
    parts, message = MISTAKES[mistake]
    with pytest.raises(UserError) as caught:
        division.check(table(*parts), CLASSES, ("gold", "csfl"), "--data m.csv")
    assert message in str(caught.value)


def test_clients_of_plfl_need_not_test():
    division.check(WHOLE, CLASSES, ("gold", "plfl", "plfl+"), "--data m.csv")


def site(name, **counts):
    counts = {label.strip("_"): count for label, count in counts.items()}
    images = {split: {label: count if split == "train" else 0 for label, count in counts.items()} for split in SPLITS}
    return {"name": name, "classes": list(counts), "images": images, "masks": 0}


def test_grades_of_a_site_are_the_servers_classes():
    """The paths stay those of the site, where the grades are numbered with 1 and 2 among them."""
    sites = {"a": site("a", _0=1, _1=2, _3=2, _4=1), "b": site("b", healthy=1, severe=1)}
    found = placement.rows_of(sites, CLASSES, [])
    assert found[["client", "label", "path"]].to_numpy().tolist() == [
        ["a", "healthy", "train/0/000000"],
        ["a", "moderate", "train/2/000000"],
        ["a", "moderate", "train/2/000001"],
        ["a", "severe", "train/3/000000"],
        ["b", "healthy", "train/0/000000"],
        ["b", "severe", "train/1/000000"],
    ]
    with pytest.raises(UserError, match="a has the class 0, and the server has fit, worn; give the classes the same"):
        placement.rows_of(sites, ["fit", "worn"], [])


def test_all_five_grades_where_they_are_asked_for(tmp_path):
    knees.write_knees(tmp_path / "k", images=80, size=32, progress=False)
    for grade, name in (("1", "a"), ("2", "b")):
        (tmp_path / "k" / "train" / grade).mkdir(exist_ok=True)
        image = np.full((32, 32), int(grade), np.uint8)
        cv2.imwrite(str(tmp_path / "k" / "train" / grade / f"{name}1.png"), image)
    flags = cli.parse(APP, [*SMALL, "--data", str(tmp_path / "k"), "--preprocess", "none", "--grades", "0,1,2,3,4"])
    assert data.load(flags).classes == ["healthy", "doubtful", "minimal", "moderate", "severe"]
    assert data.load(flags.replaced(grades=("0", "3", "4"))).classes == CLASSES
    sites = {"a": site("a", _0=1, _1=2, _3=2, _4=1)}
    found = placement.rows_of(sites, ["healthy", "doubtful", "minimal", "moderate", "severe"], [])
    assert found.label.value_counts().to_dict() == {"doubtful": 2, "moderate": 2, "healthy": 1, "severe": 1}


def test_a_site_cannot_be_the_server():
    with pytest.raises(UserError, match="--engine: a site is called server"):
        placement.rows_of({"server": site("server", healthy=1, severe=1)}, CLASSES, [])


def test_a_manifest_that_names_server_and_clients(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pool = oai.read_oai(knees.write_knees(tmp_path / "knees", images=100, size=32, progress=False))
    named = oai.fssfl_split(pool, 3).replace({"client": {"client1": "west", "client2": "east"}})
    file = tmp_path / "m.csv"
    named.to_csv(file, index=False)
    flags = cli.parse(APP, [*SMALL, "--data", str(file), "--preprocess", "none", "--methods", "csfl"])
    found = data.load(flags)
    assert found.given and division.clients(found) == ("east", "west") and found.formats == ("png",)
    columns = ["path", "label", "client", "split"]
    for seed in (0, 1):
        assert division.split(found, "csfl", seed)[columns].equals(named.reset_index(drop=True)[columns])
    assert capsys.readouterr().err == "" and "as the manifest says, the clients are east, west" in " ".join(found.notes)
    named.assign(client="west").to_csv(file, index=False)
    drawn = data.load(flags)
    assert not drawn.given and division.clients(drawn) == oai.CLIENTS and drawn.key != found.key


def people(count=60):
    """One or two knees each."""
    found = [
        (f"{person}{side}.png", CLASSES[person % 3], "all", "train", str(person))
        for person in range(count)
        for side in "LR"[: 1 + person % 2]
    ]
    return Pool("m", pd.DataFrame(found, columns=["path", "label", "client", "split", "subject"]), CLASSES, "key")


def test_with_splits_every_framework_is_tested_on_the_same_people_whom_none_has_seen():
    pool, common = people(), Common(splits=5, group="subject")
    found = division.splits_of(pool, common, APP.methods, CLASSES)
    covered = []
    for each in found:
        tested = set(each.pool.part("test").path)
        covered += tested
        for kind in ("csfl", "plfl", "fssfl"):
            for seed in (0, 1):
                divided = division.split(each.pool, kind, seed, held_out=True)
                server = divided[divided.client == "server"]
                assert set(server.path[server.split == "test"]) == tested
                assert sorted(divided.path) == sorted(pool.table.path)
                rest = divided[~divided.path.isin(tested)]
                assert not set(rest.subject) & set(divided.subject[divided.path.isin(tested)])
                assert (rest.groupby("subject").client.nunique() == 1).all()
                assert set(rest.client) == {"client1", "client2"} | ({"server"} if kind != "csfl" else set())
    assert sorted(covered) == sorted(pool.table.path)  # five folds test everybody once


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_of_the_images_the_server_has_a_share(share):
    pool = people(240)
    each = division.splits_of(pool, Common(splits=5, group="subject"), APP.methods, CLASSES)[0]
    rest = len(pool.table) - len(each.pool.part("test"))
    divided = division.split(each.pool, "plfl", 0, held_out=True, share=share)
    gold = divided[(divided.client == "server") & (divided.split != "test")]
    assert len(gold) == pytest.approx(share * rest, abs=3)
    sizes = divided.client.value_counts()
    assert abs(sizes["client1"] - sizes["client2"]) <= 3
    assert (divided.groupby("subject").client.nunique() == 1).all()
    usual = division.split(each.pool, "plfl", 0, held_out=True)
    assert usual.equals(division.split(each.pool, "plfl", 0, held_out=True, share=0.0))
    assert division.split(each.pool, "csfl", 0, held_out=True, share=share).equals(
        division.split(each.pool, "csfl", 0, held_out=True)
    )


def test_settings_are_tried_on_people_who_are_not_tested():
    pool, common = people(), Common(splits=5, group="subject", only_splits=("r0f0",))
    (usual,) = division.splits_of(pool, common, APP.methods, CLASSES)
    (tried,) = division.splits_of(pool, common, APP.methods, CLASSES, tuning=True)
    tested, validated = set(usual.pool.part("test").subject), set(tried.pool.part("test").subject)
    assert validated and not validated & tested and not tested & set(tried.pool.table.subject)
    divided = division.split(tried.pool, "plfl", 0, held_out=bool(tried.name))
    server = divided[(divided.client == "server") & (divided.split == "test")]
    assert set(server.subject) == validated


def test_a_given_division_is_divided_anew_within_who_has_what():
    owners = people(90)
    owners.table["client"] = [("server", "east", "west")[int(subject) // 3 % 3] for subject in owners.table.subject]
    pool = given(owners.table)
    for each in division.splits_of(pool, Common(splits=3, group="subject"), ("plfl",), CLASSES):
        table = division.split(each.pool, "plfl", 0, held_out=True)
        assert table.client.equals(owners.table.client)
        assert (table.groupby("subject").split.nunique() == 1).all()
        assert set(table.split[table.client == "server"]) == set(SPLITS)
