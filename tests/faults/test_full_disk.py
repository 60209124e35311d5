"""A disk that is full: one line and status 3; with space again the same command goes on. FedTransfer tests more."""

from __future__ import annotations

import pandas as pd

from tests.applications import working_in
from tests.faults.disk import attempt, small_disk
from tffapps.classify import APP


def test_nothing_that_is_finished_is_lost(tmp_path, capsys):
    folder, arguments = tmp_path / "disk", ["--profile", "smoke", "--rounds", "1"]
    with small_disk(folder) as resize, working_in(folder):
        resize(2000)
        assert not attempt(APP, [*arguments, "--methods", "fedavg"], capsys)
        before = {file: file.read_bytes() for file in folder.rglob("results/**/*") if file.is_file()}
        resize(sum(file.stat().st_blocks // 2 for file in folder.rglob("*")) + 8)
        both = [*arguments, "--methods", "fedavg,fedprox"]
        assert "fedprox" in attempt(APP, both, capsys)
        assert all(file.read_bytes() == contents for file, contents in before.items())
        resize(2000)
        assert not attempt(APP, both, capsys)
        assert pd.read_csv("results/classify/comparison.csv").method.tolist() == ["fedavg", "fedprox"]
