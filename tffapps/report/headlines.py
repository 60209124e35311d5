"""What is compared with what: the paper's method, the baseline it should beat, and whoever might do as well."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The last row that has these values, or the best of them; `name` stands in the summary."""

    name: str
    where: Mapping[str, str]
    best: bool = False


@dataclasses.dataclass(frozen=True)
class Headline:
    files: tuple[str, ...]
    metric: str  # a column
    title: str  # the metric in words
    method: Chosen
    baseline: Chosen
    rivals: tuple[Chosen, ...] = ()  # controls and other methods: are they as good as the paper's?
    each: str = ""  # a column: one comparison for each of its values in the method's rows; {} in names stands for it
    same: tuple[str, ...] = ()  # columns in which baseline and rivals must have the method's value, where they have it
    paper: str = ""  # the column with the paper's value
    papers_rows: Mapping[str, str] = dataclasses.field(default_factory=dict)  # instead of `where`, for that column


_LAST = {"chosen": "last"}
_GLOBAL = {"test": "global"}
_SERVER = {"site": "server"}
_FEDSDA_RIVALS = (
    Chosen("ccst", {"method": "fedavg", "side": "ccst"}),
    Chosen("amp-norm", {"method": "fedavg", "side": "amp-norm"}),
)

HEADLINES: dict[str, tuple[Headline, ...]] = {
    "classify": (
        Headline(
            files=("comparison.csv",),
            metric="accuracy",
            title="accuracy",
            method=Chosen("fedavg", {"method": "fedavg"}),
            baseline=Chosen("best client alone", {"method": "separate"}, best=True),
        ),
    ),
    "plfl": tuple(
        Headline(
            files=("comparison.csv",),
            metric=metric,
            title=title,
            method=Chosen(method, {"framework": method, **_SERVER}),
            baseline=Chosen("gold only", {"framework": "gold", **_SERVER}),
            each="model",
            same=("model",),
            paper=f"paper_{metric}",
        )
        for method in ("plfl", "plfl+")
        for metric, title in (("accuracy", "accuracy"), ("macro_f1", "macro F1"))
    ),
    "fedsda": (
        Headline(
            files=("table2_optimisers.csv", "table3_alignment.csv"),
            metric="auroc",
            title="AUROC",
            method=Chosen("fedavg + fedsda", {"method": "fedavg", "side": "fedsda"}),
            baseline=Chosen("fedavg", {"method": "fedavg", "side": "none"}),
            rivals=_FEDSDA_RIVALS,
            paper="paper_c17_auroc",
        ),
        Headline(
            files=("left_out.csv",),
            metric="auroc",
            title="AUROC, {} left out",
            method=Chosen("fedavg + fedsda", {"method": "fedavg", "side": "fedsda"}),
            baseline=Chosen("fedavg", {"method": "fedavg", "side": "none"}),
            rivals=_FEDSDA_RIVALS,
            each="left_out",
            same=("left_out",),
        ),
    ),
    "fnst": (
        Headline(
            files=("table2_single_and_federated.csv", "table3_fnst.csv"),
            metric="macro_f1",
            title="macro F1, last round",
            method=Chosen("fnst {}", {"method": "fnst", **_LAST}),
            baseline=Chosen("fedavg", {"method": "fedavg", **_LAST}),
            rivals=(Chosen("repeated", {"method": "repeated", **_LAST}),),
            each="augmentation",
            same=("rare", "augmentation"),
            paper="paper_macro_f1",
            papers_rows={"chosen": "best AUC"},
        ),
    ),
    "fedstyle": (
        Headline(
            files=("comparison.csv",),
            metric="accuracy",
            title="accuracy",
            method=Chosen("fedstyle", {"method": "fedstyle"}),
            baseline=Chosen("fedavg", {"method": "fedavg"}),
            rivals=tuple(Chosen(name, {"method": name}) for name in ("local", "fedprox", "fedproto", "fpl")),
            paper="paper",
        ),
    ),
    "fedtransfer": (
        Headline(
            files=("table2_separate_centralised.csv", "table3_federated.csv"),
            metric="map",
            title="MAP, all clients' tiles",
            method=Chosen("fedtransfer", {"method": "fedtransfer", **_GLOBAL}),
            baseline=Chosen("fedavg", {"method": "fedavg", **_GLOBAL}),
            rivals=(
                Chosen("repeated", {"method": "repeated", **_GLOBAL}),
                Chosen("best client alone", {"method": "separate", **_GLOBAL}, best=True),
            ),
            paper="paper_map",
        ),
    ),
}
