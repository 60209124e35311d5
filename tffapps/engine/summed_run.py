"""A pass over the clients of which the coordinator sees a sum alone (`summing`)."""

from __future__ import annotations

import concurrent.futures
import math
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.engine import remote, shared_work
from tffapps.engine.client_work import ClientWork
from tffapps.engine.in_process import ClientError
from tffapps.engine.site_link import SiteLink
from tffapps.engine.site_sum import SiteSum, SumFailed
from tffapps.engine.summing import Summing
from tffapps.engine.values import pack
from tffapps.errors import RunStopped
from tffapps.secure_sums.agreement import Agreement, Refused
from tffapps.secure_sums.form import BITS, Form, Total
from tffapps.wire import sums
from tffapps.wire.certificates import Certificates


class Numbering:
    """Of the sums of one coordinator."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates, self._session, self._number = certificates, secrets.token_hex(16), 0

    def agreement(self, members: Sequence[str], form: Form, work: str) -> Agreement:
        self._number += 1
        return Agreement(self._session, self._number, tuple(sorted(members)), form.size, BITS, work)

    def why_not(self, chain: Any, name: str) -> str:
        return sums.why_not_a_site(self._certificates, chain, name)


class SummedPass:
    """Of clients, each at a site of its own."""

    def __init__(
        self, summing: Summing, work: ClientWork, links: Sequence[SiteLink | None], numbering: Numbering
    ) -> None:
        self._summing, self._work = summing, work
        here = [link for link in links if link is not None]
        if len(here) < len(links) or len({link.name for link in here}) < len(here):
            raise RunStopped("a sum over sites takes one client at each of them, and none with the coordinator")
        self._links = here
        self._form = summing.form(work.raw_fields(), len(here))
        self._numbering = numbering
        self.type = tff.TensorType(np.int64, [self._form.size])  # what each site sends

    def prepare(self, same: dict[int, Any]) -> None:
        """`same` are the arguments that all clients have, as they are sent."""
        agreement, computation = None, shared_work.hashed(remote.computation_value(self._work.computation))
        if self._summing.masked:
            shared = [
                (index, shared_work.hashed(value)) for index, value in same.items() if not shared_work.is_own(value)
            ]
            work = shared_work.digest(computation, shared, self._form.to_fields())
            try:
                agreement = self._numbering.agreement([link.name for link in self._links], self._form, work)
            except Refused as error:
                raise RunStopped(str(error)) from None
        self._sum = SiteSum(self._links, self._form, computation, agreement, self._numbering.why_not)
        self._blaming(self._sum.prepare)

    def answer(self, answers: Sequence[concurrent.futures.Future[Any]]) -> Any:
        """What one client would have answered that stands for all of them."""
        concurrent.futures.wait(answers)
        lost = {client: str(one.exception()) for client, one in enumerate(answers) if one.exception() is not None}
        present = [client for client in range(len(answers)) if client not in lost]
        sent = {self._links[client].name: answers[client].result().numpy() for client in present}
        if not sent:
            raise self._error(lost)
        self._summing.total = total = self._blaming(lambda: self._sum.total(sent), lost)
        places = {link.name: client for client, link in enumerate(self._links)}
        cheated = {places[name]: f"{why}; its numbers are in the sum" for name, why in self._sum.cheated.items()}
        self._summing.present, self._summing.lost = present, {**lost, **cheated}
        return _packed(total, self._work.type.result)

    def _blaming(self, action: Any, lost: dict[int, str] | None = None) -> Any:
        try:
            return action()
        except SumFailed as error:
            places = {link.name: client for client, link in enumerate(self._links)}
            reasons = {**(lost or {}), **{places[name]: why for name, why in error.reasons.items()}}
            if not reasons:
                raise RunStopped(str(error)) from None
            raise self._error(reasons) from None

    def _error(self, reasons: dict[int, str]) -> ClientError:
        named = {client: f"{self._links[client].address}: {why}" for client, why in reasons.items()}
        client, why = next(iter(named.items()))
        return ClientError(client, RuntimeError(why), named)


def _packed(total: Total, kind: tff.Type) -> Any:
    values, tensors = total.values, []
    for leaf in tff.structure.flatten(kind):
        count = math.prod(leaf.shape)
        tensors.append(tf.constant(values[:count].reshape(leaf.shape).astype(leaf.dtype)))
        values = values[count:]
    return pack(kind, iter(tensors))
