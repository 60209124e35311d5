"""How many images the papers' own sets have, as their publishers or the papers say: numbers alone, nothing is read.

A count is of rows of a pool's table (`data.look` of its system), or of the different values in one of its columns.
Numbers that depend on how somebody cut or cleaned a set are kept apart (`Aside`): they are shown and not compared.
What nobody has published is said in `unpublished`.
"""

import dataclasses
from collections.abc import Iterator, Mapping


@dataclasses.dataclass(frozen=True)
class Count:
    """A number of rows, all of them or those of one label, split or client."""

    what: str  # as lines and docs call it
    number: int
    label: str = ""
    split: str = ""
    client: str = ""
    of: str = ""  # the column whose different values are counted; "": rows


@dataclasses.dataclass(frozen=True)
class Aside:
    """Numbers that the images found need not have, and why."""

    source: str
    why: str
    counts: tuple[Count, ...]


@dataclasses.dataclass(frozen=True)
class PublishedSet:
    """A paper's own set."""

    title: str
    system: str  # whose loader reads it
    source: str  # of the counts
    counts: tuple[Count, ...]
    fewer: str  # what it usually means if there are fewer, and the way out
    more: str  # the same if there are more
    aside: Aside | None = None
    unpublished: str = ""


def _by_split(noun: str, numbers: Mapping[str, Mapping[str, int]]) -> Iterator[Count]:
    """Split → label → number: the splits' sums, each number, and the sum of all."""
    for split, labels in numbers.items():
        yield Count(f"{noun} in {split}", sum(labels.values()), split=split)
    for split, labels in numbers.items():
        for label, number in labels.items():
            yield Count(f"{label} in {split}", number, label=label, split=split)
    yield Count(noun, sum(sum(labels.values()) for labels in numbers.values()))


def _by_client(noun: str, numbers: Mapping[str, int], of: str = "") -> Iterator[Count]:
    """Client → number."""
    for client, number in numbers.items():
        yield Count(f"{noun} of {client}", number, client=client, of=of)


_OAI = PublishedSet(
    title="Knee Osteoarthritis Severity Grading",
    system="plfl",
    source="the published folder, as its users count it",
    counts=tuple(
        _by_split(
            "images",
            {
                "train": {"healthy": 2286, "moderate": 757, "severe": 173},
                "val": {"healthy": 328, "moderate": 106, "severe": 27},
                "test": {"healthy": 639, "moderate": 223, "severe": 51},
            },
        )
    ),
    fewer="a copy with images removed, or without one of train, val and test: take kneeKL224 as Mendeley Data has it",
    more="auto_test put into another folder, or augmented copies: take kneeKL224 as Mendeley Data has it",
    aside=Aside(
        "Table 4.4 of the thesis",
        "it has removed images by hand, and has more severe knees than train, val and test together",
        (
            Count("healthy", 2790, label="healthy"),
            Count("moderate", 987, label="moderate"),
            Count("severe", 280, label="severe"),
        ),
    ),
)

_CHAOYANG = PublishedSet(
    title="Chaoyang",
    system="fnst",
    source="section 3 of the paper",
    counts=tuple(
        _by_split(
            "images",
            {
                "train": {"normal": 1111, "serrated": 842, "adenoma": 664, "adenocarcinoma": 1404},
                "test": {"normal": 705, "serrated": 321, "adenoma": 273, "adenocarcinoma": 840},
            },
        )
    ),
    fewer="an incomplete download, or, if it is a class in train alone, a train.json with three pathologists' labels,"
    " of which one is drawn: compare the sums of the splits",
    more="augmented copies, or, if it is a class in train alone, a train.json with three pathologists' labels, of which"
    " one is drawn: compare the sums of the splits",
)

_ARTISTSTYLE = PublishedSet(
    title="Artiststyle",
    system="fedstyle",
    source="section V-A of the paper",
    counts=(Count("artists", 26, of="label"), Count("pictures", 5624)),
    fewer="the 18 artists of the comparison without the 8 of the scalability study, or another choice from WikiArt",
    more="WikiArt itself, from which the set was chosen by hand",
    unpublished="the artists' names and how many pictures each has (the paper points to a supplement)",
)

_CONLLUSTRATION = PublishedSet(
    title="Conllustration",
    system="fedstyle",
    source="section V-A of the paper",
    counts=(Count("artists", 18, of="label"), Count("pictures", 3238)),
    fewer="a part of the set: ask the paper's authors for all of it",
    more="folders beside it that are not of the set: move them elsewhere",
    unpublished="how many pictures each artist has (the paper points to a supplement)",
)

_UNDIVIDED = "here whole micrographs are on one side, so that a split is as near to this as they allow"

_AUSTENITE = PublishedSet(
    title="austenite",
    system="fedtransfer",
    source="the paper's section on data sets",
    counts=(
        Count("micrographs", 223, client="austenite", of="path"),
        Count("tiles", 892, client="austenite"),
    ),
    fewer="a part of the set, or, if it is tiles alone, flags other than those of --profile paper",
    more="tiles instead of micrographs of 1024×1024 pixels, or flags other than those of --profile paper",
    aside=Aside(
        "the paper's section on data sets",
        _UNDIVIDED,
        (
            Count("tiles in train", 560, split="train", client="austenite"),
            Count("tiles in val", 140, split="val", client="austenite"),
            Count("tiles in test", 192, split="test", client="austenite"),
        ),
    ),
)

_IRON = PublishedSet(
    title="polycrystalline iron",
    system="fedtransfer",
    source="the paper's section on data sets; its split sums to 892 tiles, its text says 882",
    counts=(
        Count("micrographs", 136, client="iron", of="path"),
        Count("tiles", 892, client="iron"),
    ),
    fewer="the part that is on Google Drive, or one of its splits, or, if it is tiles alone, flags other than those of"
    " --profile paper",
    more="tiles instead of micrographs of 2800×1600 pixels, synthetic images, or flags other than those of"
    " --profile paper",
    aside=Aside(
        "the paper's section on data sets",
        _UNDIVIDED,
        (
            Count("tiles in train", 560, split="train", client="iron"),
            Count("tiles in val", 140, split="val", client="iron"),
            Count("tiles in test", 192, split="test", client="iron"),
        ),
    ),
    unpublished="which of the tiles were chosen; it says 2800 were cut, which is what 100 micrographs give",
)

_CAMELYON17 = PublishedSet(
    title="CAMELYON17",
    system="fedsda",
    source="metadata.csv of camelyon17_v1.0, as its users count it",
    counts=(
        Count("centres", 5, of="client"),
        *_by_client(
            "patches",
            {"centre0": 59436, "centre1": 34904, "centre2": 85054, "centre3": 129838, "centre4": 146722},
        ),
        Count("normal", 227977, label="normal"),
        Count("tumour", 227977, label="tumour"),
        Count("patches", 455954),
    ),
    fewer="rows removed from metadata.csv, or not version 1.0 of the WILDS edition: let the package wilds download it",
    more="not version 1.0 of the WILDS edition, or patches of one's own: let the package wilds download it",
    aside=Aside(
        "Table 5 of the paper",
        "it has a few patches less of every centre and does not say which",
        tuple(
            _by_client(
                "patches",
                {"centre0": 59042, "centre1": 34832, "centre2": 85053, "centre3": 129140, "centre4": 146721},
            )
        ),
    ),
)

_OWN_CUT = "patches are cut and chosen in another way here"
_NAMES = "patches that are not named <slide>_<x>_<y>.png, each of which counts as a slide: keep the names that"

_AGGC22 = PublishedSet(
    title="AGGC22",
    system="fedsda",
    source="Table 6 of the paper, scanners told by the publisher's page: fewer slides of Olympus and Zeiss",
    counts=(
        Count("scanners", 6, of="client"),
        *_by_client(
            "slides",
            {"akoya": 38, "kfbio": 38, "leica": 38, "olympus": 37, "philips": 38, "zeiss": 22},
            of="subject",
        ),
    ),
    fewer="slides of the publisher's test part are missing (to train with there are 26, 25 of Olympus, 15 of Zeiss),"
    " or no patch of a slide was kept",
    more=f"slides of subsets 1 and 2, which one scanner made, or {_NAMES} preprocessing.patches gives",
    aside=Aside("Table 6 of the paper", _OWN_CUT, (Count("patches", 1069209),)),
    unpublished="patches of each class, and which of the paper's six clients is which scanner",
)

_MITOS14 = PublishedSet(
    title="MITOS-ATYPIA-14",
    system="fedsda",
    source="Table 4 of the paper, which calls the frames at ×40 slides",
    counts=(
        Count("scanners", 2, of="client"),
        *_by_client("frames", {"aperio": 1136, "hamamatsu": 1136}, of="subject"),
    ),
    fewer="a slide's archive is missing, the frames at ×20 were cut (a quarter as many), or no patch of a frame was"
    " kept",
    more=f"frames of the publisher's test part, or {_NAMES} preprocessing.patches gives",
    aside=Aside("Table 4 of the paper", _OWN_CUT, (Count("patches", 71989),)),
    unpublished="classes: the paper classifies nothing in this set, it aligns stains and measures image quality",
)

SETS = {
    "oai": _OAI,
    "chaoyang": _CHAOYANG,
    "artiststyle": _ARTISTSTYLE,
    "conllustration": _CONLLUSTRATION,
    "austenite": _AUSTENITE,
    "iron": _IRON,
    "camelyon17": _CAMELYON17,
    "aggc22": _AGGC22,
    "mitos14": _MITOS14,
}
