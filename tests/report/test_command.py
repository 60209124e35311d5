"""The command itself, in a process of its own."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = """
import runpy, sys
sys.argv = ["report", "--results", sys.argv[1], "--summary"]
try:
    runpy.run_module("tffapps.report", run_name="__main__")
except SystemExit as end:
    print("status", end.code)
print([name for name in ("tensorflow", "tensorflow_federated", "pandas", "matplotlib") if name in sys.modules])
"""


def test_it_prints_the_summary_and_needs_no_tensorflow(results):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(results)], cwd=results.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["application", "data", "metric"]
    assert "+0.250" in lines[1] and "ahead" in lines[1]
    assert lines[-3:] == ["page: results/index.html", "status 0", "[]"]
    assert done.stderr == ""


def test_pictures_are_skipped_without_a_browser(results):
    (results / "index.html").write_text("<!DOCTYPE html>")
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / "page_pictures.sh"), "results/index.html", "pictures"], cwd=results.parent,
        env={**os.environ, "TFFAPPS_BROWSER": "no-such-browser"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("page_pictures: skipped, no Chromium here")
    assert not (results.parent / "pictures").exists()
