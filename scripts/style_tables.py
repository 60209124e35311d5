"""The tables of docs/fnst.md on real patches, for `readme_tables.py`: columns and rows."""

from __future__ import annotations

import pathlib

import pandas as pd

Cells = tuple[list[str], list[list[str]]]
_FIRST = ("centralised", "fedavg")


def comparison(folder: pathlib.Path) -> Cells:
    """A row for each method: macro F1 and the gain over FedAvg, with few and with more rare images."""
    table = pd.read_csv(folder / "comparison.csv", dtype={"augmentation": str}).fillna({"augmentation": "", "was": ""})
    amounts = sorted(table.rare.dropna().unique())
    columns = ["method"]
    for rare in amounts:
        columns += [f"{rare:.0f} rare: macro F1", "to FedAvg", "p, corrected", "on validation images"]
    rows = []
    for method in sorted(table.method.unique(), key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)):
        own, row = table[table.method == method], [method]
        for rare in amounts:
            found = own[(own.rare == rare) | own.rare.isna()]
            row += _scores(found.iloc[0]) if len(found) else [""] * 4
        rows.append(row)
    return columns, rows


def _scores(row: pd.Series) -> list[str]:
    validated = f"{row.val_macro_f1:.3f}" + (f" ({row.was})" if row.was else "")
    if pd.isna(row.gain):
        return [_interval(row, "macro_f1", "{:.3f}"), "", "", validated]
    verdict = f"**{row.verdict}** " if row.verdict in ("ahead", "behind") else ""
    return [
        _interval(row, "macro_f1", "{:.3f}"),
        verdict + _interval(row, "gain", "{:+.3f}"),
        _p(row.p_holm),
        validated,
    ]


def rivals(folder: pathlib.Path) -> Cells:
    rows = [
        [row.method, row.baseline, _interval(row, "gain", "{:+.3f}"), _p(row.p_holm), row.verdict]
        for _, row in pd.read_csv(folder / "claims.csv").iterrows()
    ]
    return ["method", "against", "gain in macro F1", "p, corrected", "verdict"], rows


def realism(folder: pathlib.Path) -> Cells:
    columns = ["images", "how many", "called by their label", "FID", "KID", "structure (SSIM)", "nearest: own content"]
    rows = []
    for _, row in pd.read_csv(folder / "realism.csv").iterrows():
        called = _interval(row, "called_right", "{:.1%}")
        kept = ["" if pd.isna(value) else form.format(value)
                for value, form in ((row.structure, "{:.3f}"), (row.nearest_own, "{:.1%}"))]  # fmt: skip
        rows.append(
            [f"{row.method} {row.augmentation}", str(row.images), called, f"{row.fid:.1f}", f"{row.kid:.3f}", *kept]
        )
    return columns, rows


def lab(folder: pathlib.Path) -> Cells:
    """The very files as suspects: first hits by defence, a column for each size."""
    table = pd.read_csv(folder / "gram_lab.csv")
    own = table[table.suspects == "the very files"]
    sizes = sorted(own["size"].unique())
    columns = ["defence", "chance", *(f"{size}×{size}" for size in sizes)]
    rows = []
    for defence, part in own.groupby("defence", sort=False):
        cells = {row["size"]: _hits(row) for _, row in part.iterrows()}
        rows.append([str(defence), f"{part.chance_first.iloc[0]:.0%}", *(cells.get(size, "") for size in sizes)])
    entries = own[own.defence == "none"].set_index("size").entries_a_pixel
    rows.insert(0, ["Gram entries a pixel value", "", *(f"{entries[size]:.1f}" for size in sizes)])
    return columns, rows


def ways(folder: pathlib.Path) -> Cells:
    table = pd.read_csv(folder.parents[1] / "benchmarks" / "style_ways.csv")
    rows = [
        [row.contender, str(row.images), str(row.steps or ""), f"{row.images_per_second:.3g}", f"{row.of_adam:.3g}"]
        for row in table.itertuples()
    ]
    return ["", "images", "steps", "images/s", "of Adam"], rows


def _hits(row: pd.Series) -> str:
    return f"{row['first']:.0%} [{row.first_low:.0%}, {row.first_high:.0%}]" + (
        " (chance)" if row.at_chance == "yes" else ""
    )


def _interval(row: pd.Series, name: str, form: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{form.format(row[name])} [{form.format(low)}, {form.format(high)}]"


def _p(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.3f}"
