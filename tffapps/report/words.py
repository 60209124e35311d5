"""The names of columns in words, and what their numbers are."""

# What ran: said once below a table when it is the same in every row, in this order.
WHAT_RAN = (
    "data", "profile", "model", "weights", "vgg", "features", "aggregator", "artists", "site", "labels", "rounds",
    "folds", "keras", "splits", "seeds",
)  # fmt: skip

PERCENT = frozenset(
    {
        "share", "share_right", "cloaked", "first", "first_five", "chance_first", "chance_first_five", "boundary_share",
        "ratio",
    }
)  # fmt: skip
BYTES = frozenset(
    {
        "bytes", "bytes_per_client", "bytes_up", "bytes_down", "bytes_state", "images_up", "generators_up",
        "generators_down", "weights_up", "weights_down",
    }
)  # fmt: skip
PLAIN = frozenset({"picture", "path", "subject"})  # names of files, whatever they look like

_WORDS = {
    "f1": "weighted F1",
    "macro_f1": "macro F1",
    "last_rounds_accuracy": "accuracy, mean of last rounds",
    "mrr": "MRR",
    "top_3": "top 3",
    "top_5": "top 5",
    "quadratic_kappa": "quadratic κ",
    "method_score": "method's score",
    "baseline_score": "the other's",
    "p_holm": "p, corrected",
    "role": "is",
    "mean_client_macro_f1": "macro F1, mean over clients",
    "mean_client_auroc": "AUROC, mean over clients",
    "mean_client_accuracy": "accuracy, mean over clients",
    "personal": "clients' own models",
    "worst_client_macro_f1": "macro F1, worst client",
    "worst_client_auroc": "AUROC, worst client",
    "worst_client_accuracy": "accuracy, worst client",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "map": "MAP ↑",
    "mvi": "MVI ↓",
    "ari": "ARI ↑",
    "map_change": "MAP, change to float32",
    "ssim": "SSIM",
    "fid": "FID",
    "kid": "KID",
    "wd": "WD",
    "fd": "FD",
    "worst_client_fd": "FD, worst client",
    "fd_between_clients": "FD between clients",
    "fd_between_nearest": "FD between the nearest two",
    "c17_auroc": "AUROC, C17",
    "a22_auroc": "AUROC, A22",
    "a22_auprc": "AUPRC, A22",
    "reconstruction_ssim": "SSIM put together again",
    "h_degrees": "H off (°)",
    "e_degrees": "E off (°)",
    "side": "images",
    "vgg": "VGG-19",
    "rare": "rare images",
    "made": "images made",
    "augmentation": "styles, contents",
    "share_right": "share of labels right",
    "kept": "labels kept",
    "right": "labels right",
    "what": "spoilt at client1",
    "share": "share",
    "cloaked": "pictures cloaked",
    "dealt": "pictures dealt out",
    "variant": "losses",
    "bytes": "bytes",
    "bytes_per_client": "to and from a client",
    "pixel_difference": "pixels off (of 255)",
    "ratio": "of float32's bytes",
    "test": "tested on",
    "true": "true class",
    "how": "looks for",
    "first": "right first",
    "chance_first": "chance of that",
    "first_five": "in first five",
    "chance_first_five": "chance of that",
    "ssim_own": "SSIM to its original",
    "ssim_other": "SSIM to others",
    "wall_minutes": "minutes",
    "training_minutes": "minutes of training",
    "minutes": "minutes",
    "trainable_mb": "trainable, MB",
    "non_trainable": "not trainable",
    "non_trainable_mb": "not trainable, MB",
    "total_mb": "total, MB",
    "peak_memory_mb": "peak memory, MB",
    "kept_mb_each": "kept by a client, MB",
    "on_disk_mb": "on disk, MB",
    "epochs_in_all": "epochs in all",
    "lambda": "λ",
    "rank_by_probability": "rank by probability",
    "grey_levels_off": "grey levels off",
    "h_degrees_from_truth": "H off (°)",
    "e_degrees_from_truth": "E off (°)",
    "speed_of_fit": "speed, of fit",
    "first_round_of_fit": "first round, of fit",
    "images_per_second": "images/s",
    "patches_per_second": "patches/s",
    "image_steps_per_second": "image steps/s",
    "seconds_per_round": "seconds a round",
    "seconds_to_end_of_first_round": "first round ends after (s)",
}


def words(column: str) -> str:
    """A column's name as a reader would say it."""
    if column.startswith("f1_"):
        return f"F1, {column[3:].replace('_', ' ')}"
    return _WORDS.get(column, column.replace("_", " "))
