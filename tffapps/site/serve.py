"""`python -m tffapps.site serve`: this site's data, TFF's worker over it, and a door that asks for a certificate."""

import contextlib
import errno
import logging
import socket
import subprocess
import sys
from pathlib import Path

from tffapps import cache_lock
from tffapps.engine import supervisor
from tffapps.errors import RunStopped, UserError
from tffapps.site import confinement, data
from tffapps.site import policy as policies
from tffapps.site.budget import Budget
from tffapps.site.gatehouse import Gatehouse
from tffapps.site.guarded_worker import GuardedWorker
from tffapps.site.mailbox import Mailbox
from tffapps.site.summing import Sums
from tffapps.wire import certificate_checks
from tffapps.wire.address import parse_address
from tffapps.wire.certificates import Certificates

_SECONDS_BETWEEN_LOOKS = 0.2


def serve(
    source: Path,
    name: str,
    listen: str,
    certificates: Certificates,
    *,
    coordinator: tuple[str, ...] = (),
    allow_open: bool = False,
    prepares: bool = True,
    confined: bool = True,
    policy: Path | None = None,
) -> None:
    """Serves until it is interrupted. What can be wrong is found before the port answers.

    Unless it `prepares` what the coordinator asks for, it only takes part in rounds; unless `confined`, there is no
    sandbox. `coordinator` are fingerprints of the certificates that it lets in; without, it lets in whoever has one
    that is made for the coordinator. `policy` is a file; without, the default.
    """
    allowed = policies.default() if policy is None else policies.read(policy)
    if confined:
        confinement.check()
    host, port = parse_address("--listen", listen)
    certificate_checks.check(certificates, "site", name)
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(cache_lock.used())  # what it has made lies there, for rounds to read
        table = data.load(source, name, notes)
        for note in notes:
            print(note, file=sys.stderr)
        listener = stack.enter_context(_bind(listen, host, port))
        bound = listener.getsockname()
        table, description = data.readable(table, name, source)
        _open(listen, listener)
        folder = stack.enter_context(data.working_folder(table, description))
        logging.basicConfig(format=supervisor.log_format(f"site {name}"), datefmt=supervisor.LOG_TIME, level="INFO")
        gatehouse = stack.enter_context(Gatehouse(allowed, folder, description))
        prepares = prepares and not allowed.hides_updates  # what a job makes is neither noised nor masked
        mailbox = stack.enter_context(
            contextlib.closing(
                Mailbox(folder, table, description, willing=prepares, confined=confined, permit=gatehouse.permits.job)
            )
        )
        budget = Budget(confinement.home_of(name), name, allowed.epsilon, allowed.delta)
        sums = Sums(name, certificates, budget, allowed.only_masked)
        worker = GuardedWorker(
            listener, name=f"site {name}", folder=folder, certificates=certificates,
            guards=[*gatehouse.guards, sums],  # in this order: what leaves is no update any more
            own={**mailbox.methods, **gatehouse.permits.methods, **sums.methods}, journal=gatehouse.log,
            coordinator=coordinator, allow_open=allow_open, log=sys.stderr, remove=folder,
            sandbox=confinement.of_the_worker(folder, name) if confined else None,
        )  # fmt: skip
        try:
            shown = f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"
            kept = "closed to the network" if worker.closed else "OPEN TO THE NETWORK"
            kept += "" if confined else ", WITHOUT A SANDBOX"
            print(f"site {name}: {len(table)} images, listening on {shown}, worker {kept}", flush=True)
            status = _wait(worker, mailbox)
        finally:
            worker.stop()
    raise RunStopped(f"the supervisor of the worker ended (status {status}); run the same command again")


def _wait(worker: GuardedWorker, mailbox: Mailbox) -> int:
    """Sees to requests until the worker's supervisor ends."""
    while True:
        try:
            return worker.wait(_SECONDS_BETWEEN_LOOKS)
        except subprocess.TimeoutExpired:
            mailbox.look()


def _bind(listen: str, host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror:
        raise UserError(f"--listen {listen}: no host of this name is known; give an address of this machine") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise UserError(f"--listen {listen}: {_why(error)}") from None
    return listener


def _open(listen: str, listener: socket.socket) -> None:
    try:
        listener.listen(64)
    except OSError as error:  # somebody was quicker
        raise UserError(f"--listen {listen}: {_why(error)}") from None


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there; choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "not an address of this machine; give one of its own, or 0.0.0.0 for all of them"
    if error.errno == errno.EACCES:
        return "only the administrator may listen there; choose a port from 1024 on"
    return f"cannot listen there ({error.strerror})"
