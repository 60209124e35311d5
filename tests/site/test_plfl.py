"""`tffapps.plfl` with its clients at two sites: the numbers of one machine that has everybody's images."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib

import pandas as pd
import pytest

from preprocessing.knee import KneeRejected, preprocess_bytes
from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.evaluation.made import without_draws
from tests.site.federation import Member, flags_for, serving
from tffapps import cli
from tffapps.app import Common
from tffapps.data import knees, oai
from tffapps.plfl import APP, parameters

SMALL = ["--profile=smoke", "--size=32", "--seeds=0", "--threshold=0.4"]
COLUMNS = ["path", "label", "client", "split", "subject"]


@pytest.fixture(scope="module")
def manifests(tmp_path_factory) -> pathlib.Path:
    """all.csv: X-rays of the server and the clients a and b; server.csv: the server's; sites.csv: the others, prepared.

    Clients' rows are in the order in which sites have them: by class.
    """
    root = tmp_path_factory.mktemp("plfl")
    pool = oai.read_oai(knees.write_knees(root / "knees", images=120, size=32, progress=False))
    table = oai.fssfl_split(pool, 0).replace({"client": {"client1": "a", "client2": "b"}})
    table = table.sort_values("label", kind="stable")[COLUMNS]
    table.to_csv(root / "all.csv", index=False)
    table[table.client == "server"].drop(columns="client").to_csv(root / "server.csv", index=False)
    rows = []
    for number, row in enumerate(table[table.client != "server"].to_dict("records")):
        with contextlib.suppress(KneeRejected):  # the command says so in its list, and goes on
            prepared = root / f"{number}.png"
            prepared.write_bytes(preprocess_bytes(pathlib.Path(row["path"]).read_bytes()))
            rows.append({**row, "path": prepared.name})
    pd.DataFrame(rows).to_csv(root / "sites.csv", index=False)
    return root


@pytest.fixture(scope="module")
def sites(manifests, folder):
    with serving(folder, dict.fromkeys(("a", "b"), manifests / "sites.csv")) as members:
        yield members


def flags(folder: pathlib.Path, members: list[Member]) -> list[str]:
    return flags_for(folder, *(site.address for site in members))


@contextlib.contextmanager
def in_folder(folder: pathlib.Path):
    """One core means no other processes; the thesis's large networks are left out."""
    with working_in(folder) as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        patch.setattr(parameters, "table_of", lambda *arguments: pd.DataFrame({"model": ["left out"]}))
        yield


@pytest.mark.slow
def test_the_numbers_of_one_machine(sites, folder, manifests, tmp_path, capsys):
    few = "--csfl-rounds=1"
    here = [*SMALL, few, f"--data={manifests / 'all.csv'}", "--poison=", "--results=here"]
    there = [*SMALL, few, f"--data={manifests / 'server.csv'}", *flags(folder, sites), "--results=there"]
    with in_folder(tmp_path):
        assert cli.main(APP, here) == 0
        assert cli.main(APP, there) == 0
    started = record(tmp_path / "here" / "plfl", "gold-tiny-seed0")[1]
    for name in ("gold", "plfl", "plfl+", "csfl", "fssfl"):
        one, other = (record(tmp_path / place / "plfl", f"{name}-tiny-seed0") for place in ("here", "there"))
        pd.testing.assert_frame_equal(other[0], one[0], atol=1e-4)
        assert largest_difference(other[1], one[1]) < 1e-5, name
        assert name == "gold" or largest_difference(one[1][: len(started)], started) > 1e-2
    said = capsys.readouterr().err
    assert "python -m preprocessing.knee IMAGES PREPARED --contrast clahe" in said
    assert "the poisoning study is left out" in said
    for name in ("comparison", "rounds"):
        one, other = (pd.read_csv(tmp_path / place / f"plfl/{name}.csv") for place in ("here", "there"))
        assert set(other.data) == {"server, sites a, b"} and set(one.data) == {"all"}
        pd.testing.assert_frame_equal(without_draws(other), without_draws(one), atol=1e-4)
    assert set(other.site[other.framework == "csfl"]) == {"server", "a", "b"}
    kept = pd.read_csv(tmp_path / "there/plfl/pseudo_labels.csv")
    assert set(kept.client) == {"a", "b"} and kept.kept.sum() > 0
    splits = [pd.read_csv(tmp_path / place / "plfl/splits.csv").drop(columns="data") for place in ("here", "there")]
    pd.testing.assert_frame_equal(*splits)


def test_images_of_the_server_alone_are_read_here(sites, folder, manifests, tmp_path):
    """A frozen base stores features of images, and those of the clients cannot be had: whole images are used."""
    arguments = [
        *SMALL,
        "--train-from=block2_pool",
        "--csfl-rounds=1",
        "--methods=csfl",
        f"--data={manifests / 'server.csv'}",
    ]
    with in_folder(tmp_path):
        assert cli.main(APP, [*arguments, *flags(folder, sites)]) == 0
    rounds, weights = record(tmp_path / "results/plfl", "csfl-tiny-seed0")
    assert list(rounds.clients) == [2] and len(weights) > 4  # not the head alone
    assert not [path for path in (tmp_path / "data/cache/features").glob("*") if path.is_dir()]


SITES = ["--engine=a.example:9000,b.example:9000", "--cert=c.pem", "--key=c.key", "--ca=ca.pem"]


def complaint(capfd, folder: pathlib.Path, *arguments: str) -> str:
    with in_folder(folder):
        assert cli.main(APP, [*SMALL, *arguments]) == 2
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("tffapps.")]
    return line


def test_the_server_needs_data_of_its_own(tmp_path, capfd):
    message = "--data: give the server's own images; with --engine a.example:9000,b.example:9000 the sites have the"
    assert message in complaint(capfd, tmp_path, *SITES)
    file = tmp_path / "settings.json"
    stored = {"app": "plfl", "labels": {"method": "plfl", "seed": 0}, "flags": {"data": "everybody.csv"}}
    file.write_text(json.dumps(stored))
    assert message in complaint(capfd, tmp_path, f"--settings={file}", *SITES)
    stored["flags"] = {"data": "server.csv", "engine": "a:9000", "cert": "c.pem", "key": "c.key", "ca": "ca.pem"}
    file.write_text(json.dumps(stored))
    assert cli.parse(APP, [f"--settings={file}"])[Common].data == "server.csv"


def test_data_of_clients_is_not_the_servers(manifests, tmp_path, capfd):
    line = complaint(capfd, tmp_path, *SITES, f"--data={manifests / 'sites.csv'}")
    assert "sites.csv: has the clients a, b; across sites it is the server's images" in line


def test_a_server_without_a_test_split(manifests, tmp_path, capfd):
    table = pd.read_csv(manifests / "server.csv", dtype=str)
    table[table.split != "test"].to_csv(tmp_path / "untested.csv", index=False)
    line = complaint(capfd, tmp_path, *SITES, f"--data={tmp_path / 'untested.csv'}")
    assert "untested.csv: no test image of the server; it needs all of train, val, test" in line


def test_what_sites_have_must_fit(sites, folder, manifests, tmp_path, capfd):
    table = pd.read_csv(manifests / "server.csv", dtype=str).replace({"label": {"severe": "worst"}})
    table.to_csv(tmp_path / "other.csv", index=False)
    line = complaint(capfd, tmp_path, f"--data={tmp_path / 'other.csv'}", *flags(folder, sites))
    assert "--engine: a has the class severe, and the server has healthy, moderate, worst" in line
    enough = [f"--data={manifests / 'server.csv'}", "--min-clients=3"]
    assert "--min-clients 3: there are only 2 clients" in complaint(capfd, tmp_path, *enough, *flags(folder, sites))
