"""Pseudonyms: nothing of a name in them, the same wherever the same files are."""

import pandas as pd
import pytest

from tffapps.evaluation import identities


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path / "home"))


@pytest.fixture
def files(tmp_path):
    def files(folder, **contents):
        (tmp_path / folder).mkdir(exist_ok=True)
        paths = []
        for name, content in contents.items():
            path = tmp_path / folder / f"{name}.png"
            path.write_text(content)
            paths.append(str(path))
        return paths

    return files


def table(paths, subjects=None, client="Hospital", **columns):
    given = {} if subjects is None else {"subject": subjects}
    return pd.DataFrame({"path": paths, "client": client, **given, **columns})


def test_no_name_and_no_path_is_in_a_pseudonym(files):
    found = identities.identified(table(files("ward", smith="one", jones="two"), ["Smith", "Jones"]))
    for name in (*found.image, *found.subject):
        assert len(name) == 16 and set(name) <= set("0123456789abcdef")
    assert found.client.tolist() == ["Hospital"] * 2


def test_the_same_files_elsewhere_are_the_same_images(files):
    first = identities.identified(table(files("here", a="one", b="two"), ["s", "t"]))
    second = identities.identified(table(files("there", y="two", x="one"), ["T", "S"]))
    assert (
        first.image.tolist() == second.image.tolist()[::-1] and first.subject.tolist() == second.subject.tolist()[::-1]
    )


def test_a_subject_is_the_first_of_its_images_and_an_image_without_one_its_own(files):
    paths = files("a", a="one", b="two", c="three")
    found = identities.identified(table(paths, ["s", "s", ""]))
    assert found.subject.tolist() == [min(found.image[:2])] * 2 + [found.image[2]]
    assert identities.identified(table(paths)).subject.tolist() == found.image.tolist()


def test_the_same_content_twice_is_two_images(files):
    found = identities.identified(table(files("a", a="one", b="one", c="two"), ["s", "s", "t"]))
    assert found.image.is_unique and found.image[1] == f"{found.image[0]}#2" and found.subject.nunique() == 2


def test_an_image_that_was_made_is_called_after_its_source(files):
    source, prepared = files("a", a="one"), files("b", a="prepared")
    found = identities.identified(table(prepared, source=source))
    assert found.image.tolist() == identities.identified(table(source)).image.tolist()
    plain = identities.identified(table(prepared, source=[None]))
    assert plain.image.tolist() == identities.identified(table(prepared)).image.tolist() != found.image.tolist()


def test_images_at_sites_are_numbers_of_their_site():
    paths = ["published/000003", "published/000003", "published/000004"]
    found = identities.identified(table(paths, client=["a", "b", "b"]))
    assert found.image.tolist() == ["a:published/000003", "b:published/000003", "b:published/000004"]
