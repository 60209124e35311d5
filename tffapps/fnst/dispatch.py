"""The server of FNST: it passes Gram matrices on, and has nothing else.

    <folder>/sent/<client>/<class>.npz                  what clients hand in
    <folder>/received/<client>/<class>--<from>.npz      what each is given: the styles of its rare classes

Every file is checked as it comes in (`preprocessing.gram_files`); anything else that lies there is refused.
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from preprocessing import gram_files
from tffapps import UserError, as_name, replacing


class Delivery(NamedTuple):
    """One file on its way."""

    sender: str
    receiver: str
    label: str
    styles: int
    bytes: int
    file: pathlib.Path


def sent_file(folder: pathlib.Path, client: str, label: str) -> pathlib.Path:
    """Where a client hands in the styles of a class. A name of either cannot lead out of the folder."""
    return folder / "sent" / as_name(client) / f"{as_name(label)}.npz"


def dispatch(
    folder: pathlib.Path, wanted: Mapping[str, Sequence[str]], width: int, sha256: str | None = None
) -> list[Delivery]:
    """Gives every client the Gram matrices of the classes it wants from all who have handed them in.

    `width` and `sha256` are those of the VGG that all have agreed on.
    """
    deliveries = []
    for file in sorted((folder / "sent").glob("*/*")):
        sender = file.parent.name
        try:
            grams = gram_files.load(file, width, sha256)
        except gram_files.GramsRejected as rejected:
            raise UserError(f"{sender} sent what the server does not take: {rejected}") from None
        if file.stem != as_name(grams.label):
            raise UserError(f"{file}: holds styles of {grams.label}; a file is named after its class")
        for receiver, labels in wanted.items():
            if grams.label in labels and receiver != sender:
                contents = file.read_bytes()
                target = folder / "received" / receiver / f"{grams.label}--{sender}.npz"
                with replacing(target, "wb") as out:
                    out.write(contents)
                deliveries.append(Delivery(sender, receiver, grams.label, len(grams), len(contents), target))
    return deliveries
