"""What a round hands out of its clients' images, for the ledger (`tffapps.privacy`)."""

from __future__ import annotations

from collections.abc import Sequence

from tffapps.errors import UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client
from tffapps.federated.method import Method
from tffapps.privacy.release import CLIENT, GAUSSIAN, RECORD, Release


def of_round(method: Method, aggregation: Aggregation, clients: Sequence[Client], number: int) -> list[Release]:
    """Of a round in which these clients take part; none where nothing is promised.

    Who is asked is a function of the seed (`Sampling`), so nobody is counted as hidden by not being asked.
    """
    what, found = f"update of round {number}", list[Release]()
    if aggregation.aggregator == "dp":
        names = tuple(client.name for client in clients)
        found.append(Release(what, GAUSSIAN, aggregation.dp_noise, unit=CLIENT, by=names))
    if method.record_dp:
        by_passes: dict[int, list[str]] = {}
        for client in clients:
            by_passes.setdefault(_passes(client), []).append(client.name)
        found += [
            Release(what, GAUSSIAN, method.record_dp, 1.0, passes * method.record_passes, RECORD, tuple(names))
            for passes, names in by_passes.items()
        ]
    return found


def _passes(client: Client) -> int:
    if client.passes is None:
        raise UserError(
            f"--record-dp: nobody knows how often {client.name} sees an image in a round, so that its cost is unknown;"
            " use --sampling plain, or another method"
        )
    return client.passes
