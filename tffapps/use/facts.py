"""What a bundle says of itself for people to read: scores, training, provenance. Checked like all of it."""

from __future__ import annotations

import dataclasses

from models.stored import shown
from tffapps.use.bundle import FILE, Bundle
from tffapps.use.fields import Fields
from tffapps.use.scores import ALL


@dataclasses.dataclass(frozen=True)
class Row:
    """A score."""

    client: str
    metric: str
    images: int
    subjects: int
    score: float | None
    low: float | None
    high: float | None

    @property
    def value(self) -> str:
        if self.score is None:
            return "undefined"
        between = f" ({self.low:.3f} to {self.high:.3f})" if self.low is not None and self.high is not None else ""
        return f"{self.score:.3f}{between}"


@dataclasses.dataclass(frozen=True)
class About:
    """What a bundle says of itself, checked."""

    data: str
    method: str
    rounds: int
    epsilon: float | None
    weights: str
    aggregator: str
    delta: float | None
    clients: list[tuple[str, int, int | None]]  # name, rounds, examples if they are known
    rows: list[Row]
    calibration: Fields | None
    provenance: Fields
    novelty: Fields | None

    @classmethod
    def of(cls, bundle: Bundle) -> About:
        whole = Fields(bundle.about, str(bundle.path / FILE))
        provenance, scores = whole.part("provenance"), whole.part("scores").part(bundle.default_model)
        settings = provenance.part("settings")
        aggregation = settings.part("Aggregation") if settings.has("Aggregation") else Fields({}, "")
        return cls(
            data=provenance.text("data"),
            method=shown(provenance.part("labels").any("method")),
            rounds=provenance.whole("rounds", 0, 2**40),
            epsilon=provenance.number_or_none("epsilon", 0, 1e9),
            weights=provenance.part("initial").text("label"),
            aggregator=aggregation.text("aggregator") if aggregation.has("aggregator") else "",
            delta=aggregation.number_or_none("dp_delta", 0, 1),
            clients=[
                (
                    each.text("client"),
                    each.whole("rounds", 0, 2**40),
                    each.whole("examples", 0, 2**60) if each.has("examples") else None,
                )
                for each in provenance.parts("clients")
            ],
            rows=[row_of(each) for each in scores.parts("rows")] if scores.has("rows") else [],
            calibration=scores.part("calibration") if scores.has("calibration") else None,
            provenance=provenance,
            novelty=whole.part("novelty") if whole.has("novelty") else None,
        )

    def of_all(self, metric: str) -> Row | None:
        return next((row for row in self.rows if (row.client, row.metric) == (ALL, metric)), None)

    def of_clients(self, metric: str) -> list[Row]:
        """Those that are defined, the lowest first."""
        rows = [row for row in self.rows if row.metric == metric and row.client != ALL and row.score is not None]
        return sorted(rows, key=lambda row: (row.score or 0.0, row.client))

    @property
    def headline(self) -> str:
        return self.rows[0].metric if self.rows else ""


def row_of(fields: Fields) -> Row:
    values = [fields.number_or_none(name, -1e6, 1e6) for name in ("score", "low", "high")]
    sizes = [fields.whole(name, 0, 2**40) for name in ("images", "subjects")]
    return Row(fields.text("client"), fields.text("metric"), sizes[0], sizes[1], *values)
