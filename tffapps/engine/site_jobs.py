"""The coordinator's side of `tffapps.wire.jobs`: files that the site's worker writes and reads."""

import functools
import secrets
import time
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.engine import lowering, remote
from tffapps.engine.site_link import SiteLink
from tffapps.engine.values import egest, ingest
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
            answer = _answer(link, identity)
            if answer is not None and answer.fields.get(jobs.ASKING, asking) == asking:  # not an earlier failure
                break
            if asked_on == link.connections:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                continue
            asked_on = link.connections
            _at(link, _write(), f"{jobs.ASKED}/{identity}", request.to_bytes())
            _at(link, _write(), f"{jobs.ASKED}/{identity}{jobs.READY}", asking + "\n")
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
    _at(link, _write(), f"{jobs.TOLD}/{time.time_ns()}", line + "\n")


def _answer(link: SiteLink, identity: str) -> Message | None:
    content = _at(link, _read(), f"{jobs.ANSWERS}/{identity}")
    return Message.from_bytes(content, f"site {link.name}") if content else None


def _at(link: SiteLink, computation: tuple[tff.Computation, Any], *arguments: Any) -> Any:
    wanted, sent = computation
    parameter, result = wanted.type_signature.parameter, wanted.type_signature.result
    given = arguments[0] if len(arguments) == 1 else arguments
    value = remote.serialized(ingest(given, parameter, set()), parameter)
    return egest(link.evaluate(sent, value, result), result)


@functools.cache
def _write() -> tuple[tff.Computation, Any]:
    @tff.tensorflow.computation(np.str_, np.str_)
    def write(path: Any, content: Any) -> Any:
        with tf.control_dependencies([tf.io.write_file(path, content)]):
            return tf.constant(True)

    return write, lowering.to_remote(write.to_building_block())


@functools.cache
def _read() -> tuple[tff.Computation, Any]:
    """What a file holds; nothing where there is none."""

    @tff.tensorflow.computation(np.str_)
    def read(path: Any) -> Any:
        there = tf.size(tf.io.matching_files(path)) > 0
        return tf.cond(there, lambda: tf.io.read_file(path), lambda: tf.constant(""))

    return read, lowering.to_remote(read.to_building_block())
