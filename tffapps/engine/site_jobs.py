"""The coordinator's side of `tffapps.wire.jobs`."""

import secrets
import time

from tffapps.engine import remote
from tffapps.engine.site_link import SiteLink
from tffapps.errors import RunStopped
from tffapps.wire import jobs
from tffapps.wire.messages import Message

_SECONDS_BETWEEN_LOOKS = 0.3


def ask(link: SiteLink, request: Message) -> Message:
    """See `SitesContext.ask`."""
    job, identity, asking = request.fields[jobs.JOB], request.identity, secrets.token_hex(8)
    asked_on = 0  # which of the connections
    try:
        while True:
            answer = _look(link, jobs.to_ask(identity, asking))
            if answer is not None and answer.fields.get(jobs.ASKING, asking) == asking:  # not an earlier failure
                break
            if asked_on == link.connections:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                continue
            asked_on = link.connections
            _look(link, jobs.to_ask(identity, asking, request.to_bytes()))
    except ConnectionError as error:
        raise RunStopped(
            f"{link.address}: site {link.name} went away while it was to do {job} ({error})."
            " Run the same command again when it is back."
        ) from error
    except remote.WorkFailed as error:
        raise RunStopped(f"{link.address}: site {link.name} could not be asked to do {job}: {error}") from error
    if jobs.ERROR in answer.fields:
        raise RunStopped(f"{link.address}: site {link.name} could not do {job}: {answer.fields[jobs.ERROR]}")
    return answer


def tell(link: SiteLink, line: str) -> None:
    """See `SitesContext.tell`."""
    link.call(jobs.TELL, line.encode())


def _look(link: SiteLink, content: bytes) -> Message | None:
    """Sends what is asked, or only looks: the answer, if there is one."""
    answer = link.call(jobs.ASK, content)
    return Message.from_bytes(answer, f"site {link.name}") if answer else None
