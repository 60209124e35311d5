"""How a TFF computation is executed. `open_engine` is the one function to choose.

with open_engine("in-process"):
    any_tff_computation(...)

An engine is "in-process", "worker", or the addresses of sites, as in "a.example:9000,b.example:9000"; a site that
dials out is "name@host:port", where host and port are this machine's.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tffapps.engine import devices as several
from tffapps.errors import UserError

if TYPE_CHECKING:
    from tffapps.engine.context import EngineContext
    from tffapps.wire.certificates import Certificates
    from tffapps.wire.messages import Message

NAMES = ("in-process", "worker")


@dataclasses.dataclass(frozen=True)
class Engine:
    """An open engine: what `open_engine` gives for the length of its block."""

    name: str
    context: EngineContext

    @property
    def sites(self) -> dict[str, dict[str, Any]]:
        """The sites by name, in the order of the flag, and what each has published; none on this machine's engines."""
        return {name: link.description for name, link in self.context.links.items()}

    def at_site(self, name: str, computation: Any, *arguments: Any) -> Any:
        """A computation without placements, evaluated at a site; where there are no sites, here."""
        return self.context.at_site(name, computation, *arguments)

    def ask(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """The sites' answers to requests (`tffapps.wire.jobs`); all of them work at the same time."""
        with concurrent.futures.ThreadPoolExecutor(max(1, len(requests))) as pool:
            return dict(zip(requests, pool.map(self.context.ask, requests, requests.values())))

    def tell(self, names: Iterable[str], line: str) -> None:
        """Puts a line into the logs of those of the names that are sites'."""
        for name in names:
            if name in self.context.links:
                self.context.tell(name, line)

    def about(self, application: str, method: str, run: str) -> None:
        """Tells the sites, if there are any, what the work that follows is for: a site's policy may refuse it."""
        self.context.about(application, method, run)

    def forget(self, kept: Iterable[Sequence[Any]]) -> None:
        """Lets the sites remove what clients kept there; `kept` is what a run has of each client."""
        from tffapps.engine.held import by_site

        self.context.forget(by_site(kept))

    def log_heads(self) -> dict[str, str]:
        """By site: how many lines its log of requests has, and the hash of the last."""
        return self.context.log_heads()

    def peak_memory(self) -> int:
        """Largest resident size so far of every process that computes, in bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + self.context.peak_memory()


def addresses(name: str) -> list[str]:
    """Of an engine's name, the addresses of the sites; none for an engine of this machine."""
    return [part.strip() for part in name.split(",") if part.strip()] if ":" in name else []


def check_name(name: str, certificates: Certificates | None = None) -> None:
    """Refuses an unknown engine before TensorFlow is imported."""
    sites = addresses(name)
    if sites:
        from tffapps.wire.address import parse_site

        for number, site in enumerate(sites):
            parse_site("--engine", site)
            if site in sites[:number]:
                raise UserError(f"--engine {name}: {site} is there twice; give each site once")
        if certificates is None or not all(certificates.paths()):
            raise UserError(f"--engine {name}: sites ask who is calling; give --cert, --key and --ca")
    elif name not in NAMES:
        raise UserError(f"--engine {name}: unknown; choose one of {', '.join(NAMES)}, or HOST:PORT,… of the sites")


def check_devices(name: str, devices: str) -> None:
    """Refuses what is no number of devices, and several where clients do not run in this process."""
    several.check(devices)
    if devices != several.ONE and name != "in-process":
        where = "at the sites" if addresses(name) else "in TFF's worker"
        raise UserError(
            f"--devices {devices}: with --engine {name} clients run {where}; leave it out, or use in-process"
        )


@contextlib.contextmanager
def open_engine(
    name: str = "in-process", certificates: Certificates | None = None, devices: str = several.ONE
) -> Iterator[Engine]:
    """Makes an engine TFF's context for the length of the `with` block and ends it afterwards.

    Args:
      name: "in-process", "worker", or the addresses of sites.
      certificates: the coordinator's, which sites are shown.
      devices: how many clients run side by side, each on a device of its own: a number, or "all"; in-process only.
    """
    check_name(name, certificates)
    check_devices(name, devices)
    places = several.set_up(devices)
    import tensorflow_federated as tff

    replace_default_context()
    context = _context(name, certificates, places)
    try:
        with tff.framework.get_context_stack().install(context):
            yield Engine(name, context)
    finally:
        context.close()


def _context(name: str, certificates: Certificates | None, devices: tuple[str, ...]) -> EngineContext:
    if addresses(name):
        from tffapps.engine.sites import SitesContext

        assert certificates is not None
        return SitesContext(addresses(name), certificates)
    if name == "worker":
        from tffapps.engine.worker import WorkerContext

        return WorkerContext()
    from tffapps.engine.in_process import InProcessContext

    return InProcessContext(devices=devices)


@functools.cache
def replace_default_context() -> None:
    """TFF's own, made when it is imported, starts a worker when it is used, and complains if it is there at the end."""
    import tensorflow_federated as tff

    from tffapps.engine.in_process import InProcessContext

    tff.framework.set_default_context(InProcessContext())
