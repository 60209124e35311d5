"""What the FedSDA paper reports, for the columns beside ours; areas as shares, not percent."""

# Table 1, on CAMELYON17: Fréchet distance of drawn from real stains.
FD = {"token-mlp": 18.91, "transformer": 0.40}

# Tables 2 and 3: AUROC on CAMELYON17; AUROC and AUPRC on AGGC22.
AREAS = {
    ("fedavg", "none"): (0.9097, 0.7899, 0.4660),
    ("fedavg", "fedsda"): (0.9384, 0.9038, 0.6420),
    ("fedprox", "none"): (0.9080, 0.7982, 0.4571),
    ("fedprox", "fedsda"): (0.9389, 0.9044, 0.6489),
    ("fedsam", "none"): (0.9087, 0.8217, 0.4821),
    ("fedsam", "fedsda"): (0.9304, 0.9209, 0.6745),
    ("fedlesam", "none"): (0.9017, 0.7942, 0.4439),
    ("fedlesam", "fedsda"): (0.9268, 0.9020, 0.6434),
    ("fedfa", "none"): (0.9231, 0.8262, 0.4845),
    ("fedfa", "fedsda"): (0.9492, 0.9179, 0.6686),
    ("fedavg", "ccst"): (0.7189, 0.8009, 0.3843),
    ("fedavg", "amp-norm"): (0.7749, 0.7701, 0.4283),
}

# Table 3, means over three data sets: SSIM, FID, KID, WD.
QUALITY = {
    "none": (1.0, 55.092, 0.1986, 0.0013),
    "ccst": (0.2462, 20.777, 0.0599, 0.0007),
    "amp-norm": (0.9731, 54.774, 0.1956, 0.0012),
    "fedsda": (0.9969, 40.311, 0.1365, 0.0009),
}
