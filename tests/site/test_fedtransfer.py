"""`tffapps.fedtransfer` with its clients at two sites: the numbers of one machine that has everybody's micrographs."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import types

import numpy as np
import pandas as pd
import pytest

from models.pix2pix import Architecture, build
from preprocessing import generator_files
from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.site.federation import flags_for, listening_in, serving
from tffapps import cli
from tffapps.app import Common
from tffapps.data import grains, manifest
from tffapps.engine import open_engine
from tffapps.errors import RunStopped, UserError
from tffapps.evaluation import stored
from tffapps.fedtransfer import APP, GeneratorSettings, TileSettings, UNetSettings, data, jobs
from tffapps.fedtransfer.evaluator import ScoringAtSites, ScoringHere
from tffapps.fedtransfer.network import Network
from tffapps.fedtransfer.request import write
from tffapps.site import data as site_data
from tffapps.site.mailbox import _in_published_order

# Ten of twelve tiles: which of them does not depend on the other client.
SMALL = ["--profile=smoke", "--tiles=10", "--width=2", "--depth=1", "--generator-width=2", "--generator-epochs=1"]


@pytest.fixture(scope="module")
def micrographs(tmp_path_factory) -> pathlib.Path:
    """a/ and b/, each with images/ and labels/."""
    root = tmp_path_factory.mktemp("micrographs")
    drawn = grains.write_grains(root / "drawn", images=12, size=64, progress=False)
    for material, client in zip(grains.CLIENTS, ("a", "b")):
        shutil.copytree(drawn / material, root / "both" / client)
    return root / "both"


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> pathlib.Path:
    """Where the sites and their coordinator work."""
    return tmp_path_factory.mktemp("there")


@pytest.fixture(scope="module")
def sites(micrographs, folder, work):
    """Site a is given everybody's micrographs and takes its own, site b is given its own."""
    with working_in(work), serving(folder, {"a": micrographs, "b": micrographs / "b"}) as members:
        yield members


def compare(here: pathlib.Path, there: pathlib.Path, run: str) -> None:
    one, other = (record(place / "results" / "fedtransfer", run) for place in (here, there))
    pd.testing.assert_frame_equal(other[0], one[0], atol=1e-5)
    assert largest_difference(other[1], one[1]) < 1e-5, run
    (first,), (second,) = (list(place.glob(f"results/fedtransfer/runs/{run}-*")) for place in (here, there))
    scores = [stored.read(folder)[["client", "map", "mvi", "ari"]] for folder in (first, second)]
    pd.testing.assert_frame_equal(scores[1], scores[0], atol=1e-5)


def test_a_federation_has_the_numbers_of_one_machine(sites, folder, micrographs, work, tmp_path, capsys):
    methods = [*SMALL, "--methods=fedavg", "--rounds=1"]
    with working_in(tmp_path):
        assert cli.main(APP, [*methods, f"--data={micrographs}"]) == 0
    with working_in(work):
        # In whatever order the sites are given, clients are sorted.
        assert cli.main(APP, [*methods, *flags_for(folder, sites[1].address, sites[0].address)]) == 0
    compare(tmp_path, work, "fedavg-seed0")
    assert "look.csv, looks.png, segmentations.png: left out" in capsys.readouterr().err
    results = work / "results/fedtransfer"
    table, about = pd.read_csv(results / "table3_federated.csv"), pd.read_csv(results / "data.csv")
    assert set(table.data) == {"sites a, b"} and set(table.test) == {"a", "b", "global"}
    here = pd.read_csv(tmp_path / "results/fedtransfer/data.csv")
    pd.testing.assert_frame_equal(about.drop(columns="data"), here.drop(columns="data"))
    assert sorted(file.stem for file in results.glob("*.png")) == ["scores", "validation_loss"]


@pytest.mark.slow
def test_generators_travel_between_sites(sites, folder, micrographs, work, tmp_path):
    """In two folds; int8 is what is sent."""
    more = [*SMALL, "--methods=separate,fedtransfer,repeated", "--alone-rounds=1", "--rounds=2", "--folds=2"]
    more.append("--generator-precision=int8")
    with working_in(tmp_path):
        assert cli.main(APP, [*more, f"--data={micrographs}"]) == 0
    with working_in(work), listening_in(folder, sites[1]) as (address, _, outward):
        assert cli.main(APP, [*more, *flags_for(folder, sites[0].address, address)]) == 0
    for run in ("separate-a", "separate-b", "fedtransfer-int8", "repeated"):
        for fold in (0, 1):
            compare(tmp_path, work, f"{run}-fold{fold}-seed0")
    tables = [pd.read_csv(place / "results/fedtransfer/bytes.csv").drop(columns="data") for place in (tmp_path, work)]
    pd.testing.assert_frame_equal(*tables)
    found = pd.read_csv(work / "results/fedtransfer/generator_precision.csv")
    assert found.pixel_difference.isna().all() and found["map"].notna().all()
    assert not (work / "results/fedtransfer/look.csv").exists()
    heard = bytes(outward)
    assert b"up0.bias" in heard  # the generator of b
    assert b"\x89PNG" not in heard and b"m000_0" not in heard  # no tile, mask or painting, and no name of a file
    made = list((work / "data/sites/a").glob("*/*/files/*"))
    assert made and not list((work / "data/sites/a").glob("*/*/files/*.npz"))  # only images stay where pipelines look


@pytest.fixture
def own(micrographs, tmp_path):
    """The rows of site b as a job is given them, in a working folder of its own."""
    with working_in(tmp_path):
        table = site_data.load(micrographs, "b")
        yield _in_published_order(table, ["grains"])


FLAGS = cli.parse(APP, SMALL)
TILING, GENERATOR = FLAGS[TileSettings], FLAGS[GeneratorSettings]
TOLD = {**dataclasses.asdict(TILING), **dataclasses.asdict(GENERATOR)}


def test_a_site_cuts_what_one_machine_cuts(own, micrographs, tmp_path):
    flags = FLAGS.replaced(folds=2, data=str(micrographs))
    folds = data.load(flags)
    (tmp_path / "files").mkdir()
    answer = jobs.tiles(write("tiles", [flags[TileSettings]]), own, tmp_path / "files")
    for tiles in folds:
        rows = tiles.pool.table[tiles.pool.table.client == "b"]
        assert [manifest.SPLITS[number] for number in answer.arrays["splits"][tiles.fold]] == list(rows.split)
    for number, row in enumerate(rows.itertuples()):
        for name, path in ((f"{number:06d}", row.path), (f"{number:06d}.mask", row.mask)):
            assert (tmp_path / "files" / name).read_bytes() == pathlib.Path(path).read_bytes()
    assert len(rows) == 10 and answer.fields["sizes"] == [[64, 64]]
    assert "m00" not in json.dumps(answer.fields) and "/" not in json.dumps(answer.fields)


def test_reasons_leave_without_names(own, tmp_path, capsys):
    with pytest.raises(UserError, match=r"too few for 9 folds") as error:
        jobs.tiles(write("tiles", [dataclasses.replace(TILING, folds=9)]), own, tmp_path)
    assert "5 micrographs (…, …, …, …) are" in str(error.value) and "m00" not in str(error.value)
    assert "m00" in capsys.readouterr().err  # for the site's user


def received(tmp_path):
    """A generator as the coordinator sends it."""
    generator_files.save(tmp_path / "g.npz", build(Architecture("unet", (64, 64), 2, 1), 1))
    return [np.frombuffer((tmp_path / "g.npz").read_bytes(), np.uint8)]


def test_a_site_paints_its_own_labels(own, tmp_path):
    request = write("painting", [TILING, GENERATOR], received(tmp_path), fold=0, precision="float32")
    (tmp_path / "files").mkdir()
    answer = jobs.painting(request, own, tmp_path / "files")
    table = data.cut(jobs.micrographs.listed(own, ""), TILING)[0][0]
    count = int((table.split == "train").sum())
    assert len(answer.fields["names"]) == count == len(list((tmp_path / "files").iterdir()))
    assert all((tmp_path / "files" / f"{number:06d}").resolve().is_file() for number in range(count))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"precision": "int8"}, "its precision is 'float32', expected int8"),
        ({"precision": "int4"}, "a request for the precision 'int4'; there are float32"),
        ({"fold": 1}, "a request with fold 1; it must be from 0 to 0"),
        ({"fold": "0"}, "a request with fold '0'"),
        ({"settings": {}}, "a request that has not the settings tile, size, tiles, folds"),
        ({"settings": {**TOLD, "tile": -1}}, "--tile -1: must be 0 or more"),
        ({"settings": {**TOLD, "generator_width": 4}}, "another generator: unet of width 2"),
    ],
)  # fmt: skip
def test_what_a_site_does_not_paint_with(own, tmp_path, changes, complaint):
    request = write("painting", [TILING, GENERATOR], received(tmp_path), fold=0, precision="float32")
    request.fields.update(changes)
    with pytest.raises(UserError, match=complaint):
        jobs.painting(request, own, tmp_path)


def test_weights_of_another_network(own, tmp_path):
    with pytest.raises(UserError, match="not those of the U-Net asked for"):
        jobs.grains(write("grains", [TILING, FLAGS[UNetSettings]], [np.zeros(3)], fold=0), own, tmp_path)


def test_a_site_that_is_away_has_no_loss_and_is_needed_at_the_end(micrographs, tmp_path):
    with working_in(tmp_path):
        (tiles,) = data.load(FLAGS.replaced(data=str(micrographs)))
        network = Network(UNetSettings(width=2, depth=1, batch=2), tiles.size, channels=1)
        weights = network.model.get_weights()
        expected = ScoringHere(network).losses(weights, tiles, ["a"], last=False)
        with open_engine() as engine:

            def at_site(name, *arguments):
                if name == "b":
                    raise ConnectionError("b is away")
                return engine.at_site(name, *arguments)

            scoring = ScoringAtSites(network, types.SimpleNamespace(sites={}, at_site=at_site), None)
            found = scoring.losses(weights, tiles, ["a", "b"], last=False)
            with pytest.raises(RunStopped, match=r"the validation tiles of b are needed at the end \(b is away\)"):
                scoring.losses(weights, tiles, ["a", "b"], last=True)
        assert found["a"] == pytest.approx(expected["a"], abs=1e-6)
        assert np.isnan(found["b"])


def complaint(capfd, place: pathlib.Path, *arguments: str, status: int = 2) -> str:
    with working_in(place):
        assert cli.main(APP, [*SMALL, *arguments]) == status
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("tffapps.")]
    return line


NOWHERE = ["--engine=a.example:9000,b.example:9000", "--cert=c.pem", "--key=c.key", "--ca=ca.pem"]


def test_what_cannot_be_across_sites(tmp_path, capfd):
    line = complaint(capfd, tmp_path, *NOWHERE, "--methods=centralised")
    assert "--methods centralised: cannot run across sites: no site has all the micrographs; leave it out" in line
    assert "--data images: with --engine" in complaint(capfd, tmp_path, *NOWHERE, "--data=images")
    assert cli.parse(APP, NOWHERE)[Common].methods == ("separate", "fedavg", "fedtransfer", "repeated")


def test_mistakes_that_sites_find(sites, folder, work, capfd):
    both = flags_for(folder, *(site.address for site in sites))
    assert "--min-clients 3: there are only 2 clients" in complaint(capfd, work, *both, "--min-clients=3")
    line = complaint(capfd, work, *flags_for(folder, sites[0].address))
    assert "--engine: only one client, a; generators travel between two or more: give the addresses" in line
    line = complaint(capfd, work, *both, "--tile=65", status=3)
    assert "could not do fedtransfer/tiles: … 64 × 64 pixels, smaller than a tile; choose --tile 64 or less" in line


def test_sites_without_labels(members, folder, tmp_path, capfd):
    line = complaint(capfd, tmp_path, *flags_for(folder, *(site.address for site in members)))
    assert "--engine: site a has labels for 0 of its 18 images; it must serve <client>/images/*" in line
