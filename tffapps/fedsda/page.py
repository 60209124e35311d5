"""Its section of the page."""

from tffapps.report.section import CLAIMS, EVIDENCE, REJECTED, SCORES, Section, Table

PAGE = Section(
    "fedsda",
    "FedSDA: stains that differ between hospitals",
    "Tells tumour from normal tissue in H&E patches whose stains differ from centre to centre. The federation learns a "
    "diffusion model of all centres' stain matrices, and every centre trains on patches restained from it.",
    (
        CLAIMS,
        Table(
            "table2_optimisers.csv",
            "Methods, without and with FedSDA",
            "All centres' test patches after the last round; “none”: images as they are.",
            SCORES,
        ),
        Table(
            "table3_alignment.csv",
            "Ways to align images",
            "SSIM is to the original; FID, KID and WD are means over every two centres, so they should fall.",
            SCORES,
        ),
        Table("by_centre.csv", "On each centre's test patches", kind=SCORES, folded=True),
        Table("left_out.csv", "Trained without a source, tested on all of it", kind=SCORES, flag="--leave-out"),
        Table("table1_diffusion.csv", "The stain model", "FD and WD: of drawn from measured stain matrices."),
        Table("rounds_vs_epochs.csv", "Many rounds of few epochs, or few of many"),
        Table("separation.csv", "How well patches come apart into stains", folded=True),
        Table("data.csv", "Who has how many patches", folded=True),
        Table("unmeasured.csv", "Patches that keep their look", folded=True, empty="all patches were restained"),
        REJECTED,
        *EVIDENCE,
    ),
    (
        ("patches.png", "A patch of each centre under each alignment."),
        ("auroc.png", "AUROC over rounds."),
        ("stains.png", "Stain matrices, measured and drawn."),
        ("frechet.png", "Fréchet distance of the stain model over its training."),
        ("tsne.png", "Patches of all centres under each alignment, by t-SNE of their Inception features."),
    ),
    (("side", "fedsda"),),
    "The paper: DenseNet-121 on CAMELYON17 (C17) and AGGC22 (A22).",
)
