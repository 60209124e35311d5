"""`tffapps.fedstyle` with its artists at two sites: the numbers of one machine that has everybody's pictures."""

from __future__ import annotations

import contextlib
import pathlib
import shutil

import numpy as np
import pandas as pd
import pytest

from tests.applications import record, stored, working_in
from tests.conftest import largest_difference
from tests.engine.closed import need_namespaces
from tests.evaluation.made import without_draws
from tests.site.federation import Member, flags_for
from tffapps import cli
from tffapps.data import artists, manifest, painters
from tffapps.data.pool import Pool
from tffapps.engine.held import Held
from tffapps.errors import UserError
from tffapps.fedstyle import APP, FedStyleSettings, FedStyleStudySettings, cases, data, placement
from tffapps.site import data as site_data

SMALL = ["--profile=smoke", "--artists=0", "--studies=none"]
OWNERS = {"painter01": "a", "painter02": "b", "painter03": "a"}  # a has two artists


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> pathlib.Path:
    """all.csv: pictures of the server and the clients a and b; sites.csv: the clients'; server: a folder of the others.

    Rows are in the order in which sites have them: by artist.
    """
    root = tmp_path_factory.mktemp("fedstyle")
    table, _ = artists.read(painters.write_painters(root / "painters", artists=3, images=12, size=32, progress=False))
    public = table.split == "public"
    for row in table[public].itertuples():
        (root / "server" / row.label).mkdir(parents=True, exist_ok=True)
        shutil.copy(row.path, root / "server" / row.label)
    table["client"] = table.label.map(OWNERS).mask(public, "server")
    table["split"] = table.split.mask(public, "train")
    table.to_csv(root / "all.csv", index=False)
    table[~public].to_csv(root / "sites.csv", index=False)
    return root


@pytest.fixture(scope="module")
def members(pictures, folder):
    need_namespaces()
    with contextlib.ExitStack() as stack:
        found = [Member(pictures / "sites.csv", folder, name) for name in ("a", "b")]
        for member in found:
            stack.callback(member.close)
        yield found


def flags(folder: pathlib.Path, members: list[Member]) -> list[str]:
    return flags_for(folder, *(site.address for site in members))


def kept(results: pathlib.Path, run: str) -> list[np.ndarray]:
    """What there is of what clients have to themselves after the last round, under methods that let them."""
    found = sorted(results.glob(f"runs/{run}-????????/kept-2-*.npz"))
    assert len(found) == (2 if "fedstyle" in run or "fedproto" in run else 0)
    return [array for file in found for _, array in sorted(np.load(file).items())]


def without_scores(rounds: pd.DataFrame, run: str) -> pd.DataFrame:
    """FedProto's clients cannot show their models to other sites: they are judged by their own pictures there."""
    return rounds.drop(columns=["accuracy", "macro_f1"]) if "fedproto" in run else rounds


def compare(place: pathlib.Path, pictures: pathlib.Path, engine: list[str], methods: str, *more: str) -> None:
    """Runs both; that all they wrote down is the same."""
    arguments = [*SMALL, f"--methods={methods}", *more]
    with working_in(place):
        assert cli.main(APP, [*arguments, f"--data={pictures / 'all.csv'}", "--results=here"]) == 0
        assert cli.main(APP, [*arguments, f"--data={pictures / 'server'}", *engine, "--results=there"]) == 0
    names = [folder.name.rpartition("-")[0] for folder in (place / "here/fedstyle/runs").iterdir()]
    assert len(names) >= len(methods.split(","))
    for run in names:
        one, other = (record(place / side / "fedstyle", run) for side in ("here", "there"))
        pd.testing.assert_frame_equal(without_scores(other[0], run), without_scores(one[0], run), atol=1e-4)
        assert largest_difference(other[1], one[1]) < 1e-5, run
        assert all(array.dtype.kind == "f" for array in kept(place / "here/fedstyle", run))
        assert all(Held.of(array) for array in kept(place / "there/fedstyle", run))  # words: the arrays are there
    for file in (place / "here/fedstyle").glob("*.csv"):
        if file.name not in ("queries.csv", "rejected.csv"):
            one, other = (pd.read_csv(place / side / "fedstyle" / file.name) for side in ("here", "there"))
            assert set(other.data) == {"server, sites a, b"} and set(one.data) == {"all"}
            if "method" in one:
                one, other = (table[table.method != "fedproto"] for table in (one, other))
            pd.testing.assert_frame_equal(without_draws(other), without_draws(one), atol=1e-4)


def test_the_numbers_of_one_machine(members, folder, pictures, tmp_path):
    compare(tmp_path, pictures, flags(folder, members), "fedstyle")
    here, there = (tmp_path / side / "fedstyle" for side in ("here", "there"))
    counts = pd.read_csv(there / "data.csv").groupby(["client", "split"]).pictures.sum()
    assert counts["server"].to_dict() == {"public": 3} and set(counts["a"].index) == {"train", "test"}
    # What is asked of test pictures is left out; the model's samples are the public pictures.
    assert (there / "artists.png").exists() and not (there / "queries.csv").exists()
    models = [np.load(side / "model.npz") for side in (here, there)]
    assert np.array_equal(models[0]["samples"], models[1]["samples"]) and (models[0]["samples"] < 255).any()
    assert largest_difference([models[1]["styles"]], [models[0]["styles"]]) < 1e-5


def test_the_server_alone_and_clients_that_keep_their_models(members, folder, pictures, tmp_path, capfd):
    """Both tested at the sites: the first by predictions, the others by embeddings that are made there."""
    compare(tmp_path, pictures, flags(folder, members), "local,fedproto")
    rounds, _ = record(tmp_path / "there/fedstyle", "comparison-local-3artists-seed0")
    assert list(rounds.clients) == [1, 1] and list(rounds.examples) == [3, 3]  # the public pictures
    table = pd.read_csv(tmp_path / "there/fedstyle/comparison.csv")
    assert table.method.tolist() == ["local", "fedproto"] and table.accuracy.between(0, 1).all()
    assert capfd.readouterr().err.count("tested on their own sites' pictures alone") == 1
    assert not any(list(member.states.rglob("*/*/*")) for member in members)  # forgotten when the run was finished


@pytest.mark.slow
def test_the_other_methods_and_what_can_be_studied(members, folder, pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(cases, "ABLATIONS", {"without L2": cases.ABLATIONS["without L2"]})
    studies = ["--studies=scalability,ablation", "--scalability=2"]
    compare(tmp_path, pictures, flags(folder, members), "fedavg,fedprox,fpl,fedstyle", *studies)
    found = {file.stem for file in (tmp_path / "there/fedstyle").glob("*.csv")}
    assert {"table1_scalability", "ablation"} <= found


def test_public_pictures_alone_are_read_here(members, folder, pictures, tmp_path, capfd):
    """A frozen base stores features of pictures, and those of the artists cannot be had: whole pictures are used."""
    arguments = ["--profile=smoke", "--artists=9", "--train-from=block2_pool", "--rounds=1", "--methods=fedavg"]
    with working_in(tmp_path):
        assert cli.main(APP, [*arguments, f"--data={pictures / 'all.csv'}", *flags(folder, members)]) == 0
    rounds, weights = record(tmp_path / "results/fedstyle", "comparison-fedavg-3artists-seed0")
    assert list(rounds.clients) == [2] and len(weights) > 4  # not the head alone
    assert not stored(tmp_path)
    said = capfd.readouterr().err
    assert "--artists 9: the sites have 3, and all of them take part" in said
    assert "heterogeneity and cloaking: left out" in said


SITES = ["--engine=a.example:9000,b.example:9000", "--cert=c.pem", "--key=c.key", "--ca=ca.pem"]


def complaint(capfd, folder: pathlib.Path, *arguments: str) -> str:
    with working_in(folder):
        assert cli.main(APP, [*SMALL, *arguments]) == 2
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("tffapps.")]
    return line


def test_the_server_needs_public_pictures(tmp_path, capfd, pictures):
    assert "--data: give the server's own images; with --engine a.example" in complaint(capfd, tmp_path, *SITES)
    line = complaint(capfd, tmp_path, *SITES, f"--data={pictures / 'sites.csv'}")
    assert "sites.csv: has the clients a, b; across sites it is the public pictures" in line
    (tmp_path / "bad" / "p1").mkdir(parents=True)
    (tmp_path / "bad" / "p2").mkdir()
    for name in ("p1", "p2"):
        (tmp_path / "bad" / name / "1.png").write_bytes(b"nothing")
    line = complaint(capfd, tmp_path, *SITES, f"--data={tmp_path / 'bad'}")
    assert "--data: none of its" in line and "pictures can be read" in line


def test_what_sites_have_must_fit(members, folder, pictures, tmp_path, capfd):
    shutil.copytree(pictures / "server", tmp_path / "server")
    (tmp_path / "server" / "painter02").rename(tmp_path / "server" / "Painter 2")
    line = complaint(capfd, tmp_path, f"--data={tmp_path / 'server'}", *flags(folder, members))
    assert "--engine: b has the artist painter02, and the server public pictures of Painter 2, painter01," in line
    enough = [f"--data={pictures / 'server'}", "--min-clients=3"]
    assert "--min-clients 3: there are only 2 clients" in complaint(capfd, tmp_path, *enough, *flags(folder, members))


def described(manifest: pathlib.Path, *names: str) -> dict:
    return {name: site_data.describe(site_data.load(manifest, name), name) for name in names}


def public(table: pd.DataFrame) -> Pool:
    return Pool("server", table, manifest.classes(table), "key", ("png",), given=True)


def test_artists_of_no_site_and_of_no_test_split(pictures, tmp_path):
    server, _ = artists.read_public(pictures / "server")
    table = pd.read_csv(pictures / "sites.csv", dtype=str)
    table = table[(table.label != "painter03") & (table.split != "test")]
    table.to_csv(tmp_path / "untested.csv", index=False)
    pool = placement.with_sites(public(server), described(tmp_path / "untested.csv", "a", "b"))
    assert sorted(set(pool.table.label)) == pool.classes == ["painter01", "painter02"] and pool.at_sites
    shown = data.federation(pool, 0).shown
    assert set(shown.client) == {"server"} and len(shown) == 2
    said = "\n".join(pool.notes)
    assert "left out, their artists being at no site: painter03" in said
    assert "no test split in the sites' data" in said and (pool.table.split == "test").sum() == 4
    with pytest.raises(UserError, match="a site is called server, as the coordinator's own data is; rename it"):
        placement.with_sites(public(server), {"server": {}})


def test_what_cannot_be_studied_is_left_out():
    flags = cli.parse(APP, ["--profile=smoke", "--scalability=2,4", "--artists=3", "--rounds=3"])
    fitted, notes = placement.fitted(flags, 3)
    studies = fitted[FedStyleStudySettings]
    assert (studies.studies, studies.scalability) == (("scalability", "ablation"), (2,))
    assert fitted[FedStyleSettings] == flags[FedStyleSettings]
    assert len(notes) == 2 and notes[1] == "scalability: 4 artists are left out, the sites have 3"
    none, notes = placement.fitted(flags.replaced(studies=("none",)), 3)
    assert none[FedStyleStudySettings].studies == ("none",) and notes == []


@pytest.mark.parametrize(
    ("asked", "taken", "said"), [(0, 0, ""), (2, 2, "the first 2 of them take part"), (3, 3, ""), (9, 3, "all of them")]
)
def test_so_many_artists_take_part(asked, taken, said):
    flags = cli.parse(APP, ["--studies=none", f"--artists={asked}"])
    fitted, notes = placement.fitted(flags, 3)
    assert fitted[FedStyleSettings].artists == taken
    assert len(notes) == bool(said)
    assert all(line.startswith(f"--artists {asked}: the sites have 3, and {said}") for line in notes)
