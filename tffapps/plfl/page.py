"""Its section of the page."""

from tffapps.report.section import CLAIMS, COSTS, EVIDENCE, REJECTED, SCORES, TRACE, Section, Table

PAGE = Section(
    "plfl",
    "PLFL: knee X-rays, few labels",
    "Grades knee osteoarthritis (healthy, moderate, severe) when only the server has labelled images: it trains first, "
    "then clients label their own images with its model and train on the labels it is sure of. CSFL (clients have all "
    "labels) and FSSFL (a fifth of them, FixMatch) are the thesis's other settings, PLFL+ is ours.",
    (
        CLAIMS,
        Table(
            "comparison.csv",
            "Frameworks",
            "The server's test images at the end; gold is the server's own training before any round. CSFL's server "
            "has other test images than the rest, so its rows compare with the others only roughly: --splits gives "
            "all of them the same.",
            SCORES,
        ),
        Table(
            "rounds.csv",
            "Round by round",
            "As the runs wrote them down: the server's test images, and what clients' own models do.",
            TRACE,
            only={"site": "server"},
            folded=True,
        ),
        Table("best.csv", "Each framework at its end", kind=SCORES, folded=True),
        Table("pseudo_labels.csv", "Labels that clients kept, and how many were right", folded=True),
        Table("poisoning.csv", "One client spoilt", "Accuracy and macro F1 at the server.", SCORES),
        Table("times.csv", "Minutes", kind=COSTS),
        Table("confusion.csv", "Confusion matrices, all seeds together", kind=TRACE, folded=True),
        Table(
            "label_shares.csv",
            "How few labels",
            "By the share of the images that the server has labelled.",
            SCORES,
            flag="plfl shares",
        ),
        Table("label_share_claims.csv", "Frameworks by labelled share", kind=SCORES, folded=True, flag="plfl shares"),
        Table("search.csv", "Settings tried on validation people", kind=TRACE, folded=True, flag="plfl search"),
        Table("models.csv", "Parameters of the networks", folded=True),
        Table(
            "studies.csv",
            "Beside other studies",
            "Table 5.29 and Figure 5.13 of the thesis.",
            folded=True,
            flag="--profile paper",
        ),
        Table("splits.csv", "Who has how many images", folded=True),
        REJECTED,
        *EVIDENCE,
    ),
    (
        ("accuracy.png", "Accuracy at the server over rounds."),
        ("macro_f1.png", "Macro F1 at the server over rounds."),
        ("confusion.png", "Confusion matrices, all seeds together."),
        ("pseudo_labels.png", "Labels kept by class."),
        ("poisoning.png", "One client spoilt."),
        ("label_shares.png", "By the labelled share."),
        ("studies.png", "Beside other studies."),
        ("steps.png", "Preprocessing, step by step."),
    ),
    (("framework", "plfl"),),
    "The thesis: one run of the same networks on 4,057 images of the public knee set.",
)
