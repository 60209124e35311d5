"""Tables 4.9 and 4.10 of the thesis: how many parameters networks have, and how many megabytes they take."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import pandas as pd

from models.assembled import assemble
from models.names import ALL, HEAD
from tffapps import Network, write_table
from tffapps.plfl import paper

_KINDS = ("trainable", "non_trainable", "total")


@dataclasses.dataclass(frozen=True)
class Shape:
    """What decides how many parameters a network has."""

    model: str
    size: int
    channels: int
    head: str
    cut: str
    norm: str
    classes: int

    @classmethod
    def of(cls, network: Network, classes: int) -> Shape:
        return cls(
            network.name, network.side, network.channels, network.chosen_head, network.cut, network.norm, classes
        )

    def row(self) -> dict[str, Any]:
        """How the table tells networks apart."""
        return {
            "model": self.model, "size": self.size, "channels": self.channels, "head": self.head,
            "base": {HEAD: "frozen", ALL: "trained"}.get(self.cut, f"frozen up to {self.cut}"), "classes": self.classes,
            "keras": metadata.version("keras"),
        }  # fmt: skip


THESIS = tuple(Shape(name, 224, 3, "flatten256", HEAD, "frozen", 3) for name in paper.PARAMETERS)


def write(folder: pathlib.Path, shapes: Sequence[Shape], fresh: bool) -> pd.DataFrame:
    """Writes models.csv; with `fresh` also what it has already is counted again."""
    file = folder / "models.csv"
    table = table_of(shapes, None if fresh else file)
    write_table(file, table)
    return table


def totals(table: pd.DataFrame, shapes: Sequence[Shape]) -> dict[str, int]:
    """All parameters of each network, as `write` counted them."""
    found = {}
    for shape in shapes:
        alike = pd.Series(shape.row())
        found[shape.model] = int(table.total[(table[alike.index] == alike).all(axis=1)].iloc[0])
    return found


def table_of(shapes: Sequence[Shape], earlier: pathlib.Path | None = None) -> pd.DataFrame:
    """The thesis's networks, then those of `shapes`.

    Counting takes seconds a network: rows that an `earlier` table has are taken from it.
    """
    known: list[Any] = pd.read_csv(earlier).to_dict("records") if earlier is not None and earlier.exists() else []
    rows: list[Any] = []
    for shape in dict.fromkeys((*THESIS, *shapes)):
        identity = shape.row()
        counted = [row for row in known if {name: row.get(name) for name in identity} == identity]
        rows.append(counted[0] if counted else {**identity, **_counts(shape)})
    # Whole numbers also where a row has none: as floats they would be written with six digits.
    whole = [f"{owner}{kind}" for owner in ("", "paper_") for kind in _KINDS]
    return pd.DataFrame(rows).astype(dict.fromkeys(whole, "Int64"))


def _counts(shape: Shape) -> dict[str, Any]:
    network = assemble(
        shape.model, input_shape=(shape.size, shape.size, shape.channels), classes=shape.classes, head=shape.head,
        cut=shape.cut, norm=shape.norm, may_be_own=True,
    ).whole  # fmt: skip
    trained, total = _values(network.trainable_weights), _values(network.weights)
    row: dict[str, Any] = {}
    for kind, count in zip(_KINDS, (trained, total - trained, total)):
        row |= {kind: count, f"{kind}_mb": round(count * 4 / 2**20, 2)}
    # Grey images are shown to a pretrained base three times: the same parameters.
    if dataclasses.replace(shape, channels=3, norm="frozen") in THESIS:
        for kind, count, megabytes in zip(_KINDS, paper.PARAMETERS[shape.model], paper.MEGABYTES[shape.model]):
            row |= {f"paper_{kind}": count, f"paper_{kind}_mb": megabytes}
    return row


def _values(weights: Sequence[Any]) -> int:
    return sum(weight.shape.num_elements() for weight in weights)
