"""One sum over sites: its steps, carried between the sites by the coordinator."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tffapps.engine.remote import WorkFailed
from tffapps.engine.site_link import SiteLink
from tffapps.errors import UserError
from tffapps.secure_sums.agreement import Agreement, Refused
from tffapps.secure_sums.collector import CheatedBy, Collector
from tffapps.secure_sums.form import Form, Total
from tffapps.secure_sums.identity import Verdict
from tffapps.wire import sums


class SumFailed(RuntimeError):
    """It came to nothing; `reasons` says whose doing that is, if it is anybody's."""

    def __init__(self, why: str, reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.reasons = dict(reasons or {})


class SiteSum:
    """Of these sites' answers to a `computation`, given by its hash; without an `agreement` they are not masked."""

    def __init__(
        self, links: Sequence[SiteLink], form: Form, computation: str, agreement: Agreement | None, verdict: Verdict
    ) -> None:
        self._links = {link.name: link for link in links}
        self._form, self._computation, self._agreement = form, computation, agreement
        self._collector = None if agreement is None else Collector(agreement, verdict)
        self.cheated: dict[str, str] = {}

    def prepare(self) -> None:
        """Everything before the sites begin to work."""
        if self._agreement is not None and self._collector is not None:
            offered = {"agreement": self._agreement.to_fields()}
            with _blaming():
                adverts = self._collector.adverts(self._all("advertise", offered))
                dealt = self._collector.dealt(self._all("deal", {"adverts": adverts}))
            self._all("shares", {}, {name: {"dealt": shares} for name, shares in dealt.items()})
        masked = self._agreement is not None
        self._all("form", {"form": self._form.to_fields(), "computation": self._computation, "masked": masked})

    def total(self, sent: Mapping[str, np.ndarray]) -> Total:
        """Of what sites have sent, after the worker's answer was made into numbers there."""
        total = np.zeros(self._form.size, np.uint64)
        for numbers in sent.values():
            total += numbers.view(np.uint64)
        if self._collector is not None:
            with _blaming():
                total += self._correction(self._collector, list(sent)).view(np.uint64)
        try:
            return self._form.read(total.view(np.int64), len(sent))
        except Refused as error:
            whose = "by masks nobody can tell whose" if self._collector else "of sites"
            raise SumFailed(f"the sum cannot be right ({error}); {whose} numbers are wrong") from None

    def _correction(self, collector: Collector, sent: list[str]) -> np.ndarray:
        survivors = collector.survivors(sent)
        said, gone = self._ask("confirm", {"survivors": survivors}, survivors)
        signatures = collector.confirmed({name: answer.get("signature") for name, answer in said.items()})
        shares, later = self._ask("unmask", {"signatures": signatures}, list(signatures))
        while True:
            if len(shares) < collector.agreement.threshold:
                missing = {**gone, **later, **self.cheated}
                raise SumFailed(f"only {len(shares)} sites help to take the masks off", missing)
            try:
                return collector.correction(shares)
            except CheatedBy as error:
                if error.name not in shares:
                    raise
                del shares[error.name]  # what it sent is in the sum: its masks are taken off by the others
                self.cheated[error.name] = f"{error}".removeprefix(f"{error.name}: ")

    def _all(
        self, step: str, fields: dict[str, Any], own: Mapping[str, dict[str, Any]] | None = None
    ) -> dict[str, dict[str, Any]]:
        said, failed = self._ask(step, fields, self._links, own)
        if failed:
            raise SumFailed(next(iter(failed.values())), failed)
        return said

    def _ask(
        self, step: str, fields: dict[str, Any], names: Iterable[str], own: Mapping[str, dict[str, Any]] | None = None
    ) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """What sites say, and why others say nothing; all at the same time."""
        which = (
            {} if self._agreement is None else {"session": self._agreement.session, "number": self._agreement.number}
        )

        def ask(name: str) -> dict[str, Any]:
            request = {"step": step, **which, **fields, **(own or {}).get(name, {})}
            return sums.from_bytes(self._links[name].call(sums.SUM, sums.to_bytes(request)))

        said, failed = {}, {}
        with concurrent.futures.ThreadPoolExecutor(len(self._links)) as pool:
            for name, answer in [(name, pool.submit(ask, name)) for name in names]:
                try:
                    said[name] = answer.result()
                except (ConnectionError, WorkFailed, UserError, ValueError) as error:
                    failed[name] = str(error)
        return said, failed


class _blaming:
    """Around what is made of sites' words: what is refused is one site's doing, or nobody's."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, CheatedBy):
            raise SumFailed(str(error), {error.name: str(error).removeprefix(f"{error.name}: ")}) from None
        if isinstance(error, Refused):
            raise SumFailed(str(error)) from None
