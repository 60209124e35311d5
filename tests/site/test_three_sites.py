"""All six applications across three closed sites, gate and sandbox included: the numbers of one process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable

import pandas as pd
import pytest

from preprocessing.knee import KneeRejected, preprocess_bytes
from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.site.conftest import PIXELS
from tests.site.federation import flags_for, serving
from tests.site.quartet import NAMES, draw
from tffapps import classify, cli, fedsda, fedstyle, fedtransfer, fnst, plfl
from tffapps.data import artists, chaoyang, glands, grains, knees, oai, painters, tissue, wilds
from tffapps.plfl import parameters
from tffapps.site import certs

THREE = NAMES[:3]
# Stains that differ by 1e-6 make another grey of one pixel in 100,000, where eight bits are rounded.
PAINTED = {"fedavg-fedsda-seed0": 5e-3}
SHORT = ["--profile=smoke", "--rounds=2", "--seeds=0"]


@dataclasses.dataclass(frozen=True)
class Parts:
    """The same images for one process and for sites; `server` is what a coordinator has of its own."""

    all: pathlib.Path
    sites: dict[str, pathlib.Path]
    server: pathlib.Path | None = None


def of_classify(root: pathlib.Path) -> Parts:
    images = draw(root / "images", THREE)
    return Parts(images, dict.fromkeys(THREE, images))


def of_fedsda(root: pathlib.Path) -> Parts:
    table = wilds.read(tissue.write_tissue(root / "tissue", patches=24, centres=3, size=48, progress=False))
    table["client"] = table.client.map(dict(zip(sorted(set(table.client)), THREE)))
    return in_order(table, root)


def of_fnst(root: pathlib.Path) -> Parts:
    """Each site is rich in what another has few of."""
    table = chaoyang.read(glands.write_glands(root / "glands", train=18, test=6, size=32, noise=0.0, progress=False))
    few = dict(zip(("adenoma", "normal", "serrated"), THREE))
    parts = []
    for (split, label), rows in table.groupby(["split", "label"]):
        start = 0
        for name in THREE:
            count = 2 if split == "test" or few.get(label) == name else 6
            parts.append(rows[start : start + count].assign(client=name))
            start += count
    return in_order(pd.concat(parts), root)


def of_fedtransfer(root: pathlib.Path) -> Parts:
    for seed, names in enumerate((THREE[:2], THREE[2:])):
        drawn = grains.write_grains(root / f"drawn{seed}", images=12, size=64, seed=seed, progress=False)
        for material, name in zip(grains.CLIENTS, names):
            shutil.copytree(drawn / material, root / "all" / name)
    return Parts(root / "all", {name: root / "all" / name for name in THREE})


def of_fedstyle(root: pathlib.Path) -> Parts:
    table, _ = artists.read(painters.write_painters(root / "painters", artists=3, images=12, size=32, progress=False))
    public = table.split == "public"
    for row in table[public].itertuples():
        (root / "server" / row.label).mkdir(parents=True, exist_ok=True)
        shutil.copy(row.path, root / "server" / row.label)
    table["client"] = table.label.map(dict(zip(sorted(set(table.label)), THREE))).mask(public, "server")
    table["split"] = table.split.mask(public, "train")
    return with_server(table, table[~public], root)


def of_plfl(root: pathlib.Path) -> Parts:
    pool = oai.read_oai(knees.write_knees(root / "knees", images=150, size=32, progress=False))
    table = oai.fssfl_split(pool, 0).replace({"client": {"client1": "a", "client2": "b"}})
    third = table[table.client != "server"].groupby(["client", "split", "label"]).cumcount() % 3 == 2
    table.loc[third.index[third], "client"] = "c"
    table = table.sort_values("label", kind="stable")[["path", "label", "client", "split", "subject"]]
    table[table.client == "server"].drop(columns="client").to_csv(root / "server.csv", index=False)
    prepared = []
    for number, row in enumerate(table[table.client != "server"].to_dict("records")):
        with contextlib.suppress(KneeRejected):
            (root / f"{number}.png").write_bytes(preprocess_bytes(pathlib.Path(row["path"]).read_bytes()))
            prepared.append({**row, "path": f"{number}.png"})
    return with_server(table, pd.DataFrame(prepared), root, root / "server.csv")


def in_order(table: pd.DataFrame, root: pathlib.Path) -> Parts:
    """Rows as sites have them: by split and class."""
    table = table.assign(order=table.split.map({"train": 0, "test": 1}))
    table = table.sort_values(["client", "order", "label"], kind="stable")[["path", "label", "client", "split"]]
    table.to_csv(root / "all.csv", index=False)
    return Parts(root / "all.csv", dict.fromkeys(THREE, root / "all.csv"))


def with_server(everyone: pd.DataFrame, clients: pd.DataFrame, root: pathlib.Path, server=None) -> Parts:
    everyone.to_csv(root / "all.csv", index=False)
    clients.to_csv(root / "sites.csv", index=False)
    return Parts(root / "all.csv", dict.fromkeys(THREE, root / "sites.csv"), server or root / "server")


@dataclasses.dataclass(frozen=True)
class Case:
    app: cli.App
    data: Callable[[pathlib.Path], Parts]
    flags: list[str]
    secure: list[str] | None = None  # None: refused by name, since the server sees clients one by one
    here: tuple[str, ...] = ()  # flags of one process alone, which has more to do


CASES = {
    "classify": Case(
        classify.APP, of_classify,
        [*SHORT, f"--size={PIXELS}", "--batch=4", "--learning-rate=0.1", "--methods=fedavg"], [],
    ),
    "fedsda": Case(
        fedsda.APP, of_fedsda, [*SHORT, "--blocks=mlp", "--methods=fedavg", "--sides=none,fedsda"], ["--sides=none"]
    ),
    "fnst": Case(
        fnst.APP, of_fnst, [*SHORT, "--alone-epochs=1", "--methods=fedavg,fnst"], ["--methods=fedavg"],
        ("--no-attack",),
    ),
    "fedtransfer": Case(
        fedtransfer.APP, of_fedtransfer,
        [
            *SHORT, "--tiles=10", "--width=2", "--depth=1", "--generator-width=2", "--generator-epochs=1",
            "--methods=fedavg,fedtransfer",
        ],
        ["--methods=fedavg"],
    ),
    "fedstyle": Case(
        fedstyle.APP, of_fedstyle, [*SHORT, "--artists=0", "--studies=none", "--methods=fedstyle"]
    ),
    "plfl": Case(
        plfl.APP, of_plfl,
        ["--profile=smoke", "--size=32", "--seeds=0", "--threshold=0.4", "--csfl-rounds=1", "--methods=plfl,csfl"],
        None, ("--poison=",),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("three") / "certificates"
    certs.write(folder, THREE)
    return folder


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one == "classify" else pytest.mark.slow) for one in CASES]
)
def test_the_numbers_of_one_process(name, certificates, tmp_path, capsys):
    case, parts = CASES[name], CASES[name].data(tmp_path)
    (tmp_path / "alone").mkdir()
    with working_in(tmp_path) as patch:
        patch.setattr(os, "cpu_count", lambda: 1)  # one core means no other processes
        patch.setattr(parameters, "table_of", lambda *arguments: pd.DataFrame({"model": ["left out"]}))
        with serving(certificates, parts.sites) as members:
            engine = flags_for(certificates, *(site.address for site in members))
            engine += [f"--data={parts.server}"] if parts.server else []
            assert cli.main(case.app, [*case.flags, *engine, "--results=there"]) == 0
            masked = [*case.flags, *(case.secure or []), "--aggregator=secure"]
            assert cli.main(case.app, [*masked, *engine, "--results=masked"]) == (2 if case.secure is None else 0)
            said = capsys.readouterr().err
        patch.chdir(tmp_path / "alone")
        assert cli.main(case.app, [*case.flags, *case.here, f"--data={parts.all}", "--results=here"]) == 0
        if case.secure is None:
            assert "--aggregator secure: " in said and "it does not cover" in said
        else:
            assert cli.main(case.app, [*masked, *case.here, f"--data={parts.all}", "--results=masked"]) == 0
    compare(tmp_path / "there" / name, tmp_path / "alone/here" / name, 1e-5)
    if case.secure is not None:
        # 2^-20 of each number and round; what is masked crosses as whole numbers of twice the size.
        compare(tmp_path / "masked" / name, tmp_path / "alone/masked" / name, 1e-4, but="bytes_up")


def compare(there: pathlib.Path, here: pathlib.Path, most: float, but: str = "") -> None:
    runs = sorted(folder.name.rpartition("-")[0] for folder in (here / "runs").iterdir() if folder.is_dir())
    assert runs and runs == sorted(folder.name.rpartition("-")[0] for folder in (there / "runs").iterdir())
    for run in runs:
        one, other = record(here, run), record(there, run)
        allowed = max(most, PAINTED.get(run, 0.0))
        rounds = [each.drop(columns=[but] if but in each else []) for each in (other[0], one[0])]
        pd.testing.assert_frame_equal(*rounds, atol=10 * allowed)
        assert largest_difference(other[1], one[1]) < allowed, run
