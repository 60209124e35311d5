"""Whether all that leaves clients is covered by the protections that a command asks for: `cli` asks, before anything.

What a system hands out beside updates it declares itself (`App.stages`); here is what any system may.
"""

from __future__ import annotations

from collections.abc import Iterator

from tffapps.app import App, Common
from tffapps.federated.method import Method
from tffapps.federated.methods import EMBEDDING_METHODS, FEW_LABELS, METHODS
from tffapps.privacy import stages
from tffapps.privacy.stages import DP, RECORD_DP, SECURE, Stage, of_flag
from tffapps.settings import Flags

_COUNTS_ALONE = ("scaffold", "feddyn")  # what they gather is each client's number of images, which reports hold too
_BY_COUNTS = ("balanced", "fedlc")
COMMON = (
    of_flag("reestimate", True, "the statistics that clients send for --reestimate", (SECURE,)),
    of_flag("loss", "logit-adjusted", "the numbers of images of each class that clients send for this loss"),
    *(
        of_flag("loss", name, "a loss by which an image counts for other images too", (DP, SECURE))
        for name in _BY_COUNTS
    ),
    of_flag("retrain", "ccvr", "the means and covariances of features that clients send for --retrain ccvr"),
    of_flag("sampling", "balanced", "images that are drawn any number of times", (DP, SECURE)),
)


def check(app: App, flags: Flags) -> None:
    """A UserError names the first stage that is not covered."""
    stages.check((*app.stages, *COMMON, *_of_methods(flags)), flags)


def _of_methods(flags: Flags) -> Iterator[Stage]:
    for name in flags[Common].methods:
        method = {**METHODS, **EMBEDDING_METHODS, **FEW_LABELS}.get(name)
        if method is not None:
            yield from _of_method(name, method, flags[Common].across_sites)


def _of_method(name: str, method: type[Method], across_sites: bool) -> Iterator[Stage]:
    def stage(what: str, *covered: str) -> Stage:
        return Stage(what, f"--methods {name}", lambda flags: True, covered)

    if method.gathered_specs is not Method.gathered_specs:
        seen = (SECURE,) if name in _COUNTS_ALONE else ()
        yield stage(f"what {name} gathers from each client by itself", RECORD_DP, *seen)
    keeps = method.first_kept is not Method.first_kept or not method.sends_weights
    if across_sites and keeps:
        yield stage(f"what clients of {name} keep, which travels by the coordinator", RECORD_DP)
    if not method.all_labelled:
        yield stage(f"the counts of confident images that clients of {name} report", SECURE)
    if not method.record_passes:
        yield stage(f"what clients of {name} send or train with", DP, SECURE)
