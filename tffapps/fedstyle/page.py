"""Its section of the page."""

from tffapps.report.section import CLAIMS, EVIDENCE, REJECTED, SCORES, TRACE, Section, Table

PAGE = Section(
    "fedstyle",
    "FedStyle: one artist, one client",
    "Recognises artists when every client is one artist, the hardest case there is for FedAvg. Mean embeddings of an "
    "artist's pictures, “styles”, travel beside the weights, and the server trains on a small public set.",
    (
        CLAIMS,
        Table(
            "comparison.csv",
            "Methods",
            "The last round's model. “local” is the server alone with the public pictures: nothing travels.",
            SCORES,
        ),
        Table("table1_scalability.csv", "More artists", kind=SCORES),
        Table("ablation.csv", "Losses left out", kind=SCORES),
        Table("heterogeneity.csv", "Pictures dealt out otherwise", kind=SCORES),
        Table("cloaking.csv", "Cloaked pictures", "Training in one place.", SCORES),
        Table(
            "holdout.csv",
            "Artists who joined after training",
            "Two at a time, left out of the federation. “served”: as validation chose.",
            SCORES,
            flag="holdout",
        ),
        Table("holdout_claims.csv", "The served encoder against frozen features", kind=SCORES, flag="holdout"),
        Table("holdout_chosen.csv", "What was chosen for each pair", kind=TRACE, folded=True, flag="holdout"),
        Table("holdout_pairs.csv", "Each pair of newcomers", kind=TRACE, folded=True, flag="holdout"),
        Table("queries.csv", "Every test picture: where its artist came", folded=True),
        Table("data.csv", "Who has how many pictures", folded=True),
        REJECTED,
        *EVIDENCE,
    ),
    (
        ("comparison.png", "Accuracy over rounds."),
        ("artists.png", "Pictures of each artist."),
        ("sheet-1.png", "A query's contact sheet: the picture asked about, and the artists in their order."),
    ),
    (("method", "fedstyle"),),
    "The paper: ResNet-18 on 18 painters of Artiststyle.",
)
