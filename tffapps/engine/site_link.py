"""The coordinator's link to one site: made, checked, lost and made again."""

import contextlib
import threading
from typing import Any

import grpc
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.engine.answers import BadAnswer
from tffapps.engine.remote import Denied, RemoteWorker, WorkerLost, WorkFailed
from tffapps.errors import UserError
from tffapps.wire import channel, jobs, protocol
from tffapps.wire import description as descriptions
from tffapps.wire.heartbeat import Heartbeat
from tffapps.wire.ways import Way


class SiteLink:
    """One site as the coordinator has it. Everything that can be wrong with it is found by `connect`."""

    def __init__(self, way: Way) -> None:
        self.address = way.address
        self._way = way
        self.description: dict[str, Any] = {}  # as the site published it when it was first reached
        self._lock = threading.RLock()
        self._worker: RemoteWorker | None = None
        self._heartbeat: Heartbeat | None = None
        self._channel: grpc.Channel | None = None
        self._traffic = (0, 0)  # of earlier connections
        self._about = b""  # what work is for, as every new connection is told
        self.connections = 0  # so far: another one may be to a site that was started anew

    @property
    def name(self) -> str:
        return self.description["name"]

    def connect(self) -> None:
        """Makes sure that the site is there: Unreachable, or a UserError if it is there and not as it should be."""
        with self._lock:
            if self._heartbeat is not None and self._heartbeat.beats():
                return
            self._drop()
            try:
                self._heartbeat = Heartbeat(*self._way.greeted())
                self._channel = self._way.channel()
                self._worker = RemoteWorker(self._channel, self._heartbeat.beats)
                self._check(self._published())
                self._tell_about()
                self.connections += 1
            except WorkerLost as error:
                self._drop()
                raise channel.Unreachable(f"{self.address}: {error}; is the site running?") from None
            except WorkFailed as error:
                self._drop()
                raise UserError(f"{self.address}: cannot tell what the site publishes: {error}") from None
            except BaseException:
                self._drop()
                raise

    def evaluate(self, computation: Any, argument: Any, result_type: tff.Type) -> Any:
        """`RemoteWorker.evaluate` there; WorkerLost if the site goes away meanwhile, UserError for a bad answer."""
        with self._lock:
            self.connect()
            assert self._worker is not None
            try:
                return self._worker.evaluate(computation, argument, result_type)
            except BadAnswer as error:
                raise UserError(f"{self.address}: refused what site {self.name} answered: {error}") from None
            except Denied as error:
                raise UserError(f"{self.address}: {error}") from None
            except WorkerLost:
                self._drop()
                raise

    def call(self, method: str, content: bytes) -> bytes:
        """A method that the site answers itself; WorkerLost if it goes away meanwhile, WorkFailed if it refuses."""
        with self._lock:
            self.connect()
            assert self._worker is not None
            try:
                return self._worker.call(method, content)
            except WorkerLost:
                self._drop()
                raise

    def declare(self, about: bytes) -> None:
        """Tells the site what the work that follows is for; UserError if it does not allow it."""
        with self._lock:
            self._about, before = about, self.connections
            self.connect()
            if self.connections == before:  # else it was told when it was connected to
                self._tell_about()

    def _tell_about(self) -> None:
        if self._about and self._worker is not None:
            try:
                self._worker.call(jobs.ABOUT, self._about)
            except Denied as error:
                raise UserError(f"{self.address}: {error}") from None
            except WorkFailed:  # it does not ask
                pass

    def traffic(self) -> tuple[int, int]:
        """Bytes sent to the site and received from it so far, without what TLS and HTTP/2 add."""
        sent, received = self._traffic
        return (
            (sent + self._worker.bytes_sent, received + self._worker.bytes_received)
            if self._worker
            else (sent, received)
        )

    def close(self) -> None:
        """Also while another thread waits for an answer, which it will not get."""
        worker, heartbeat = self._worker, self._heartbeat
        if worker is not None and heartbeat is not None and heartbeat.beats():
            worker.leave()
        self._drop()

    def _drop(self) -> None:
        self._traffic, self._worker = self.traffic(), None
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.close()
        way, self._channel = self._channel, None
        if way is not None:
            with contextlib.suppress(Exception):  # the other end may be gone already
                way.close()

    def _published(self) -> dict[str, Any]:
        assert self._worker is not None
        try:
            text = self._worker.evaluate(*_published(), most_bytes=descriptions.MOST_BYTES).numpy()
        except BadAnswer as error:
            raise UserError(f"{self.address}: refused what the site answered: {error}") from None
        return self._understood(text)

    def _understood(self, text: bytes) -> dict[str, Any]:
        try:
            return descriptions.read(text)
        except ValueError as error:
            what = f"{self.address}: what the site publishes is not as it should be: {error}"
            raise UserError(f"{what}; is it a tffapps site, of this version?") from None

    def _check(self, description: dict[str, Any]) -> None:
        assert self._heartbeat is not None
        site = f"{self.address}: site {description['name']}"
        ours = {"protocol": protocol.PROTOCOL, **protocol.frameworks()}
        theirs = {"protocol": description.get("protocol"), **description.get("frameworks", {})}
        for package, version in ours.items():
            if theirs.get(package) != version:
                raise UserError(
                    f"{site} has {package} {theirs.get(package)}, here is {version}; install the same tffapps"
                )
        if description["name"] != self._heartbeat.name:
            raise UserError(f"{site} shows a certificate for {self._heartbeat.name}; it must be for its name")
        if self.description and description != self.description:
            raise UserError(f"{site} came back with other data or another name; start the run again")
        self.description = description


def _published() -> tuple[Any, None, tff.Type]:
    """What reads a site's description there, as `RemoteWorker.evaluate` takes it."""

    @tff.tensorflow.computation
    def read() -> Any:
        return tf.io.read_file(protocol.DESCRIPTION)

    return tff.framework.serialize_computation(read), None, read.type_signature.result
