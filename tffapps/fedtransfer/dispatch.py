"""The server of FedTransfer: before the federation it passes generators on, and has nothing else.

    <folder>/sent/<client>.npz                   what clients hand in
    <folder>/received/<client>/<from>.npz        what each is given: every generator but its own

Every file is checked as it comes in (`preprocessing.generator_files`); anything else that lies there is refused.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from models.pix2pix import Architecture
from preprocessing import generator_files
from tffapps.errors import UserError
from tffapps.files import replacing


class Delivery(NamedTuple):
    """One file on its way."""

    sender: str
    receiver: str
    bytes: int
    file: pathlib.Path


def dispatch(
    folder: pathlib.Path, clients: Sequence[str], architecture: Architecture, precision: str
) -> list[Delivery]:
    """Gives every client the generators of all others; `clients` are names as files have them.

    `architecture` and `precision` are what all have agreed on.
    """
    sent = {file.stem: file for file in sorted((folder / "sent").iterdir())}
    for name, file in sent.items():
        if name not in clients:
            raise UserError(f"{file}: handed in by nobody of this federation; remove it")
        try:
            generator_files.load(file, architecture, precision)
        except generator_files.GeneratorRejected as rejected:
            raise UserError(f"{name} sent what the server does not take: {rejected}") from None
    missing = [name for name in clients if name not in sent]
    if missing:
        raise UserError(f"{folder / 'sent'}: no generator of {', '.join(missing)}; run the command again")
    return [_pass_on(folder, sender, receiver) for sender in clients for receiver in clients if sender != receiver]


def _pass_on(folder: pathlib.Path, sender: str, receiver: str) -> Delivery:
    contents = (folder / "sent" / f"{sender}.npz").read_bytes()
    target = folder / "received" / receiver / f"{sender}.npz"
    with replacing(target, "wb") as out:
        out.write(contents)
    return Delivery(sender, receiver, len(contents), target)
