"""`tffapps.fnst` with its clients at two sites, which measure styles and make images: the numbers of one machine."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import pandas as pd
import pytest

from tests.applications import record, stored, working_in
from tests.conftest import largest_difference
from tests.evaluation.made import without_draws
from tests.site.federation import flags_for, listening_in, serving
from tffapps import cli
from tffapps.data import chaoyang, glands
from tffapps.data.pool import Pool
from tffapps.errors import UserError
from tffapps.fnst import APP, Augmentation, GramSettings, TransferSettings, data, jobs
from tffapps.fnst.exchange import Exchange
from tffapps.fnst.jobs import measure_styles, transfer_styles
from tffapps.fnst.placement import AtSites
from tffapps.fnst.styler import Styler
from tffapps.wire.messages import Message

SMALL = ["--profile=smoke", "--rounds=2", "--alone-epochs=1"]
GRAMS, HOW = GramSettings(vgg_width=4, style_size=32), TransferSettings(style_steps=5, init="content")
# Training images. With S2C2 each is rich in what the other has few of; adenocarcinoma is at one site alone.
COUNTS = {
    "a": {"adenocarcinoma": 9, "adenoma": 2, "normal": 8, "serrated": 5},
    "b": {"adenoma": 9, "normal": 2, "serrated": 1},
}
MADE = {("a", "adenoma"): 2 * 2, ("b", "normal"): 2 * 2, ("b", "serrated"): 1 * 2}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> pathlib.Path:
    """Patches of the clients a and b, in the order in which sites have them: by split and class."""
    root = tmp_path_factory.mktemp("fnst")
    table = chaoyang.read(glands.write_glands(root / "glands", train=16, test=4, size=32, noise=0.0, progress=False))
    parts = []
    for split in ("train", "test"):
        for label in sorted(chaoyang.CLASSES):
            own, start = table[(table.split == split) & (table.label == label)], 0
            for client, counts in COUNTS.items():
                count = counts.get(label, 0) if split == "train" else 2 * (label in counts)
                parts.append(own[start : start + count].assign(client=client))
                start += count
    pd.concat(parts).to_csv(root / "all.csv", index=False)
    return root / "all.csv"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> pathlib.Path:
    """Where sites and coordinator work; whoever runs the same alone works elsewhere."""
    return tmp_path_factory.mktemp("sites")


@pytest.fixture(scope="module")
def sites(manifest, folder, place):
    with working_in(place), serving(folder, dict.fromkeys(COUNTS, manifest)) as members:
        yield members


@pytest.fixture(scope="module")
def there(sites, folder, place):
    """What all methods find across sites, and what came out of site a meanwhile."""
    with listening_in(folder, sites[0]) as (address, _, outward):
        assert cli.main(APP, [*SMALL, *flags_for(folder, address, sites[1].address), "--results=there"]) == 0
    return place / "there/fnst", bytes(outward)


@pytest.fixture(scope="module")
def here(manifest, tmp_path_factory):
    with working_in(tmp_path_factory.mktemp("alone")):
        methods = "--methods=separate,fedavg,fnst,repeated"
        assert cli.main(APP, [*SMALL, methods, "--no-attack", f"--data={manifest}", "--results=here"]) == 0
        return pathlib.Path("here/fnst").resolve()


RUNS = ("separate-a-seed0", "separate-b-seed0", "fedavg-seed0", "fnst-S2C2-seed0", "repeated-S2C2-seed0")


def test_the_numbers_of_one_machine(here, there):
    for name in RUNS:
        one, other = (record(results, name) for results in (here, there[0]))
        pd.testing.assert_frame_equal(other[0], one[0], atol=1e-4)
        assert largest_difference(other[1], one[1]) < 1e-5, name
    ends = {name: record(there[0], name)[1] for name in RUNS}
    for name in RUNS[:2] + RUNS[3:]:
        assert largest_difference(ends[name], ends["fedavg-seed0"]) > 1e-3, name
    assert largest_difference(ends["fnst-S2C2-seed0"], ends["repeated-S2C2-seed0"]) > 1e-3


def test_the_tables_of_one_machine(here, there):
    names = sorted(file.name for file in there[0].glob("*.csv"))
    assert names == sorted(file.name for file in here.glob("*.csv")) and len(names) == 8
    assert pd.read_csv(there[0] / "rejected.csv").empty
    for name in set(names) - {"rejected.csv"}:
        one, other = (pd.read_csv(results / name) for results in (here, there[0]))
        assert set(one.data) == {"all"} and set(other.data) == {"sites a, b"}
        pd.testing.assert_frame_equal(without_draws(other), without_draws(one), atol=1e-4)
    assert set(pd.read_csv(there[0] / "table3_fnst.csv").made) == {sum(MADE.values())}
    assert {file.stem for file in there[0].glob("*.png")} == {"classes", "macro_f1", "f1_per_class"}


def test_the_images_that_one_machine_makes(here, there, place):
    made = list((place / "data/sites").rglob("files/0*"))
    assert {file.resolve().name for file in made} == {
        file.name for file in (here.parents[1] / "data/cache/styled").rglob("*.png")
    }
    assert len(made) == sum(MADE.values())


def test_gram_matrices_leave_a_site_and_images_do_not(there, manifest, place):
    heard = there[1]
    (sent,) = (place / "data/sites/a").rglob("sent-0.npz")
    assert sent.read_bytes()[1000:1200] in heard  # what does cross is heard
    table = pd.read_csv(manifest)
    paths = [pathlib.Path(path) for path in table.path[table.client == "a"]]
    paths += list((place / "data/sites").glob("*/data/cache/styled/**/*.png"))
    assert len(paths) > 40 and not any(path.read_bytes()[60:160] in heard for path in paths)


def test_the_same_command_again_asks_for_nothing_new(there, sites, folder, place, capsys):
    before = {file: file.stat().st_mtime_ns for file in (place / "data/sites").rglob("answer")}
    again = [*SMALL, "--methods=fnst", *flags_for(folder, *(site.address for site in sites)), "--results=there"]
    tables = (there[0] / "table3_fnst.csv").read_text()
    assert cli.main(APP, again) == 0
    assert {file: file.stat().st_mtime_ns for file in (place / "data/sites").rglob("answer")} == before
    assert len(before) == 4  # two sites, each asked for styles and for images
    assert "the attack is left out: it looks at images, and these are at the sites" in capsys.readouterr().err
    assert (there[0] / "table3_fnst.csv").read_text() == tables  # the earlier command's runs are in it
    shown = pd.read_csv(there[0] / "table3_fnst.csv").set_index("method")
    assert set(shown.index) == {"fnst", "repeated"} and shown.macro_f1["fnst"] == pytest.approx(
        record(there[0], "fnst-S2C2-seed0")[0].macro_f1.iloc[-1], abs=1e-5
    )


def test_no_image_is_read_here(sites, folder, tmp_path):
    """A frozen base stores features of images, and those of the sites cannot be had: whole images are used."""
    where = flags_for(folder, *(site.address for site in sites))
    with working_in(tmp_path):
        assert (
            cli.main(APP, ["--profile=smoke", "--rounds=1", "--methods=fedavg", "--train-from=block2_pool", *where])
            == 0
        )
        rounds, weights = record(tmp_path / "results/fnst", "fedavg-seed0")
        assert list(rounds.clients) == [2] and len(weights) > 4  # not the head alone
        assert not stored(tmp_path)


def changed(request: Message, **fields) -> Message:
    return Message({**request.fields, **fields}, request.arrays)


class Answering:
    """An engine whose sites answer as they are told."""

    def __init__(self, answer) -> None:
        self.sites = {name: {"fingerprint": name} for name in COUNTS}
        self.ask = lambda requests: {site: answer(site, request) for site, request in requests.items()}


def test_what_sites_answer_is_checked(manifest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.read_csv(manifest, dtype=str)
    table = table.assign(row=table.groupby("client").cumcount())
    federation = Pool("sites", table, list(chaoyang.CLASSES), "key", given=True, at_sites=True)

    def honest(site, request, **fields):
        files = tmp_path / site / request.identity
        files.mkdir(parents=True)
        job = jobs.JOBS[request.fields["job"].removeprefix("fnst/")]
        return job(changed(request, **fields), table[table.client == site], files)

    def other_network(site, request):
        return honest(site, request, flags={**request.fields["flags"], "vgg_width": 8})

    def too_few(site, request):
        return honest(site, request) if request.fields["job"] == jobs.STYLES else Message({jobs.MADE: 1})

    for answer, message in (
        (other_network, "a sent what the server does not take: .*: another VGG: its width is 8, here it is 4"),
        (lambda site, request: Message({}), "site a sent 0 files of Gram matrices, expected 3"),
        (too_few, "site [ab] made 1 images where [46] were asked for"),
    ):
        with pytest.raises(UserError, match=message):
            Exchange(AtSites(Styler(GRAMS, HOW), Answering(answer))).make(federation, Augmentation(2, 2), 0)
        shutil.rmtree(tmp_path / "a", ignore_errors=True)
        shutil.rmtree(tmp_path / "b", ignore_errors=True)


def complaint(capfd, *arguments: str) -> str:
    assert cli.main(APP, [*SMALL, *arguments]) in (2, 3)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("tffapps.")]
    return line


SITES = ["--engine=a.example:9000,b.example:9000", "--cert=c.pem", "--key=c.key", "--ca=ca.pem"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods=centralised"], "--methods centralised: cannot run across sites: no site has all the images"),
        (["--data=images"], "--data images: with --engine a.example:9000,b.example:9000 every site has its own"),
        (["--vgg-weights=own.h5"], "--vgg-weights own.h5: that file is not at the sites; across sites give random or"),
        ([], "--cert c.pem: no such file"),
    ],
)
def test_a_mistake_is_one_clear_line(arguments, message, tmp_path, capfd):
    with working_in(tmp_path):
        assert message in complaint(capfd, *SITES, *arguments)


def test_what_sites_have_must_do(sites, folder, capfd):
    both = flags_for(folder, *(site.address for site in sites))
    assert "--min-clients 3: there are only 2 clients" in complaint(capfd, *both, "--min-clients=3")
    line = complaint(capfd, *both, "--methods=fnst", "--augmentations=S2C9")
    assert "S2C9: no class has more than 9 images at one client and 1 to 9 at another" in line
    alone = flags_for(folder, sites[0].address)
    assert "--engine: only one site; styles travel between sites: give two or more" in complaint(capfd, *alone)


def test_without_a_test_split_one_is_drawn_and_rows_keep_their_numbers():
    counts = {label: 10 for label in ("good", "poor")}
    description = {
        "images": {"train": counts, "val": dict.fromkeys(counts, 0), "test": dict.fromkeys(counts, 0)},
        "classes": list(counts), "masks": 0, "subjects": False, "formats": ["jpeg"], "stand_in": False,
    }  # fmt: skip
    pool = data.of_sites({name: {**description, "name": name, "fingerprint": name} for name in ("b", "a")})
    assert pool.given and pool.at_sites and pool.formats == ("jpeg",) and (pool.table.split == "test").sum() == 8
    federation = data.shared_out(pool, 5, 0)
    train = federation.part("train")
    assert [int(path[-6:]) + 10 * (label == "poor") for path, label in zip(train.path, train.label)] == list(
        train["row"]
    )
    assert federation.clients == ["a", "b"]


@pytest.fixture(scope="module")
def rows(manifest) -> pd.DataFrame:
    table = pd.read_csv(manifest, dtype=str)
    return table[(table.client == "a") & (table.split == "train")].reset_index(drop=True)


STYLES = jobs.styles_request(GRAMS, [0, 1, 2], 2, 0)
TRANSFER = jobs.transfer_request(GRAMS, HOW, [0, 1], [b"no Gram matrices"])


@pytest.mark.parametrize(
    ("job", "request_", "message"),
    [
        (
            measure_styles,
            changed(STYLES, flags=None),
            "a request without the flags style_images, vgg_weights",
        ),
        (
            measure_styles,
            changed(STYLES, flags={**STYLES.fields["flags"], "vgg_weights": "/a"}),
            "not at the sites",
        ),
        (
            measure_styles,
            changed(STYLES, flags={**STYLES.fields["flags"], "vgg_width": 0}),
            "--vgg-width 0: must be",
        ),
        (measure_styles, changed(STYLES, count="2"), "whose count is no whole number from 1 on"),
        (measure_styles, changed(STYLES, seed=-1), "whose seed is no whole number from 0 on"),
        (measure_styles, Message(STYLES.fields), "without the numbers of its rows"),
        (transfer_styles, TRANSFER, "damaged, or not an .npz"),
        (transfer_styles, changed(TRANSFER, files=2), "the coordinator sent 1 files of Gram matrices, expected 2"),
    ],
)
def test_requests_that_cannot_be(job, request_, message, rows, tmp_path):
    with pytest.raises(UserError, match=message):
        job(request_, rows, tmp_path)


def test_styles_of_a_class_that_no_image_was_named_of(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = measure_styles(STYLES, rows, tmp_path)
    (file,) = jobs.files_in(answer, 1, "site a")
    other = int(np.flatnonzero(rows.label == "normal")[0])
    with pytest.raises(UserError, match="there are styles of adenocarcinoma, and no image to give them to"):
        transfer_styles(jobs.transfer_request(GRAMS, HOW, [other], [file]), rows, tmp_path)
    with pytest.raises(UserError, match="site a sent 1 files of Gram matrices, expected 2"):
        jobs.files_in(answer, 2, "site a")
