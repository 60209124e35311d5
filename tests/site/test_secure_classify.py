"""`tffapps classify --aggregator secure` across three closed sites: the numbers of one machine, to its resolution."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.applications import record, working_in
from tests.conftest import largest_difference
from tests.site.conftest import PIXELS
from tests.site.federation import flags_for, serving
from tests.site.quartet import NAMES, draw
from tffapps import classify, cli
from tffapps.site import certs
from tffapps.use import facts
from tffapps.use.bundle import load

pytestmark = pytest.mark.slow
SMALL = [
    "--profile=smoke", f"--size={PIXELS}", "--batch=4", "--rounds=2", "--seeds=0", "--learning-rate=0.1",
    "--methods=fedavg", "--aggregator=secure",
]  # fmt: skip


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    root = tmp_path_factory.mktemp("three")
    certs.write(root / "certificates", NAMES[:3])
    images = draw(root / "images", NAMES[:3])
    with working_in(root), serving(root / "certificates", dict.fromkeys(NAMES[:3], images)) as members:
        yield root / "certificates", images, members


def test_the_numbers_of_one_machine(three, tmp_path, capsys):
    folder, images, members = three
    addresses = [member.address for member in members]
    with working_in(tmp_path):
        assert cli.main(classify.APP, [*SMALL, f"--data={images}", "--results=here"]) == 0
        assert cli.main(classify.APP, [*SMALL, *flags_for(folder, *addresses), "--results=there"]) == 0
        two = flags_for(folder, *addresses[:2])
        assert cli.main(classify.APP, [*SMALL, *two, "--results=two"]) == 2
        assert "across sites it takes at least 3 of them in a round" in capsys.readouterr().err.splitlines()[-1]
        alone = [*SMALL, "--methods=separate", *flags_for(folder, *addresses), "--results=alone"]
        assert cli.main(classify.APP, alone) == 2
        assert "separate trains at one site by itself, whose whole model" in capsys.readouterr().err.splitlines()[-1]
    here, there = (record(tmp_path / place / "classify", "fedavg-federation-seed0") for place in ("here", "there"))
    assert (there[0].pop("bytes_up") == 2 * here[0].pop("bytes_up")).all()  # masked, a number has eight bytes
    pd.testing.assert_frame_equal(there[0], here[0], atol=1e-4)
    assert largest_difference(there[1], here[1]) < 1e-5
    (bundle,) = tmp_path.glob("there/classify/runs/*/bundle")
    assert facts.About.of(load(bundle)).clients == [(name, 2, None) for name in NAMES[:3]]
    tables = [pd.read_csv(tmp_path / place / "classify/comparison.csv").aggregator[0] for place in ("here", "there")]
    assert "simulated" in tables[0] and "the coordinator has the sum alone" in tables[1]
