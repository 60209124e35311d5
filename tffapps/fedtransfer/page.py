"""Its section of the page."""

from tffapps.report.section import CLAIMS, COSTS, SCORES, Section, Table

PAGE = Section(
    "fedtransfer",
    "FedTransfer: generators travel",
    "Finds grain boundaries in micrographs when each client has another material. Every client trains a pix2pix "
    "generator of its look; the generators travel, and clients train U-Nets on real tiles and on tiles painted in the "
    "others' looks.",
    (
        CLAIMS,
        Table(
            "table3_federated.csv",
            "Federations",
            "“repeated” is our control: every client has its own tiles twice, as many as with FedTransfer.",
            SCORES,
        ),
        Table("table2_separate_centralised.csv", "Each client alone, and all tiles in one place", kind=SCORES),
        Table("generator_precision.csv", "Generators sent in fewer bits", kind=SCORES),
        Table(
            "bytes.csv", "What crosses the network in one run, all clients together", kind=COSTS, in_bytes=("total",)
        ),
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
