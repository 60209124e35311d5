"""Its section of the page."""

from tffapps.report.section import CLAIMS, EVIDENCE, REJECTED, SCORES, Section, Table

PAGE = Section(
    "classify",
    "Federated classification",
    "Classifies the images of any folder in a federation, by FedAvg and its relatives, with training alone "
    "and in one place beside them. It has no paper of its own: it is the machinery that the five systems stand on.",
    (
        CLAIMS,
        Table("comparison.csv", "Methods", "Scores on the pooled test images.", SCORES),
        Table(
            "attacks.csv",
            "Clients that attack",
            "difference: of macro F1 to the same aggregator without attackers, by a paired test.",
            SCORES,
            flag="--attack",
        ),
        REJECTED,
        *EVIDENCE,
    ),
    (("accuracy.png", "Accuracy over rounds: mean over seeds, band from lowest to highest."),),
)
