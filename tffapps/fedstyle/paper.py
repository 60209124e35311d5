"""What the FedStyle paper reports, as shares: accuracy over the last 10 rounds, and accuracy and F1 of Table I."""

# Section V-B: what --loss-weights stands for. Of Conllustration it gives λ1 and λ2; the others are Artiststyle's.
LOSS_WEIGHTS = {
    "artiststyle": {
        "style_ce": 10.0, "style_contrast": 0.05, "style_mse": 20.0, "style_server_ce": 10.0,
        "style_server_contrast": 0.005,
    },
    "conllustration": {
        "style_ce": 40.0, "style_contrast": 0.5, "style_mse": 20.0, "style_server_ce": 10.0,
        "style_server_contrast": 0.005,
    },
}  # fmt: skip
ARTISTSTYLE = {  # Fig. 3 and its text, 18 artists
    "fedstyle": 0.7512,
    "fedprox": 0.7276,
    "fedavg": 0.6807,
    "local": 0.6724,
    "fpl": 0.6327,
    "fedproto": 0.5795,
}
SCALABILITY = {  # Table I: artists -> method -> accuracy, F1
    20: {
        "local": (0.6196, 0.6088),
        "fedavg": (0.6186, 0.6091),
        "fedprox": (0.6936, 0.6962),
        "fedproto": (0.5531, 0.5410),
        "fpl": (0.5793, 0.5623),
        "fedstyle": (0.6968, 0.6923),
    },
    22: {
        "local": (0.5813, 0.5729),
        "fedavg": (0.5975, 0.5755),
        "fedprox": (0.5972, 0.5760),
        "fedproto": (0.5792, 0.5543),
        "fpl": (0.5696, 0.5556),
        "fedstyle": (0.6478, 0.6364),
    },
    24: {
        "local": (0.4842, 0.4769),
        "fedavg": (0.5230, 0.5150),
        "fedprox": (0.5696, 0.5540),
        "fedproto": (0.5115, 0.4990),
        "fpl": (0.5095, 0.5046),
        "fedstyle": (0.6353, 0.6212),
    },
    26: {
        "local": (0.5351, 0.5941),
        "fedavg": (0.5236, 0.5144),
        "fedprox": (0.5827, 0.5645),
        "fedproto": (0.4918, 0.4778),
        "fpl": (0.5158, 0.4959),
        "fedstyle": (0.6222, 0.6097),
    },
}
