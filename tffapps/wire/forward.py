"""Bytes between two sockets, both ways, until one of them ends. Either may be a TLS socket."""

import contextlib
import select
import socket
import ssl

_BUFFER = 2**18
_TURNS = 32  # of one direction before the other has its turn: 16 KiB each with TLS


class _Flow:
    """One direction: what was read and is not written yet, and what it waits for."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._source, self._target = source, target
        self._buffer = memoryview(bytearray(_BUFFER))
        self._held = self._buffer[:0]
        self.count = 0
        self.ended = False

    def advance(self) -> tuple[socket.socket, int] | None:
        """Moves what can be moved now; the socket and event to wait for, or None if there is more to do at once."""
        for _ in range(_TURNS):
            current = self._target if self._held else self._source
            try:
                if self._held:
                    # After a refused write TLS wants to see the same bytes again, which is what happens here.
                    self._held = self._held[current.send(self._held) :]
                    continue
                size = current.recv_into(self._buffer)
            except ssl.SSLWantReadError:
                return current, select.POLLIN
            except ssl.SSLWantWriteError:
                return current, select.POLLOUT
            except BlockingIOError:
                return current, select.POLLOUT if self._held else select.POLLIN
            except OSError:  # the other end broke off
                size = 0
            if size == 0:
                self.ended = True
                return None
            self.count += size
            self._held = self._buffer[:size]
        return None


def forward(outer: socket.socket, inner: socket.socket) -> tuple[int, int]:
    """Forwards until either end is done; returns the bytes that went in and out. Both sockets stay open."""
    for end in (outer, inner):
        end.setblocking(False)
        with contextlib.suppress(OSError):  # a Unix socket has no such option
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    flows = (_Flow(outer, inner), _Flow(inner, outer))
    while True:
        wanted: dict[int, int] = {}
        at_once = False
        for flow in flows:
            waits_for = flow.advance()
            if flow.ended:
                return flows[0].count, flows[1].count
            if waits_for is None:
                at_once = True
            else:
                end, event = waits_for
                wanted[end.fileno()] = wanted.get(end.fileno(), 0) | event
        if not at_once:
            poll = select.poll()
            for number, events in wanted.items():
                poll.register(number, events)
            poll.poll()
