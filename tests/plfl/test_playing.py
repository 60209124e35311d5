"""The commands that play frameworks under several flags: `shares` and `search`."""

import pandas as pd
import pytest

from tests.plfl.test_command import SMALL, working_in
from tffapps.data import oai
from tffapps.errors import UserError
from tffapps.evaluation import stored
from tffapps.plfl import elsewhere, search, shares

FLAGS = [*SMALL, "--standin-images", "240", "--splits", "3", "--only-splits", "r0f0", "--seeds", "0"]
FLAGS += ["--plus-rounds", "1", "--average-from", "0"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with working_in(tmp_path_factory.mktemp("place")) as folder:
        yield folder


def test_curves_over_the_labelled_share(place):
    wanted = ["--methods", "gold,gold+,plfl+", "--gold-batches", "4", "--results", "r"]
    assert shares.main(["--shares", "0,0.2", *FLAGS, *wanted]) == 0
    table = pd.read_csv(place / "r" / "plfl" / "label_shares.csv")
    assert table[["framework", "share"]].value_counts().max() == 1 and set(table.share) == {0.2, 0.333}
    assert set(table.framework) == {"gold", "gold+", "plfl+"} and table.images.nunique() == 1
    claims = pd.read_csv(place / "r" / "plfl" / "label_share_claims.csv")
    assert claims.claim.tolist() == [
        f"{metric}, tiny, {share} labelled" for share in ("20%", "33%") for metric in ("macro F1", "quadratic kappa")
    ]
    assert set(claims.baseline) == {"gold continued"} and (place / "r" / "plfl" / "label_shares.png").exists()


def test_a_finished_model_on_other_peoples_xrays_by_client(place, capsys):
    bundle = str(min((place / "r" / "plfl" / "runs").glob("gold-tiny-r0f0-seed0-*/bundle")))
    (folder,) = (place / "data").glob("knees-32-*")
    table = oai.read_oai(folder).head(40)
    table = table.assign(client=["east", "west"] * 20, split=["test"] * 30 + ["train"] * 10)
    table.to_csv(place / "others.csv", index=False)
    assert elsewhere.main([bundle, "--data", str(place / "others.csv"), "--results", str(place / "e")]) in (0, 1)
    found = pd.read_csv(place / "e" / "plfl" / "elsewhere.csv").set_index("client")
    assert found.index.tolist() == ["all", "east", "west"] and found.images["all"] == found.images[1:].sum() <= 30
    means = (found.accuracy * found.images)[1:].sum() / found.images["all"]
    assert means == pytest.approx(found.accuracy["all"], abs=1e-6)
    for changed, message in (
        (table.assign(split="train"), "no image of split test"),
        (table.assign(label="bad"), "has the class bad, and the model knows healthy, moderate, severe"),
    ):
        changed.to_csv(place / "wrong.csv", index=False)
        assert elsewhere.main([bundle, "--data", str(place / "wrong.csv"), "--results", str(place / "w")]) == 2
        assert message in capsys.readouterr().err and not (place / "w").exists()


def test_a_search_sees_no_test_image(place):
    wanted = ["--methods", "gold,plfl+", "--results", "s"]
    assert search.main(["--try", "keep=0.5 soft_labels=yes", *FLAGS, *wanted]) == 0
    file = place / "s" / "plfl" / search.FILE
    table = pd.read_csv(file)
    assert set(table.settings) == {"as the flags are", "keep=0.5 soft_labels=yes"} and len(table) == 4
    assert set(table.images_are) == {"validation"}
    assert search.main(["--try", "keep=0.25", *FLAGS, *wanted]) == 0  # rows of the other command stay
    assert len(pd.read_csv(file)) == 6 and not list((place / "s").rglob("bundle"))
    runs = place / "s" / "plfl" / "runs"
    tried = {image for run in runs.iterdir() for image in _tested(run)}
    tested = {image for run in (place / "r" / "plfl" / "runs").iterdir() for image in _tested(run)}
    assert tried and tested and not tried & tested


def _tested(run):
    return set(stored.read(run).image)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shares.shares_of("0.1,x"), "--shares 0.1,x: give shares"),
        (lambda: shares.shares_of("1"), "--shares 1: each must be 0"),
        (lambda: search.settings_of("keep"), "--try keep: write a setting and its value"),
        (lambda: search.settings_of("size=96.5"), "--try size=96.5: expected a value of type int"),
        (lambda: search.settings_of("results=r"), "--try results: no setting that can be tuned"),
    ],
)
def test_mistakes_are_one_line(call, message):
    with pytest.raises(UserError) as caught:
        call()
    assert message in str(caught.value)


def test_what_networks_see_is_built_anew_for_a_setting_of_theirs():
    texts = ("keep=0.5", "augment=weak keep=0.5", "schedule=cosine", "views=3")
    found = search.networks_of({text: search.settings_of(text) for text in texts})
    assert found == {(): [texts[0], texts[2]], (("augment", "weak"),): [texts[1]], (("views", 3),): [texts[3]]}


def test_shares_are_played_from_the_fewest_labels():
    assert shares.shares_of("0,0.5,0.02") == (0.02, 0.0, 0.5)
    assert search.settings_of("keep=0.5 soft_labels=yes") == {"keep": 0.5, "soft_labels": True}
