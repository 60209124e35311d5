"""What an audit says: the verdict in words, and `audit.csv`."""

from __future__ import annotations

import pathlib
from typing import Any

import pandas as pd

from tffapps.audit.membership import FALSE_ALARMS, Found
from tffapps.audit.of_run import Audit
from tffapps.files import replacing


def verdict(audit: Audit) -> str:
    """The first lines that a user reads."""
    best = max(audit.members, key=lambda found: found.auc.estimate)
    before = max((found.auc.estimate for found in audit.before), default=float("nan"))
    told = f"AUC {best.auc.estimate:.2f} ({best.auc.low:.2f} to {best.auc.high:.2f}; chance 0.50"
    told += f", the same attack before training {before:.2f})" if audit.before else ")"
    lines = [f"membership: training images {'CAN' if best.above_chance else 'cannot'} be told from others, {told}"]
    for name, attacks in audit.inverted.items():
        nearest = max(attacks, key=lambda found: found.psnr)
        lines.append(
            f"inversion of {name} of {audit.client}: {audit.inverts} {'WERE' if nearest.recovered else 'were not'}"
            f" recovered, {nearest.psnr:.1f} dB by {nearest.attack}; the nearest other image has"
            f" {nearest.psnr_of_nearest:.1f} dB"
        )
    if audit.protected:
        lines.append(f"the update was protected: {audit.protected}")
    return "\n".join(lines)


def write(path: pathlib.Path, audit: Audit) -> pd.DataFrame:
    """Beside the run."""
    rows = [_membership(found, "trained") for found in audit.members]
    rows += [_membership(found, "before training") for found in audit.before]
    for name, attacks in audit.inverted.items():
        rows += [
            {
                "attack": f"inversion: {each.attack}", "on": name, "client": audit.client, "made": each.made,
                "psnr": each.psnr, "ssim": each.ssim, "psnr_of_mean_image": each.psnr_of_mean,
                "psnr_of_nearest_other": each.psnr_of_nearest, "recovered": "yes" if each.recovered else "no",
            }
            for each in attacks
        ]  # fmt: skip
    table = pd.DataFrame(rows)
    with replacing(path) as file:
        table.to_csv(file, index=False)
    return table


def _membership(found: Found, model: str) -> dict[str, Any]:
    return {
        "attack": f"membership: {found.attack}", "on": model, "members": found.members, "others": found.others,
        "auc": found.auc.estimate, "auc_low": found.auc.low, "auc_high": found.auc.high, "auc_chance": 0.5,
        "found_at_1_percent": found.found.estimate, "found_low": found.found.low, "found_high": found.found.high,
        "found_chance": FALSE_ALARMS,
    }  # fmt: skip
