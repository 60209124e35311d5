"""`python -m tffapps.data … --expect NAME`: the papers' own sets by their counts, and docs with the same numbers."""

import pathlib
import re
import shutil

import pandas as pd
import pytest

from tests.applications import check_help, working_in
from tests.data.test_check import DRAWN, told
from tffapps import systems
from tffapps.data import compare, expected
from tffapps.data.expected import Aside, Count, PublishedSet
from tffapps.data.pool import Pool

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMOKE = ["--profile", "smoke"]

# What the stand-ins of `DRAWN` have, counted by hand.
SMALL = {
    "plfl": (
        Count("healthy", 55, label="healthy"),
        Count("severe", 6, label="severe"),
        Count("images", 80),
    ),
    "fnst": (
        Count("images in train", 48, split="train"),
        Count("adenoma in test", 4, label="adenoma", split="test"),
        Count("images", 64),
    ),
    "fedstyle": (Count("artists", 3, of="label"), Count("pictures", 30)),
    "fedsda": (
        Count("centres", 2, of="client"),
        Count("patches of centre1", 20, client="centre1"),
        Count("tumour of centre0", 10, label="tumour", client="centre0"),
        Count("patches", 40),
    ),
    "fedtransfer": (Count("micrographs", 12, client="iron", of="path"), Count("tiles", 12, client="iron")),
}
LOST = {  # a file of which the loader's count depends, and the first count that differs then
    "plfl": ("*/4/*.png", "severe: 5 found, 6 expected"),
    "fnst": ("train/*", "images in train: 47 found, 48 expected"),
    "fedstyle": ("painter02/*.png", "pictures: 29 found, 30 expected"),
    "fedsda": ("patches/*/*.png", "patches of centre1: 19 found, 20 expected"),
    "fedtransfer": ("iron/*/*.png", "micrographs: 11 found, 12 expected"),
}


def small(system, **options):
    given = {"source": "a drawing", "counts": SMALL[system], "fewer": "some are lost", "more": "some are added"}
    return PublishedSet(**{"title": "Small", "system": system, **given, **options})


@pytest.fixture
def published(monkeypatch):
    """Makes a small set known for the command, by the name `oai`."""

    def known(system, **options):
        monkeypatch.setitem(expected.SETS, "oai", small(system, **options))

    return known


def pool(**columns):
    return Pool("small", pd.DataFrame(columns), [], "")


def test_help_names_it():
    check_help("tffapps.data", "--expect")


@pytest.mark.parametrize("system", SMALL)
def test_the_right_counts(system, published, place, capsys):
    published(system)
    with working_in(place):
        status, said, errors = told(capsys, DRAWN[system](place / system), "--for", system, *SMOKE, "--expect", "oai")
    assert status == 0, errors
    lines = [line.split() for line in said.splitlines()]
    for count in SMALL[system]:
        assert [*count.what.split(), str(count.number), str(count.number), "same"] in lines
    assert f"fit for tffapps.{system}" in said and "differs" not in said
    assert said.splitlines()[-1] == "all counts of oai are the same"


def lose(folder, system):
    """One image, and whatever else speaks of it."""
    pattern, _ = LOST[system]
    if system == "fedtransfer":
        name = sorted(folder.glob(pattern))[0].name
        for path in folder.glob(f"iron/*/{name}"):
            path.unlink()
    elif system == "fedsda":
        table = pd.read_csv(folder / "metadata.csv", index_col=0, dtype={"patient": str})
        table.drop(index=table.index[table.center == 1][0]).to_csv(folder / "metadata.csv")
    elif system == "fnst":
        table = pd.read_json(folder / "train.json")
        table.iloc[1:].to_json(folder / "train.json", orient="records")
    else:
        sorted(folder.glob(pattern))[0].unlink()


@pytest.mark.parametrize("system", SMALL)
def test_one_image_less(system, published, tmp_path, place, capsys):
    published(system)
    folder = shutil.copytree(DRAWN[system](place / system), tmp_path / "copy")
    lose(folder, system)
    with working_in(tmp_path):
        status, said, errors = told(capsys, "copy", "--for", system, *SMOKE, "--expect", "oai")
    assert status == 2
    (line,) = [line for line in errors.splitlines() if "error: " in line]
    assert line == f"tffapps.data: error: --expect oai: {LOST[system][1]}; some are lost"
    assert "differs" in said and "are the same" not in said


def test_one_image_more_or_unreadable(published, tmp_path, place, capsys):
    published("fedstyle")
    folder = shutil.copytree(DRAWN["fedstyle"](place / "fedstyle"), tmp_path / "copy")
    first = sorted(folder.glob("painter02/*.png"))[0]
    shutil.copy(first, first.with_name("added.png"))
    with working_in(tmp_path):
        errors = told(capsys, "copy", "--for", "fedstyle", *SMOKE, "--expect", "oai")[2]
        assert errors.endswith("pictures: 31 found, 30 expected; some are added\n")
        for name in ("added.png", first.name):
            first.with_name(name).write_bytes(b"")
        errors = told(capsys, "copy", "--for", "fedstyle", *SMOKE, "--expect", "oai")[2]
    assert errors.endswith("pictures: 29 found, 30 expected; 2 files cannot be read: download them again\n")


def test_what_a_name_or_a_missing_column_means():
    found = pool(client=["here", "there"], split=["train"] * 2, label=["a", "b"])
    cases = {
        "no client is called zeiss (there are here, there)": Count("slides of zeiss", 22, client="zeiss", of="subject"),
        "the images have no subject": Count("slides", 2, client="here", of="subject"),
    }
    for line, count in cases.items():
        with pytest.raises(Exception, match=re.escape(line)):
            compare.check(found, "small", small("fedsda", counts=(count,)))


def test_what_is_not_compared_is_shown_and_fails_nothing():
    found = pool(client=["a", "a"], split=["train", "test"], label=["x", "y"])
    aside = Aside("Table 1", "it was cut otherwise", (Count("x", 7, label="x"),))
    published = small("fedsda", counts=(Count("images", 2),), aside=aside, unpublished="the classes")
    lines = compare.table(found, published).splitlines()
    assert lines[-2] == "not compared, in brackets Table 1: x 1 (7); it was cut otherwise"
    assert lines[-1] == "not published: the classes"
    compare.check(found, "small", published)


def test_an_unknown_name_and_another_system_are_refused(here, capsys):
    with pytest.raises(SystemExit) as stopped:
        told(capsys, "x", "--for", "plfl", "--expect", "mnist")
    assert stopped.value.code == 2
    assert "invalid choice: 'mnist'" in capsys.readouterr().err
    status, said, errors = told(capsys, "x", "--for", "fnst", "--expect", "oai")
    assert (status, said) == (2, "")
    assert errors == "tffapps.data: error: --expect oai: a set of tffapps.plfl; give --for plfl\n"


@pytest.mark.parametrize("name", expected.SETS)
def test_a_set_is_whole(name):
    published = expected.SETS[name]
    assert published.system in systems.PAPERS
    assert published.counts and published.source and published.fewer and published.more
    for count in published.counts:
        assert count.of in ("", "label", "client", "path", "subject") and count.number > 0
    assert len({count.what for count in published.counts}) == len(published.counts)


def test_sums():
    for name in ("oai", "chaoyang"):
        counts = expected.SETS[name].counts
        everything = [count.number for count in counts if not count.split]
        assert [sum(count.number for count in counts if count.split and not count.label)] == everything
        assert [sum(count.number for count in counts if count.split and count.label)] == everything
    counts = expected.SETS["camelyon17"].counts
    by_centre = [count.number for count in counts if count.client]
    by_label = [count.number for count in counts if count.label]
    assert (len(by_centre), len(by_label)) == (5, 2) and sum(by_centre) == sum(by_label) == counts[-1].number
    # The benchmark's own splits: train and id_val are of centres 0, 3 and 4; val is centre 1, test centre 2.
    numbers = {count.client: count.number for count in expected.SETS["camelyon17"].counts}
    assert numbers["centre0"] + numbers["centre3"] + numbers["centre4"] == 302436 + 33560
    # The thesis's Table 4.5: thirds of 930, 329 and 93 images, and what is left over.
    aside = expected.SETS["oai"].aside
    assert [count.number // 3 for count in aside.counts] == [930, 329, 93]


def sections():
    """Each set's part of docs/data.md, by the name that its commands give to --expect."""
    parts = re.split("^### ", (ROOT / "docs" / "data.md").read_text(), flags=re.M)[1:]
    return {name: part.split("\n## ")[0] for part in parts for name in re.findall("--expect ([a-z0-9]+)", part)}


@pytest.mark.parametrize("name", expected.SETS)
def test_the_docs_give_the_same_numbers(name):
    published, part = expected.SETS[name], sections()[name]
    assert published.title in part.splitlines()[0]
    together = [each for each in expected.SETS if sections()[each] == part]
    counts = [count for each in together for count in expected.SETS[each].counts]
    counts += [count for each in together if expected.SETS[each].aside for count in expected.SETS[each].aside.counts]
    tables = re.findall(r"^\| -.*\n((?:\|.*\n)+)", part, re.M)  # what follows a head and its line of dashes
    written = {int(number.replace(",", "")) for rows in tables for number in re.findall(r"\b[0-9][0-9,]*\b", rows)}
    assert written == {count.number for count in counts}
    assert re.search(f"--for {published.system} --profile paper (?:.* )?--expect {name}\n", part)
    assert f"python -m tffapps.{published.system} --data" in part


@pytest.mark.parametrize("name", expected.SETS)
def test_the_page_of_its_system_names_it(name):
    published = expected.SETS[name]
    assert published.title in (ROOT / "docs" / f"{published.system}.md").read_text()
