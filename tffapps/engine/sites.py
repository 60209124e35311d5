"""A federation across machines: the server's work here, each client's work at its own site.

Passes, folds and their order are those of the in-process engine, so the numbers are too; only what a client does in a
pass (`client_work`) is sent to its site, and all sites of a pass work at the same time. A site's answer is folded in
its client's turn and dropped. Which site a client's work goes to is written on its data (`AtSite`), or that it is done
here, as a server's on images of its own: work without such data goes nowhere. What clients keep from round to round
stays at their sites (`wire.states`); here there are words for it.
"""

import concurrent.futures
import contextlib
import functools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import tensorflow_federated as tff

from tffapps.engine import held, lowering, remote, site_jobs
from tffapps.engine.client_work import ClientWork
from tffapps.engine.folding import ClientValues, Fold
from tffapps.engine.in_process import ClientError, InProcessContext, Run
from tffapps.engine.judging import Judge, judge_in_office
from tffapps.engine.plan import Plan
from tffapps.engine.site_link import SiteLink
from tffapps.engine.summed_run import Numbering, SummedPass
from tffapps.engine.summing import Summing, summing_in_office
from tffapps.engine.values import HERE, AtClients, Spill, Struct, egest, ingest
from tffapps.errors import UserError
from tffapps.wire import certificate_checks, jobs, states
from tffapps.wire.certificates import Certificates
from tffapps.wire.channel import Unreachable
from tffapps.wire.messages import Message
from tffapps.wire.ways import open_ways


class SitesContext(InProcessContext):
    """A TFF execution context over the sites at these addresses, all of which must be there when it is made."""

    def __init__(self, addresses: Sequence[str], certificates: Certificates) -> None:
        super().__init__()
        # By identity; what a key is of is kept alive beside its value, so that the key cannot be reused.
        self._works: dict[tuple[int, int, bool], tuple[Plan, ClientWork]] = {}
        self._protos: dict[int, tuple[tff.Computation, Any]] = {}
        self._lock = threading.Lock()  # sites may be asked from several threads
        certificate_checks.check(certificates, "coordinator")
        self.sums = Numbering(certificates)
        self._meeting_points = contextlib.ExitStack()
        ways = open_ways(addresses, certificates, self._meeting_points)
        links = [SiteLink(way) for way in ways]
        self._all_links = links  # also while they are not connected
        try:
            failures = _at_once([link.connect for link in links])
            for error in failures:
                if error is not None:
                    raise error
            self.links = {link.name: link for link in links}
            for link in links:
                if self.links[link.name] is not link:
                    both = f"{link.address} and {self.links[link.name].address}"
                    raise UserError(f"--engine: {both} are both called {link.name}; give each site once")
        except BaseException:
            self.close()
            raise

    def at_site(self, name: str, computation: tff.Computation, *arguments: Any) -> Any:
        """A computation without placements, evaluated at a site."""
        with tff.framework.get_context_stack().install(_AtOneSite(self.link(name), self._remote(computation))):
            return computation(*arguments)

    def _remote(self, computation: tff.Computation) -> Any:
        with self._lock:
            if id(computation) not in self._protos:
                self._protos[id(computation)] = (computation, lowering.to_remote(computation.to_building_block()))
            return self._protos[id(computation)][1]

    def ask(self, name: str, request: Message) -> Message:
        """What a site makes of its own images when asked (`tffapps.wire.jobs`): waits for it, however long it takes.

        RunStopped if the site goes away meanwhile or cannot do it; the same request goes on with what is there.
        """
        return site_jobs.ask(self.link(name), request)

    def tell(self, name: str, line: str) -> None:
        """Puts a line into a site's log, if it is there."""
        with contextlib.suppress(ConnectionError, UserError, remote.WorkFailed):
            site_jobs.tell(self.link(name), line)

    def about(self, application: str, method: str, run: str) -> None:
        """Tells all sites what the work that follows is for: UserError if one of them does not allow it."""
        content = jobs.About(application, method, run).to_bytes()
        for error in _at_once([functools.partial(link.declare, content) for link in self.links.values()]):
            away = (ConnectionError, Unreachable)  # is told when it is back
            if error is not None and not isinstance(error, away):
                raise error

    def forget(self, handles: Mapping[str, Collection[str]]) -> None:
        """Lets sites, if they are there, remove what their clients kept; by their names."""
        for name, unneeded in handles.items():
            with contextlib.suppress(ConnectionError, UserError, remote.WorkFailed):
                self.link(name).call(states.FORGET, states.to_forget(unneeded))

    def log_heads(self) -> dict[str, str]:
        """Where each site's log of requests ends, in lines and a hash, of the sites that are there."""
        heads = {}
        for name, link in self.links.items():
            with contextlib.suppress(ConnectionError, UserError, remote.WorkFailed):
                heads[name] = _plain(link.call(jobs.HEAD, b""))
        return heads

    def link(self, name: str) -> SiteLink:
        if name not in self.links:
            raise UserError(f"{name}: no such site; there are {', '.join(self.links)}")
        return self.links[name]

    def client_work(self, plan: Plan, pass_number: int, raw: bool) -> ClientWork:
        key = (id(plan), pass_number, raw)
        if key not in self._works:
            self._works[key] = (plan, ClientWork(plan.steps, pass_number, raw))
        return self._works[key][1]

    def traffic(self) -> tuple[int, int]:
        """Bytes sent to all sites and received from them so far."""
        pairs = [link.traffic() for link in self.links.values()]
        return sum(sent for sent, _ in pairs), sum(received for _, received in pairs)

    def close(self) -> None:
        _at_once([link.close for link in self._all_links])
        self._meeting_points.close()

    def _run(self, plan: Plan, parameter: Any, clients: int, spill: Spill | None) -> Run:
        return _SitesRun(self, plan, parameter, clients, spill)


class _SitesRun(Run):
    """One invocation of one computation."""

    def __init__(self, context: SitesContext, plan: Plan, parameter: Any, clients: int, spill: Spill | None) -> None:
        super().__init__(context, plan, parameter, clients, spill)
        self._sites = context
        self._judge, self._summing = judge_in_office(), summing_in_office()
        self._links = [None if name == HERE else context.link(name) for name in _sites(parameter, clients)]
        # Before anyone begins: the work of the others would be for nothing.
        used = self._used()
        failures = dict(zip(used, _at_once([link.connect for link in used])))
        for client, link in enumerate(self._links):
            error = failures[link] if link is not None else None
            if error is not None:
                raise ClientError(client, error) from error

    def _used(self) -> list[SiteLink]:
        return list(dict.fromkeys(link for link in self._links if link is not None))

    def _fold_clients(self, number: int, folds: list[Fold], kept: list[str]) -> None:
        if not self._used():
            return super()._fold_clients(number, folds, kept)
        if self._summing is not None:
            return self._fold_sum(self._summing, number, folds, kept)
        work = self._sites.client_work(self._plan, number, self._judge is not None and self._judge.raw)
        answers = self._ask(work)
        if self._judge is not None:
            self._refuse(self._judge, work, answers)
        for client, link in enumerate(self._links):
            try:
                if link is None:
                    self._fold_client(number, client, folds, kept)
                else:
                    self._fold_answer(client, work, answers[client].result(), folds, kept)
            except Exception as error:
                concurrent.futures.wait(answers)  # sites do one thing at a time
                raise ClientError(client, error) from error
            answers[client] = concurrent.futures.Future()  # drops what was folded
            answers[client].set_result(None)

    def _fold_sum(self, summing: Summing, number: int, folds: list[Fold], kept: list[str]) -> None:
        """As if one client had answered for all."""
        if number or kept:
            raise NotImplementedError("a sum over sites of what clients keep, or hand in several times")
        work = self._sites.client_work(self._plan, number, raw=True)
        everyone = SummedPass(summing, work, self._links, self._sites.sums)
        answer = everyone.answer(self._ask(work, everyone))
        self._fold_answer(0, work, answer, folds, kept)

    def _fold_answer(self, client: int, work: ClientWork, answer: Any, folds: list[Fold], kept: list[str]) -> None:
        values = ClientValues(self, client)
        values.given({name: answer[place] for name, place in work.raw.items()})
        for fold in folds:
            fold.add(values.evaluate(fold.value) if work.is_raw else work.folded(fold.name, answer))
        for name in kept:
            self._keep(name, values[name] if work.is_raw else work.kept(name, answer))

    def _refuse(self, judge: Judge, work: ClientWork, answers: list[concurrent.futures.Future[Any]]) -> None:
        """Asks the judge about all answers; those of sites that failed are none."""
        concurrent.futures.wait(answers)
        good = {
            client: [part for part in work.named(answers[client].result()) if not held.any_held(part[1])]
            for client, link in enumerate(self._links)
            if link is not None and answers[client].exception() is None
        }
        wrong = {
            client: f"{link.address}: refused what site {link.name} answered: {why}"
            for client, why in judge(good).items()
            if (link := self._links[client]) is not None
        }
        if wrong:
            raise ClientError(next(iter(wrong)), UserError(next(iter(wrong.values()))), wrong)

    def _ask(self, work: ClientWork, everyone: SummedPass | None = None) -> list[concurrent.futures.Future[Any]]:
        """Sends every client's work to its site; clients of one site come one after the other.

        Of a client whose work is done here there is nothing to wait for.
        """
        answers: list[concurrent.futures.Future[Any]] = [concurrent.futures.Future() for _ in range(self._clients)]
        for client, link in enumerate(self._links):
            if link is None:
                answers[client].set_result(None)
        anyone = ClientValues(self, 0)
        same = {
            index: remote.serialized(anyone.evaluate(each.block), each.type)
            for index, each in enumerate(work.inputs)
            if each.same_for_all
        }

        if everyone is not None:
            everyone.prepare(same)
        kind = work.type.result if everyone is None else everyone.type

        def attend(link: SiteLink, pending: list[tuple[int, concurrent.futures.Future[Any]]]) -> None:
            for client, answer in pending:
                try:
                    values = ClientValues(self, client)
                    own = {
                        index: values.evaluate(each.block)
                        for index, each in enumerate(work.inputs)
                        if index not in same
                    }
                    given = [
                        same[index] if index in same else remote.serialized(own[index], each.type, link.name)
                        for index, each in enumerate(work.inputs)
                    ]
                    order = None if everyone is not None else _order(work, own, given)
                    found = link.evaluate(work.computation, remote.struct(given, order), _kind(kind, order))
                    answer.set_result(found if order is None else held.read_handles(found, order.hold, link.name))
                except BaseException as error:
                    answer.set_exception(error)

        for link in self._used():
            mine = [(client, answers[client]) for client in range(self._clients) if self._links[client] is link]
            threading.Thread(target=attend, args=(link, mine), daemon=True).start()
        return answers


def _order(work: ClientWork, values: dict[int, Any], given: list[Any]) -> states.Order | None:
    """What a site is to hold of its answer, if its client keeps anything."""
    kept, arrays = work.kept_input, work.kept_arrays
    if kept is None or arrays is None:
        return None
    if held.any_held(values[kept]):
        return states.Order(arrays)
    before = sum(map(remote.arrays_in, given[:kept]))
    return states.Order(arrays, range(before, before + remote.arrays_in(given[kept])))


def _kind(kind: tff.Type, order: states.Order | None) -> tff.Type:
    return kind if order is None else held.with_handles(kind, order.hold)


class _AtOneSite(tff.framework.SyncContext):
    """Sends one computation without placements to one site."""

    def __init__(self, link: SiteLink, computation: Any) -> None:
        self._link, self._computation = link, computation

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        parameter, result = comp.type_signature.parameter, comp.type_signature.result
        argument = (
            None if parameter is None else remote.serialized(ingest(arg, parameter, set()), parameter, self._link.name)
        )
        return egest(self._link.evaluate(self._computation, argument, result), result)


def _sites(parameter: Any, clients: int) -> list[str]:
    """Where each client's work is to be done: what is written on its data."""
    sites: list[set[str]] = [set() for _ in range(clients)]
    for argument in _at_clients(parameter):
        for client, site in enumerate(argument.sites):
            if site is not None:
                sites[client].add(site)
    for client, names in enumerate(sites):
        if len(names) != 1:
            several = ", ".join(sorted(name or "here" for name in names))
            what = f"data of several sites: {several}" if names else "no data that says at which site"
            raise ValueError(f"client {client} has {what}")
    return [next(iter(names)) for names in sites]


def _at_clients(value: Any) -> Iterator[AtClients]:
    if isinstance(value, AtClients):
        yield value
    elif isinstance(value, Struct):
        for element in value:
            yield from _at_clients(element)


def _plain(content: bytes) -> str:
    return remote.one_line(content[:100].decode(errors="replace"))


def _at_once(actions: Sequence[Callable[[], None]]) -> list[Exception | None]:
    """Does all of them at the same time; what each ended with."""

    def result(action: Callable[[], None]) -> Exception | None:
        try:
            action()
        except Exception as error:
            return error
        return None

    if not actions:
        return []
    with concurrent.futures.ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(result, actions))
