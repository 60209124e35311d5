"""How the coordinator comes to a connection with a site: it dials the site's address, or the site has dialled it.

In a list of sites HOST:PORT is where a site listens; NAME@HOST:PORT is where this machine waits for the site NAME.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ssl
from collections.abc import Sequence
from typing import Protocol

import grpc

from tffapps.wire import channel
from tffapps.wire.address import parse_site
from tffapps.wire.certificates import Certificates
from tffapps.wire.meeting_point import MeetingPoint


class Way(Protocol):
    @property
    def address(self) -> str:
        """As the user wrote it."""

    def greeted(self) -> tuple[ssl.SSLSocket, bytes]:
        """A connection on which the site has answered, and the first bytes of its answer; Unreachable without."""

    def channel(self) -> grpc.Channel: ...


@dataclasses.dataclass(frozen=True)
class Dialled:
    """To a site that listens."""

    address: str
    certificates: Certificates

    def greeted(self) -> tuple[ssl.SSLSocket, bytes]:
        return channel.greeted(self.address, self.certificates)

    def channel(self) -> grpc.Channel:
        return channel.unseen(self.address, self.certificates)


@dataclasses.dataclass(frozen=True)
class Awaited:
    """To a site that dials out."""

    address: str
    name: str
    point: MeetingPoint

    def greeted(self) -> tuple[ssl.SSLSocket, bytes]:
        connection = self.point.take(self.name)
        try:
            return connection, channel.first_byte(self.address, connection)
        except OSError as error:
            connection.close()
            raise channel.Unreachable(f"{self.address}: {error.strerror or error}; is the site running?") from None
        except BaseException:
            connection.close()
            raise

    def channel(self) -> grpc.Channel:
        return self.point.channel(self.name)


def open_ways(addresses: Sequence[str], certificates: Certificates, stack: contextlib.ExitStack) -> list[Way]:
    """A way to each site; what waits for sites here is closed with the stack."""
    sites = [(address, *parse_site("--engine", address)) for address in addresses]
    names: dict[str, list[str]] = {}
    for _, name, place in sites:
        if name:
            names.setdefault(place, []).append(name)
    points = {}
    with contextlib.ExitStack() as unless_all:
        for place, awaited in names.items():
            points[place] = MeetingPoint(place, certificates, awaited)
            unless_all.callback(points[place].close)
        stack.push(unless_all.pop_all())
    found: list[Way] = []
    for address, name, place in sites:
        if name:
            found.append(Awaited(address, name, points[place]))
        else:
            found.append(Dialled(address, certificates))
    return found
