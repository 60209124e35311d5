"""What a protection does not cover is refused by name, before anything is computed, in every system."""

import pytest

from tffapps import cli, systems
from tffapps.errors import UserError

REFUSED = {
    "fedsda": [
        ("--sides fedsda --aggregator dp", "moments of stains and the stain model"),
        ("--sides none,ccst --aggregator secure", "styles that clients send and the decoder"),
        ("--sides amp-norm --record-dp 1", "mean amplitudes"),
        ("--sides none --methods fedfa --record-dp 1", "fedfa"),
    ],
    "fnst": [("--aggregator secure", "Gram matrices"), ("--methods fnst --record-dp 1", "Gram matrices")],
    "fedtransfer": [("--aggregator dp", "generators"), ("--methods fedtransfer --aggregator secure", "generators")],
    "fedstyle": [
        ("--methods fpl --aggregator secure", "what fpl gathers"),
        ("--methods fedstyle --record-dp 1", "fedstyle"),
    ],
    "plfl": [
        ("--methods plfl --aggregator dp", "counts of pseudo-labels"),
        ("--methods fssfl --record-dp 1", "counts of confident images"),
        ("--methods freematch --aggregator dp", "counts of confident images"),
    ],
    "classify": [
        ("--reestimate --aggregator dp", "--reestimate"),
        ("--methods fixmatch --labelled-share 0.5 --aggregator dp", "counts of confident images"),
        ("--methods fedavg --retrain ccvr --aggregator secure", "means and covariances"),
        ("--loss logit-adjusted --aggregator secure", "numbers of images of each class"),
        ("--methods scaffold --aggregator dp", "what scaffold gathers"),
        ("--methods ditto --record-dp 1", "ditto"),
        ("--methods fedavg --loss fedlc --record-dp 1", "counts for other images"),
        ("--methods fedavg --sampling balanced --record-dp 1", "any number of times"),
        ("--methods scaffold --aggregator secure --engine h:1 --cert a --key b --ca c", "keep, which travels"),
    ],
}
ALLOWED = {
    "fedsda": ["--sides none --aggregator dp", "--sides none --methods fedavg --record-dp 1", ""],
    "fnst": ["--methods fedavg,repeated --aggregator secure", "--methods fedavg,repeated --record-dp 1", ""],
    "fedtransfer": ["--methods fedavg --aggregator dp", ""],
    "fedstyle": ["--methods fedavg,fedstyle,fedproto --aggregator dp", "--methods fedprox --record-dp 1", ""],
    "plfl": ["--methods csfl --aggregator dp", "--methods plfl --aggregator secure", ""],
    "classify": [
        "--aggregator dp",
        "--methods scaffold,fedsam,separate --record-dp 1",
        "--reestimate --aggregator secure",
    ],
}


@pytest.mark.parametrize("system", REFUSED)
def test_stages_are_covered_or_refused_in_one_line(system):
    app = systems.find(system)
    for arguments, named in REFUSED[system]:
        with pytest.raises(UserError, match=named) as refused:
            cli.parse(app, arguments.split())
        assert "it does not cover" in str(refused.value) and "\n" not in str(refused.value)
    for arguments in ALLOWED[system]:
        cli.parse(app, arguments.split())
