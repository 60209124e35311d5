"""What a coordinator makes of the sites' descriptions."""

import pytest

from tffapps.data import images as formats
from tffapps.data import manifest as manifests
from tffapps.data import published
from tffapps.errors import UserError
from tffapps.site import data


def described(noise, **changes):
    return {name: {**data.describe(data.load(noise, name), name), **changes} for name in ("b", "a")}


def test_the_rows_of_all_sites_in_the_order_of_one_machine(noise):
    here, there = manifests.load(noise), published.manifest(described(noise))
    for client in ("a", "b"):
        for split in ("train", "test"):
            mine, theirs = (table[(table.client == client) & (table.split == split)] for table in (here, there))
            assert list(mine.label) == list(theirs.label)
    assert len(there) == len(here) == 42 and not there.path.str.contains("class").any()


def test_formats_and_fingerprints():
    sites = {"a": {"formats": ["jpeg"], "fingerprint": "1"}, "b": {"formats": ["png", "jpeg"], "fingerprint": "2"}}
    assert published.formats(sites, formats.FORMATS) == ("png", "jpeg")
    assert published.formats({"a": {"formats": []}}, formats.FORMATS) == formats.FORMATS  # nobody looked
    before = published.fingerprint(sites)
    assert before == published.fingerprint(dict(reversed(sites.items()))) and len(before) == 16
    sites["b"] = {**sites["b"], "fingerprint": "3"}
    assert published.fingerprint(sites) != before


def test_a_stand_in_is_called_so():
    assert published.name({"a": {"stand_in": False}, "b": {"stand_in": False}}) == "sites a, b"
    assert published.name({"a": {"stand_in": False}, "b": {"stand_in": True}}) == "stand-in"


def test_a_test_split_is_drawn_unless_it_could_tear_subjects(noise):
    sites = described(noise)
    table = published.manifest(sites)
    assert published.with_test(sites, table) is table  # there is one
    training = table[table.split == "train"].reset_index(drop=True)
    drawn = published.with_test(sites, training)
    assert (drawn.split == "test").sum() == 6  # of each class 4 / 5 at a and 6 / 5 at b: one each
    with pytest.raises(UserError, match=r"no test split at any site, .* keeps the subjects of b together"):
        published.with_test(described(noise, subjects=True), training)


def test_one_class(noise):
    only = {"class0": 3, "class1": 0, "class2": 0}
    counts = {"train": only, "val": dict.fromkeys(only, 0), "test": dict.fromkeys(only, 0)}
    with pytest.raises(UserError, match=r"--engine: only one class \(class0\)"):
        published.manifest(described(noise, images=counts))


def test_masks_are_there_if_every_image_of_every_site_has_one(noise):
    sites = described(noise, masks=0)
    assert "mask" not in published.manifest(sites).columns
    sites["b"]["masks"] = 24
    assert "mask" not in published.manifest(sites).columns
    sites["a"]["masks"] = 18
    table = published.manifest(sites)
    assert list(table["mask"]) == [f"{path}.mask" for path in table.path]
