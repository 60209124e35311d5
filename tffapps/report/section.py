"""What a section of the page says of a system: which tables and figures its folder holds."""

import dataclasses
from collections.abc import Mapping

# What a table holds. SCORES have intervals, and say of how many images and subjects (a test sees to it); a TRACE is
# what was written down while runs trained, round by round: it explains a score, and decides nothing.
SCORES, COUNTS, COSTS, TRACE = "scores", "counts", "costs", "trace"


@dataclasses.dataclass(frozen=True)
class Table:
    file: str
    title: str
    note: str = ""
    kind: str = COUNTS
    only: Mapping[str, str] = dataclasses.field(default_factory=dict)  # rows to show first; all rows are folded away
    folded: bool = False  # for those who look for it
    flag: str = ""  # made only with it
    in_bytes: tuple[str, ...] = ()
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    empty: str = "no rows"  # what it says when it has none


@dataclasses.dataclass(frozen=True)
class Section:
    name: str
    title: str
    about: str  # two sentences
    tables: tuple[Table, ...]
    figures: tuple[tuple[str, str], ...] = ()  # file, caption
    own: tuple[tuple[str, str], ...] = ()  # column and value of the paper's own method, whose rows are marked
    paper: str = ""  # what the paper's columns are of

    @property
    def command(self) -> str:
        return f"python -m tffapps.{self.name}"


CLAIMS = Table(
    "claims.csv",
    "What was compared with what",
    "Declared before the runs: gain with its 95 % interval, p of the paired test, corrected for all rows (Holm).",
    SCORES,
)
REJECTED = Table("rejected.csv", "Images left out", folded=True, empty="no image was left out")

EVIDENCE = (  # of every system that divides images anew, or tunes
    Table("by_split.csv", "Scores by split", "One row a run.", TRACE, folded=True, flag="--splits"),
    Table("split_sizes.csv", "Images of each split", folded=True, flag="--splits"),
    Table("tuning.csv", "Settings tried on validation images", kind=TRACE, folded=True, flag="--tune"),
)

BENCHMARKS = Section(
    "benchmarks",
    "Speed and memory",
    "Measured on two cores with nothing else running, each contender in a process of its own. Each table is made by "
    "the script of its name in benchmarks/.",
    (
        Table("rounds.csv", "Rounds beside plain Keras"),
        Table("stains.csv", "Stain separation beside SPAMS and scikit-learn"),
        Table("style.csv", "Style transfer beside the bare pass and the eager loop"),
        Table("kept.csv", "Memory by number of clients"),
    ),
)
