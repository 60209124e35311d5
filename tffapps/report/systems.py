"""What each application is, and which tables and figures its folder holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Table:
    file: str
    title: str
    note: str = ""
    only: Mapping[str, str] = dataclasses.field(default_factory=dict)  # rows to show first; all rows are folded away
    folded: bool = False  # for those who look for it
    flag: str = ""  # made only with it
    in_bytes: tuple[str, ...] = ()
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    empty: str = "no rows"  # what it says when it has none


@dataclasses.dataclass(frozen=True)
class System:
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


_REJECTED = Table("rejected.csv", "Images left out", folded=True, empty="no image was left out")

CLASSIFY = System(
    "classify",
    "Federated classification",
    "Classifies the images of any folder in a federation, by FedAvg and its relatives, with training alone "
    "and in one place beside them. It has no paper of its own: it is the machinery that the five systems stand on.",
    (Table("comparison.csv", "Methods", "Scores on the pooled test images after the last round."),),
    (("accuracy.png", "Accuracy over rounds: mean over seeds, band from lowest to highest."),),
)

PLFL = System(
    "plfl",
    "PLFL: knee X-rays, few labels",
    "Grades knee osteoarthritis (healthy, moderate, severe) when only the server has labelled images: it trains first, "
    "then clients label their own images with its model and train on the labels it is sure of. CSFL (clients have all "
    "labels) and FSSFL (a fifth of them, FixMatch) are the thesis's other settings, PLFL+ is ours.",
    (
        Table(
            "comparison.csv",
            "Frameworks",
            "The server's test images after each round; gold is the server's own training before any round. CSFL's "
            "server has other test images than the rest, so its rows compare with the others only roughly.",
            only={"site": "server"},
        ),
        Table("best.csv", "Each framework at its end", folded=True),
        Table("pseudo_labels.csv", "Labels that clients kept, and how many were right", folded=True),
        Table("poisoning.csv", "One client spoilt", "Accuracy and macro F1 at the server."),
        Table("times.csv", "Minutes"),
        Table("confusion.csv", "Confusion matrices, all seeds together", folded=True),
        Table("models.csv", "Parameters of the networks", folded=True),
        Table("splits.csv", "Who has how many images", folded=True),
        _REJECTED,
    ),
    (
        ("accuracy.png", "Accuracy at the server over rounds."),
        ("macro_f1.png", "Macro F1 at the server over rounds."),
        ("confusion.png", "Confusion matrices, all seeds together."),
        ("pseudo_labels.png", "Labels kept by class."),
        ("poisoning.png", "One client spoilt."),
        ("steps.png", "Preprocessing, step by step."),
    ),
    (("framework", "plfl"),),
    "The thesis: one run of the same networks on 4,057 images of the public knee set.",
)

FEDSDA = System(
    "fedsda",
    "FedSDA: stains that differ between hospitals",
    "Tells tumour from normal tissue in H&E patches whose stains differ from centre to centre. The federation learns a "
    "diffusion model of all centres' stain matrices, and every centre trains on patches restained from it.",
    (
        Table(
            "table2_optimisers.csv",
            "Methods, without and with FedSDA",
            "All centres' test patches after the last round; “none”: images as they are.",
        ),
        Table(
            "table3_alignment.csv",
            "Ways to align images",
            "SSIM is to the original; FID, KID and WD are means over every two centres, so they should fall.",
        ),
        Table("left_out.csv", "Trained without a source, tested on all of it", flag="--leave-out"),
        Table("table1_diffusion.csv", "The stain model", "FD and WD: of drawn from measured stain matrices."),
        Table("rounds_vs_epochs.csv", "Many rounds of few epochs, or few of many"),
        Table("separation.csv", "How well patches come apart into stains", folded=True),
        Table("data.csv", "Who has how many patches", folded=True),
        Table("unmeasured.csv", "Patches that keep their look", folded=True, empty="all patches were restained"),
        _REJECTED,
    ),
    (
        ("patches.png", "A patch of each centre under each alignment."),
        ("auroc.png", "AUROC over rounds."),
        ("stains.png", "Stain matrices, measured and drawn."),
        ("frechet.png", "Fréchet distance of the stain model over its training."),
        ("tsne.png", "Patches of all centres under each alignment, by t-SNE of their thumbnails."),
    ),
    (("side", "fedsda"),),
    "The paper: DenseNet-121 on CAMELYON17 (C17) and AGGC22 (A22).",
)

FNST = System(
    "fnst",
    "FNST: style travels as Gram matrices",
    "Classifies colon patches when every site has plenty of one class and a handful of the others. Sites send Gram "
    "matrices of their rich class, others put those styles on their few images of it; then comes FedAvg.",
    (
        Table(
            "table3_fnst.csv",
            "With made images",
            "“repeated” is our control: the rare images themselves, as many times as FNST makes images of them. The "
            "paper reports the round of the best AUC on the test set; “last” was chosen by nobody.",
        ),
        Table("table2_single_and_federated.csv", "Each site alone, and their federation"),
        Table("table4_gains.csv", "Gains"),
        Table("table1_centralised.csv", "All images in one place"),
        Table("gram_attack.csv", "Can a Gram matrix be traced to its image?"),
        Table("f1_per_class.csv", "F1 by class over rounds", folded=True),
        Table("exchange.csv", "Every file that crossed the server", folded=True),
        Table("data.csv", "Who has how many images", folded=True),
        _REJECTED,
    ),
    (
        ("styled.png", "Content, style, result."),
        ("classes.png", "Who has which classes."),
        ("macro_f1.png", "Macro F1 of each method."),
        ("f1_per_class.png", "F1 by class over rounds."),
        ("gram_attack.png", "Images, and what an attacker makes of their Gram matrices."),
    ),
    (("method", "fnst"),),
    "The paper: ResNet-18 on Chaoyang; its gains are worked out from its Tables 2 and 3.",
)

FEDSTYLE = System(
    "fedstyle",
    "FedStyle: one artist, one client",
    "Recognises artists when every client is one artist, the hardest case there is for FedAvg. Mean embeddings of an "
    "artist's pictures, “styles”, travel beside the weights, and the server trains on a small public set.",
    (
        Table(
            "comparison.csv",
            "Methods",
            "Means of the last rounds. “local” is the server alone with the public pictures: nothing travels.",
            renamed={"paper": "paper_accuracy"},
        ),
        Table("table1_scalability.csv", "More artists"),
        Table("ablation.csv", "Losses left out"),
        Table("heterogeneity.csv", "Pictures dealt out otherwise"),
        Table("cloaking.csv", "Cloaked pictures", "Training in one place."),
        Table("queries.csv", "Every test picture: where its artist came", folded=True),
        Table("data.csv", "Who has how many pictures", folded=True),
        _REJECTED,
    ),
    (
        ("comparison.png", "Accuracy over rounds."),
        ("artists.png", "Pictures of each artist."),
        ("sheet-1.png", "A query's contact sheet: the picture asked about, and the artists in their order."),
    ),
    (("method", "fedstyle"),),
    "The paper: ResNet-18 on 18 painters of Artiststyle.",
)

FEDTRANSFER = System(
    "fedtransfer",
    "FedTransfer: generators travel",
    "Finds grain boundaries in micrographs when each client has another material. Every client trains a pix2pix "
    "generator of its look; the generators travel, and clients train U-Nets on real tiles and on tiles painted in the "
    "others' looks.",
    (
        Table(
            "table3_federated.csv",
            "Federations",
            "“repeated” is our control: every client has its own tiles twice, as many as with FedTransfer.",
        ),
        Table("trained_longer.csv", "Federations trained longer", "30 rounds instead of 7, otherwise the same."),
        Table("table2_separate_centralised.csv", "Each client alone, and all tiles in one place"),
        Table("generator_precision.csv", "Generators sent in fewer bits"),
        Table("bytes.csv", "What crosses the network in one run, all clients together", in_bytes=("total",)),
        Table("look.csv", "Do painted tiles look like the other client's?", "As a classifier of real tiles sees it."),
        Table("data.csv", "Who has how many tiles", folded=True),
    ),
    (
        ("looks.png", "Label, real tile, painted tile."),
        ("scores.png", "Every method on every test set."),
        ("validation_loss.png", "Validation loss over rounds."),
        ("segmentations.png", "Test tiles and the boundaries that each method finds."),
    ),
    (("method", "fedtransfer"),),
    "The paper: means over five folds on 400×400 tiles of austenite and iron.",
)

SYSTEMS = (PLFL, FEDSDA, FNST, FEDSTYLE, FEDTRANSFER, CLASSIFY)

BENCHMARKS = System(
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
