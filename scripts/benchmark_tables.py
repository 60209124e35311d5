"""The tables of benchmarks in docs/, for `readme_tables.py`: columns and rows."""

from __future__ import annotations

import pathlib

import pandas as pd

from scripts.method_tables import Cells


def rounds(file: pathlib.Path) -> Cells:
    columns = ["", "clients", "images/s", "of `fit`", "first round ends after", "of `fit`", "peak memory"]
    rows = [
        [row.contender, str(row.clients), f"{row.images_per_second:.0f}", f"{row.speed_of_fit:.2f}",
         f"{row.seconds_to_end_of_first_round:.1f} s", f"{row.first_round_of_fit:.2f}",
         f"{row.peak_memory_mb / 1000:.2f} GB"]
        for row in pd.read_csv(file).itertuples()
    ]  # fmt: skip
    return columns, rows


def cut(file: pathlib.Path) -> Cells:
    columns = ["cut", "head", "seconds a round", "of the whole", "seconds to store"]
    rows = [
        [row.cut, row.head, f"{row.round_seconds:.2f}", f"{row.of_whole:.2f}", f"{row.storing_seconds:.1f}"]
        for row in pd.read_csv(file).itertuples()
    ]
    return columns, rows


def sites(file: pathlib.Path) -> Cells:
    """What crosses the network is empty where nothing does."""
    columns = ["", "seconds a round", "of in-process", "down to a client", "of the weights", "up", "of the weights"]
    rows = []
    for row in pd.read_csv(file).itertuples():
        crossing = [f"{row.sent_a_client:,} bytes", f"{row.sent_of_weights:.3f}"]
        crossing += [f"{row.received_a_client:,} bytes", f"{row.received_of_weights:.3f}"]
        if not row.total_sent:
            crossing = [""] * 4
        rows.append([row.contender, f"{row.seconds_per_round:.1f}", f"{row.time_of_in_process:.2f}", *crossing])
    return columns, rows


def stains(file: pathlib.Path) -> Cells:
    columns = ["", "cores", "patches/s", "H off", "E off", "grey levels off"]
    rows = []
    for row in pd.read_csv(file).itertuples():
        off = [row.h_degrees_from_truth, row.e_degrees_from_truth, row.grey_levels_off]
        shown = ["" if pd.isna(value) else f"{value:.1f}{unit}" for value, unit in zip(off, ("°", "°", ""))]
        rows.append([row.contender, str(row.cores), f"{row.patches_per_second:,.3g}", *shown])
    return columns, rows


def style(file: pathlib.Path) -> Cells:
    columns = ["", "images a batch", "image steps/s", "of the bare pass"]
    rows = [
        [row.contender, str(row.images), f"{row.image_steps_per_second:.2f}", f"{row.of_bare_pass:.2f}"]
        for row in pd.read_csv(file).itertuples()
    ]
    return columns, rows


def style_loss(file: pathlib.Path) -> Cells:
    """Images a second to the loss that Adam ends with, from either start, relative to Adam's own."""
    columns = ["pairs", "start", "optimiser", "VGG-19 in", "seconds a step", "final loss"]
    columns += ["to the loss of Adam from noise", "to that of Adam from content"]
    rows = []
    for row in pd.read_csv(file).itertuples():
        count = int(row.pairs.split()[0])
        cells = [row.pairs, row.start, row.optimizer, row.precision, f"{row.seconds_a_step:.3f}", f"{row.loss:.3g}"]
        for goal in ("noise", "content"):
            there = int(getattr(row, f"pairs_at_adams_from_{goal}"))
            ratio = getattr(row, f"images_per_second_of_adams_from_{goal}")
            only = "" if there == count else f" ({there} of {count} pairs)"
            cells.append(f"{ratio:.2f} ×{only}" if there else "not reached")
        rows.append(cells)
    return columns, rows
