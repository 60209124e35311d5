"""The notebooks run from their first cell to their last, and end with what they promise."""

import pathlib
import re

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What the cells of each must have shown by its end.
SHOWN = {
    "your_images": [r"fit for classify|fit for", r"fedavg .*federation", r"0-striped\.png"],
    "own_method": [r"fedavg", r"bounded"],
}


def _shown(output) -> str:
    return output.get("text") or output.get("data", {}).get("text/plain", "")


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path / "home"))
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    text = "\n".join(_shown(output) for cell in notebook.cells for output in cell.get("outputs", []))
    assert [wanted for wanted in SHOWN[name] if not re.search(wanted, text)] == []
