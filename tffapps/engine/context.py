"""What an engine's context can be asked beside TFF's `invoke`."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow_federated as tff

from tffapps.errors import UserError

if TYPE_CHECKING:
    from tffapps.engine.site_link import SiteLink
    from tffapps.wire.messages import Message


class EngineContext(tff.framework.SyncContext):
    """A TFF execution context. The answers here are those of one without sites and without another process."""

    links: Mapping[str, SiteLink] = types.MappingProxyType({})  # to the sites, by their names

    def at_site(self, name: str, computation: tff.Computation, *arguments: Any) -> Any:
        """A computation without placements, evaluated at a site; where there are none, here."""
        with tff.framework.get_context_stack().install(self):  # whichever thread this is
            return computation(*arguments)

    def ask(self, name: str, request: Message) -> Message:
        """A site's answer to a request (`tffapps.wire.jobs`)."""
        raise UserError(f"{name}: no such site; this engine has none")

    def tell(self, name: str, line: str) -> None:
        """Puts a line into a site's log."""

    def about(self, application: str, method: str, run: str) -> None:
        """Tells the sites what the work that follows is for; UserError if one does not allow it."""

    def forget(self, handles: Mapping[str, Collection[str]]) -> None:
        """Lets sites remove what their clients kept (`wire.states`), by their names."""

    def log_heads(self) -> dict[str, str]:
        """Where each site's log of requests ends."""
        return {}

    def peak_memory(self) -> int:
        """Largest resident size so far of the processes beside this one, in bytes."""
        return 0

    def close(self) -> None:
        """Ends what was started."""
