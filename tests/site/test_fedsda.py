"""`tffapps.fedsda` with its centres at two sites, which measure and align: the numbers of one machine."""

from __future__ import annotations

import pathlib

import numpy as np
import pandas as pd
import pytest

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.evaluation.made import without_draws
from tests.site.conftest import files
from tests.site.federation import Member, flags_for, listening_in, serving
from tffapps import cli
from tffapps.data import published, tissue, wilds
from tffapps.engine import open_engine
from tffapps.fedsda import APP
from tffapps.wire import jobs
from tffapps.wire.messages import Message

SMALL = ["--profile=smoke", "--seeds=0", "--blocks=mlp", "--rounds=2"]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> pathlib.Path:
    """Patches of the clients a and b, in the order in which sites have them."""
    root = tmp_path_factory.mktemp("fedsda")
    table = wilds.read(tissue.write_tissue(root / "tissue", patches=24, centres=2, size=48, progress=False))
    names = dict(zip(sorted(set(table.client)), ("a", "b")))
    table = table.assign(client=table.client.map(names), order=table.split.map({"train": 0, "test": 1}))
    table = table.sort_values(["client", "order", "label"], kind="stable")[["path", "label", "client", "split"]]
    table.to_csv(root / "all.csv", index=False)
    return root / "all.csv"


@pytest.fixture
def sites(manifest, folder, tmp_path):
    """In a folder of their own: what they make stays there."""
    with working_in(tmp_path), serving(folder, dict.fromkeys(("a", "b"), manifest)) as members:
        yield members


def flags(folder: pathlib.Path, members: list[Member]) -> list[str]:
    return flags_for(folder, *(site.address for site in members))


def test_the_numbers_of_one_machine(sites, folder, manifest, tmp_path, capsys):
    here = [*SMALL, "--methods=fedavg", "--sides=none,fedsda", f"--data={manifest}", "--results=here"]
    there = [*SMALL, "--methods=fedavg", *flags(folder, sites), "--results=there"]
    assert cli.main(APP, there) == 0
    said = capsys.readouterr().err
    assert "across sites ccst and amp-norm are left out" in said
    assert cli.main(APP, here) == 0
    for run in ("stains-mlp-2-epochs", "fedavg-none-seed0", "fedavg-fedsda-seed0"):
        one, other = (record(tmp_path / place / "fedsda", run) for place in ("here", "there"))
        pd.testing.assert_frame_equal(other[0], one[0], atol=1e-4)
        assert largest_difference(other[1], one[1]) < 1e-5, run
    plain, aligned = (record(tmp_path / "there/fedsda", f"fedavg-{side}-seed0")[1] for side in ("none", "fedsda"))
    assert largest_difference(plain, aligned) > 1e-4
    for name in ("table1_diffusion", "table2_optimisers", "separation", "data"):
        one, other = (pd.read_csv(tmp_path / place / f"fedsda/{name}.csv") for place in ("here", "there"))
        assert set(other.data) == {"sites a, b"}
        pd.testing.assert_frame_equal(without_draws(other), without_draws(one), atol=1e-4)
    made = {file.suffix for file in (tmp_path / "there").rglob("*.png")}
    assert made == {".png"} and not (tmp_path / "there/fedsda/patches.png").exists()


def test_no_stain_matrix_and_no_patch_leaves_a_site(sites, folder, manifest, tmp_path):
    """Somebody reads all that comes out of a site that measures and aligns."""
    with (
        listening_in(folder, sites[0]) as (address, _, outward),
        open_engine(f"{address},{sites[1].address}", files(folder, "coordinator")) as engine,
    ):
        rows = published.manifest(engine.sites, [])
        numbers = np.flatnonzero((rows[rows.client == "a"].split == "train").to_numpy())
        fields = {jobs.JOB: "fedsda/stains", "separation": {"lambda_matrix": 0.02}, "data": "x"}
        request = Message(fields, {"rows": numbers})
        answer = engine.ask({"a": request})["a"]
        vectors = np.fromfile(next((tmp_path / "data/sites/a").rglob("000000")), np.float32).reshape(-1, 6)
        assert len(vectors) == answer.fields["count"] > 10
        assert answer.arrays["mean"] == pytest.approx(vectors.mean(axis=0), abs=1e-5)
        given = np.tile(vectors[:1].reshape(1, 2, 3).transpose(0, 2, 1), (len(numbers), 1, 1))
        alignment = Message({**fields, jobs.JOB: "fedsda/alignment"}, {"rows": numbers, "matrices": given})
        assert engine.ask({"a": alignment})["a"] == Message({}, {})
        links = list((tmp_path / "data/sites/a").glob(f"*/{alignment.identity}/files/*"))
        kept = [link for link in links if "cache" not in link.resolve().parts]
        assert len(links) == len(numbers) and len(kept) == len(numbers) - len(vectors)
    heard = bytes(outward)
    assert len(heard) > 1000
    assert not any(vector.tobytes() in heard for vector in vectors)
    table = pd.read_csv(manifest)
    assert not any(pathlib.Path(path).read_bytes()[40:200] in heard for path in table.path[table.client == "a"])
    made = list((tmp_path / "data/sites/a/data/cache/aligned").rglob("*.png"))
    assert made and not any(file.read_bytes()[40:200] in heard for file in made)


@pytest.mark.parametrize(
    ("words", "arrays", "message"),
    [
        ({}, {}, "settings of a separation that cannot be"),
        ({"separation": {"colour": 1}}, {}, "settings of a separation that cannot be"),
        ({"separation": {}}, {"matrices": np.zeros((1, 3, 2))}, "matrices are not numbers of the shape"),
        ({"separation": {}}, {"matrices": np.full((2, 3, 2), np.nan)}, "matrices are not finite"),
    ],
)
def test_requests_that_cannot_be(manifest, tmp_path, words, arrays, message):
    from tffapps.errors import UserError
    from tffapps.fedsda.jobs import alignment, stains

    rows = pd.read_csv(manifest, dtype=str)
    job = alignment if arrays else stains
    with pytest.raises(UserError, match=message):
        job(Message(words, {"rows": np.arange(2), **arrays}), rows, tmp_path)


def test_sides_that_sites_cannot_do(sites, folder, capfd):
    assert cli.main(APP, [*SMALL, "--sides=ccst", *flags(folder, sites)]) == 2
    line = capfd.readouterr().err.splitlines()[-1]
    assert line == "tffapps.fedsda: error: --sides ccst: cannot be had across sites; choose from none, fedsda"
