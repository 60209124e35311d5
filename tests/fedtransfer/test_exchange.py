import shutil

import numpy as np
import pandas as pd
import pytest

from models.pix2pix import Architecture, build
from preprocessing import generator_files, pix2pix
from tests.applications import working_in
from tffapps import cli
from tffapps.errors import UserError
from tffapps.federated.cohort import stream
from tffapps.fedtransfer import APP, data
from tffapps.fedtransfer.dispatch import dispatch
from tffapps.fedtransfer.exchange import exchange
from tffapps.fedtransfer.painter import Painter
from tffapps.fedtransfer.placement import Here
from tffapps.files import as_name

ARCHITECTURE = Architecture("unet", (32, 32), 2, 1)


@pytest.fixture(scope="module")
def placement(place):
    with working_in(place):
        return Here(cli.parse(APP, ["--profile", "smoke"]))


@pytest.fixture(scope="module")
def tiles(placement):
    return placement.folds()[0]


@pytest.fixture(scope="module")
def made(place, placement, tiles):
    with working_in(place):
        return exchange(placement, tiles, "float32", seed=0)


def trained(placement, tiles, client):
    """The folder of a client's generator, of seed 0."""
    return placement.painter.trained(client, tiles.part("train", client), stream(0, 0, tiles.clients.index(client)))


def test_every_label_is_painted_in_the_others_look(made, tiles, here, placement):
    assert made.table.groupby(["client", "sender"]).size().to_dict() == {
        ("austenite", "iron"): 8, ("iron", "austenite"): 8,
    }  # fmt: skip
    for client in tiles.clients:
        rows = made.table[made.table.client == client]
        assert list(rows["mask"]) == list(tiles.part("train", client)["mask"])
    rows = made.table[made.table.client == "iron"]
    generator = generator_files.load(trained(placement, tiles, "austenite") / "generator.npz")
    np.testing.assert_array_equal(data.images_of(rows, 1), pix2pix.generate(generator, data.masks_of(rows)))


def test_what_training_leaves(placement, made, tiles, here):
    folder = trained(placement, tiles, "iron")
    assert (folder / "samples" / "epoch-0002.png").exists() and not (folder / "checkpoint.npz").exists()
    assert len(pd.read_csv(folder / "losses.csv")) == 2


def test_the_seed_the_precision_and_the_pairs_decide(placement, made, tiles, here):
    assert exchange(placement, tiles, "float32", seed=0).key == made.key
    small = exchange(placement, tiles, "int8", seed=0)
    assert small.key != made.key and (small.precision, small.seed, small.fold) == ("int8", 0, 0)
    sizes = [{each.bytes for each in one.deliveries} for one in (small, made)]
    assert max(sizes[0]) < 0.3 * min(sizes[1])
    one, other = (data.images_of(each.table, 1).astype(int) for each in (small, made))
    assert 0 < np.abs(one - other).mean() < 2


def test_fresh_reaches_the_training_of_generators():
    assert Painter.of(cli.parse(APP, ["--profile", "smoke", "--fresh"])).fresh
    assert not Painter.of(cli.parse(APP, ["--profile", "smoke"])).fresh


def test_names_of_clients_that_no_file_can_have(tmp_path):
    clients = ["a/b", "ä.c"]
    handed_in(tmp_path, [as_name(client) for client in clients])
    deliveries = dispatch(tmp_path, clients, ARCHITECTURE, "float32")
    assert [(each.sender, each.receiver) for each in deliveries] == [("a/b", "ä.c"), ("ä.c", "a/b")]


def handed_in(folder, names=("a", "b", "c"), precision="float32"):
    (folder / "sent").mkdir(parents=True)
    for seed, name in enumerate(names):
        generator_files.save(folder / "sent" / f"{name}.npz", build(ARCHITECTURE, seed), precision)
    return folder


def test_everyone_receives_all_but_its_own(tmp_path):
    found = dispatch(handed_in(tmp_path), ["a", "b", "c"], ARCHITECTURE, "float32")
    assert {(each.sender, each.receiver) for each in found} == {
        (one, other) for one in "abc" for other in "abc" if one != other
    }
    for each in found:
        assert each.file.read_bytes() == (tmp_path / "sent" / f"{each.sender}.npz").read_bytes()
        assert each.file.parent.name == each.receiver and each.bytes == each.file.stat().st_size


def spoil_weights(sent):
    path = sent / "b.npz"
    with np.load(path) as content:
        arrays = dict(content)
    arrays["up0.bias"] = np.full_like(arrays["up0.bias"], np.nan)
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda sent: (sent / "b.npz").unlink(), "no generator of b"),
        (lambda sent: shutil.copy(sent / "b.npz", sent / "d.npz"), r"d\.npz: handed in by nobody"),
        (lambda sent: (sent / "b.npz").write_bytes(b"code"), r"b sent what the server does not take: .*b\.npz"),
        (spoil_weights, "up0.bias holds values that are not finite"),
        (
            lambda sent: generator_files.save(sent / "b.npz", build(Architecture("unet", (32, 32), 4, 1))),
            "another generator: unet of width 4 for 32x32 pixels, 1 channels; expected unet of width 2",
        ),
        (
            lambda sent: generator_files.save(sent / "b.npz", build(ARCHITECTURE), "int8"),
            "its precision is 'int8', expected float32",
        ),
    ],
)  # fmt: skip
def test_what_the_server_does_not_take(tmp_path, spoil, complaint):
    spoil(handed_in(tmp_path) / "sent")
    with pytest.raises(UserError, match=complaint):
        dispatch(tmp_path, ["a", "b", "c"], ARCHITECTURE, "float32")
    assert not (tmp_path / "received").exists()
