"""The server of FedTransfer: before the federation it passes generators on, and has nothing else.

    <folder>/sent/<client>.npz                   what clients hand in
    <folder>/received/<client>/<from>.npz        what each is given: every generator but its own

Clients' names are written as file names can be. Every file is checked as it comes in
(`preprocessing.generator_files`); anything else that lies there is refused.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from models.pix2pix import Architecture
from preprocessing import generator_files
from tffapps import UserError, as_name, replacing


class Delivery(NamedTuple):
    """One file on its way."""

    sender: str  # a client, as the receiver
    receiver: str
    bytes: int
    file: pathlib.Path


def dispatch(
    folder: pathlib.Path, clients: Sequence[str], architecture: Architecture, precision: str
) -> list[Delivery]:
    """Gives every client the generators of all others.

    `architecture` and `precision` are what all have agreed on.
    """
    senders = {as_name(client): client for client in clients}
    handed_in = set()
    for file in sorted((folder / "sent").iterdir()):
        if file.stem not in senders:
            raise UserError(f"{file}: handed in by nobody of this federation; remove it")
        try:
            generator_files.load(file, architecture, precision)
        except generator_files.GeneratorRejected as rejected:
            raise UserError(f"{senders[file.stem]} sent what the server does not take: {rejected}") from None
        handed_in.add(senders[file.stem])
    missing = [client for client in clients if client not in handed_in]
    if missing:
        raise UserError(f"{folder / 'sent'}: no generator of {', '.join(missing)}; run the command again")
    return [_pass_on(folder, sender, receiver) for sender in clients for receiver in clients if sender != receiver]


def _pass_on(folder: pathlib.Path, sender: str, receiver: str) -> Delivery:
    contents = (folder / "sent" / f"{as_name(sender)}.npz").read_bytes()
    target = folder / "received" / as_name(receiver) / f"{as_name(sender)}.npz"
    with replacing(target, "wb") as out:
        out.write(contents)
    return Delivery(sender, receiver, len(contents), target)
