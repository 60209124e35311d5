"""Its section of the page."""

from tffapps.report.section import CLAIMS, EVIDENCE, REJECTED, SCORES, TRACE, Section, Table

PAGE = Section(
    "fnst",
    "FNST: style travels as Gram matrices",
    "Classifies colon patches when every site has plenty of one class and a handful of the others. Sites send Gram "
    "matrices of their rich class, others put those styles on their few images of it; then comes FedAvg.",
    (
        CLAIMS,
        Table(
            "table3_fnst.csv",
            "With made images",
            "“repeated” is our control: the rare images themselves, as many times as FNST makes images of them. The "
            "last round's scores; the paper reports the round of the best AUC on the test set.",
            SCORES,
        ),
        Table("table2_single_and_federated.csv", "Each site alone, and their federation", kind=SCORES),
        Table("table4_gains.csv", "Gains", kind=SCORES),
        Table("table1_centralised.csv", "All images in one place", kind=SCORES),
        Table(
            "comparison.csv",
            "Beside controls",
            "Every method of a federation beside FedAvg as it is: gain in macro F1, p corrected for all rows. “was”: "
            "which methods a row that was chosen on validation images trained with, and how often.",
            SCORES,
            flag="--methods",
        ),
        Table(
            "realism.csv",
            "Do styled images look real?",
            "By real images that nothing was made of: how many a classifier calls by their label, distances to the "
            "class, structure kept, nearest neighbours.",
            flag="--realism",
        ),
        Table("gram_attack.csv", "Can a Gram matrix be traced to its image?"),
        Table("gram_lab.csv", "By size and defence, with suspects at hand", flag="--attack-sizes", folded=True),
        Table("f1_per_class.csv", "F1 by class over rounds", kind=TRACE, folded=True),
        Table("exchange.csv", "Every file that crossed the server", folded=True),
        Table("data.csv", "Who has how many images", folded=True),
        REJECTED,
        *EVIDENCE,
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
