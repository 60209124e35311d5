"""`python -m tffapps.site serve`: this site's data, TFF's worker over it, and a door that asks for a certificate."""

import contextlib
import logging
import socket
import subprocess
import sys
from pathlib import Path

from tffapps import cache_lock
from tffapps.engine import supervisor
from tffapps.errors import RunStopped
from tffapps.site import confinement, data
from tffapps.site import policy as policies
from tffapps.site.budget import Budget
from tffapps.site.gatehouse import Gatehouse
from tffapps.site.guarded_worker import GuardedWorker
from tffapps.site.mailbox import Mailbox
from tffapps.site.summing import Sums
from tffapps.wire import certificate_checks, listening
from tffapps.wire.certificates import Certificates
from tffapps.wire.dial_out import DialOut

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
    dial: str = "",
    policy: Path | None = None,
) -> None:
    """Serves until it is interrupted. What can be wrong is found before the port answers.

    Unless it `prepares` what the coordinator asks for, it only takes part in rounds; unless `confined`, there is no
    sandbox. `coordinator` are fingerprints of the certificates that it lets in; without, it lets in whoever has one
    that is made for the coordinator. With `dial`, HOST:PORT of the coordinator, it calls there instead of listening.
    `policy` is a file; without, the default.
    """
    allowed = policies.default() if policy is None else policies.read(policy)
    if confined:
        confinement.check()
    certificate_checks.check(certificates, "site", name)
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(cache_lock.used())  # what it has made lies there, for rounds to read
        table = data.load(source, name, notes)
        for note in notes:
            print(note, file=sys.stderr)
        where: socket.socket | DialOut
        if dial:
            where = stack.enter_context(DialOut("join", dial, logging.getLogger(f"tffapps.site.{name}")))
        else:
            where = stack.enter_context(listening.bind("--listen", listen))
        table, description = data.readable(table, name, source)
        if not isinstance(where, DialOut):
            listening.begin("--listen", listen, where)
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
        sums = Sums(name, certificates, budget, allowed.only_masked, allowed.longest_update)
        worker = GuardedWorker(
            where, name=f"site {name}", folder=folder, certificates=certificates,
            guards=[*gatehouse.guards, sums, gatehouse.keeper.taker],  # in this order
            own={**mailbox.methods, **gatehouse.methods, **sums.methods}, journal=gatehouse.log,
            coordinator=coordinator, allow_open=allow_open, log=sys.stderr, remove=folder,
            sandbox=confinement.of_the_worker(folder, name) if confined else None,
        )  # fmt: skip
        try:
            place = f"dialling {dial}" if isinstance(where, DialOut) else f"listening on {listening.shown(where)}"
            kept = "closed to the network" if worker.closed else "OPEN TO THE NETWORK"
            kept += "" if confined else ", WITHOUT A SANDBOX"
            print(f"site {name}: {len(table)} images, {place}, worker {kept}", flush=True)
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
