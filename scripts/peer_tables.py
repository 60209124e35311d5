"""The tables of other systems in docs/engines.md, for `readme_tables.py`: columns and rows."""

from __future__ import annotations

import pathlib

import pandas as pd

from scripts.method_tables import Cells


def peers(file: pathlib.Path) -> Cells:
    """One row a contender and number of clients; a reason where there is no number."""
    columns = ["", "images in", "clients", "seconds a round", "ms a client", "first round ends after", "peak memory"]
    rows = []
    for row in pd.read_csv(file).fillna({"note": "", "versions": ""}).itertuples():
        cells = [row.contender, row.images, f"{row.clients:,}"]
        if pd.isna(row.seconds_per_round):
            rows.append([*cells, row.note, "", "", "", ""])
            continue
        measured = [f"{row.seconds_per_round:.3g}", f"{row.ms_per_client:.3g}"]
        measured += [f"{row.seconds_to_end_of_first_round:.1f} s", f"{row.peak_memory_mb / 1000:.2f} GB"]
        rows.append([*cells, *measured, "; ".join(filter(None, (row.versions, row.note)))])
    return [*columns, "versions"], rows


def peer_stains(file: pathlib.Path) -> Cells:
    rows = []
    for row in pd.read_csv(file).fillna({"note": "", "versions": ""}).itertuples():
        speed = row.note if pd.isna(row.patches_per_second) else f"{row.patches_per_second:,.3g}"
        rows.append([row.contender, row.method, speed, row.versions])
    return ["", "method", "patches/s, one core", "versions"], rows


def clients(file: pathlib.Path) -> Cells:
    """What a small client costs; the last rows have as many images as the thousand clients."""
    columns = ["", "clients", "images", "ms a client", "processor", "first round ends after", "peak memory"]
    rows = [
        [row.contender, f"{row.clients:,}", f"{row.images:,}", f"{row.ms_per_client:.2f}",
         f"{row.processor_ms_per_client:.2f} ms", f"{row.seconds_to_end_of_first_round:.1f} s",
         f"{row.peak_memory_mb:.0f} MB"]
        for row in pd.read_csv(file).itertuples()
    ]  # fmt: skip
    return columns, rows


def growth(file: pathlib.Path) -> Cells:
    """How cost grows with each thing, from its least to its most."""
    rows = []
    for axis, part in pd.read_csv(file).groupby("grows", sort=False):
        part = part.sort_values(axis)
        cells = [axis, " … ".join(f"{value:,}" for value in part[axis].iloc[[0, -1]])]
        for cost, form in (("seconds_per_round", "{:.3g} s"), ("memory_mb", "{:,.0f} MB")):
            cells += [" … ".join(form.format(value) for value in part[cost].iloc[[0, -1]])]
            cells += [f"{part[f'exponent_of_{cost}'].iloc[0]:.2f}"]
        rows.append(cells)
    return ["what grows", "from … to", "a round", "exponent", "memory of rounds", "exponent"], rows
