"""What rounds.csv says of bytes is what crosses: counted by somebody on the wire, who knows nothing of the project."""

from __future__ import annotations

import contextlib

import pytest

from tests.site.conftest import files
from tests.site.federation import listening_in
from tests.site.quartet import NAMES, at_home, dense_task
from tffapps.engine import open_engine
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.scaffold import Scaffold

CASES = {
    "kept": (Scaffold, {}), "compressed": (FedAvg, {"aggregator": "compressed"}),
    "secure": (FedAvg, {"aggregator": "secure"}), "dp": (FedAvg, {"aggregator": "dp"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    with at_home(tmp_path_factory, NAMES[:3]) as found:
        yield found


@pytest.fixture(scope="module")
def wide():
    """4 MB of weights, beside which the pipelines are little."""
    return dense_task(5000)


def test_what_is_said_crosses(sites, wide):
    weights = wide.model.get_weights()
    with contextlib.ExitStack() as stack:
        taps = [stack.enter_context(listening_in(sites.folder, member)) for member in sites.members]
        engine = stack.enter_context(
            open_engine(",".join(address for address, _, _ in taps), files(sites.folder, "coordinator"))
        )
        everyone = sites.clients(engine)
        for name, (method, how) in CASES.items():
            round_ = build_round(wide, method(learning_rate=0.001), Aggregation(**how), 3, across_sites=True)
            state, kept = round_.start(weights), {}
            for number in (1, 2):  # with the first comes the computation, and what clients begin with
                had, before = kept, [sum(len(tap[way]) for tap in taps) for way in (1, 2)]
                outcome = play(
                    round_, state, everyone, number, 3, None,
                    lambda place, had=had, round_=round_: had.get(place) or round_.first_kept(weights),
                )  # fmt: skip
                state, kept = outcome.state, {place: get() for place, get in outcome.kept.items()}
            down, up = (sum(len(tap[way]) for tap in taps) - was for way, was in zip((1, 2), before))
            assert down == pytest.approx(round_.bytes_down(3), rel=0.05), name
            assert up == pytest.approx(round_.bytes_up(3), rel=0.05), name
