"""The tables of the README and the docs are the committed results, and what they say of files and flags holds."""

import importlib.util
import pathlib
import re
import subprocess

import pytest

import tffapps
from tffapps import cli, systems

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {file.name: file.read_text() for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
TEXT = "\n".join(PAGES.values())


def test_tables_come_from_the_results():
    changed = subprocess.run(["git", "status", "--porcelain", "results"], cwd=ROOT, capture_output=True, text=True)
    if changed.returncode or changed.stdout:
        pytest.skip("results/ are not the committed ones")
    spec = importlib.util.spec_from_file_location("readme_tables", ROOT / "scripts" / "readme_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in module.TABLES:
        assert f"<!-- table: {name} -->" in TEXT, name
    assert set(re.findall("<!-- table: (.*?) -->", TEXT)) == set(module.TABLES)
    assert [name for name, page in PAGES.items() if module.filled(page) != page] == []
    assert module.PLOT.read_text() == module.plot()


def test_every_flag_named_is_one():
    known = {flag.flag for app in systems.every() for flag in app.flags().values()}
    known |= {"--profile", "--settings", "--fresh", "--estimate"}
    elsewhere = {"--help", "--no-deps", "--steps", "--target", "--content", "--grams", "--no-attack", "--top", "--by"}
    elsewhere |= {"--images", "--labels", "--only", "--for", "--expect", "--magnification", "--level", "--older"}
    elsewhere |= {"--names", "--hosts", "--days", "--name", "--listen", "--allow-open-worker", "--no-jobs", "--clean"}
    elsewhere |= {"--authority", "--coordinator", "--without-sandbox", "--policy", "--known", "--refused"}  # of sites
    elsewhere |= {"--client"}  # of audit
    elsewhere |= {"--rm", "--install", "--at-once"}  # of docker, wsl and run_all.sh
    elsewhere |= {"--words", "--catalogue", "--consent", "--gallery", "--queries"}  # of fedstyle's catalogue
    elsewhere |= {"--server", "--invitation", "--publish", "--operator", "--https", "--host", "--source"}  # platform
    elsewhere |= {"--pairs", "--enrolled"}  # of fedstyle holdout
    elsewhere |= {"--slides", "--positive", "--unsure-below", "--uncalibrated", "--explain", "--to", "--check"}
    elsewhere |= {"--clients-by-folder", "--subjects", "--validate"}  # of benchmarks/first_run.py
    elsewhere |= {"--no-install", "--passes", "--cuts", "--pictures", "--timeout", "--skip"}  # of other benchmarks
    elsewhere |= {"--few"}  # of style_ways.py
    elsewhere |= {"--shares", "--try"}  # of plfl's commands that play several settings
    elsewhere |= {"--stains", "--tumour", "--per-image", "--test-share", "--brightness", "--density"}
    elsewhere |= {"--seed"}  # of restain, as the line above
    elsewhere |= {"--annotations", "--without", "--share", "--marked-only", "--specimen"}  # of preprocessing.patches
    elsewhere |= {"--micron-per-pixel", "--min-grain", "--method", "--threshold", "--scale", "--port"}  # segment, watch
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT))
    assert named - elsewhere <= known


COMMANDS = {
    "classify": {"model": "mobilenetv2", "weights": "imagenet", "train_from": "auto"},
    "plfl": {"models": ("mobilenetv2",), "augment": "none", "size": 224},
    "fedsda": {"model": "densenet121", "diffusion_rounds": 3, "rounds": 100},
    "fnst": {"model": "resnet18", "rounds": 50, "vgg_weights": "imagenet"},
    "fedstyle": {"model": "resnet18", "rounds": 100, "scalability": (20, 22, 24, 26)},
    "fedtransfer": {"tile": 400, "folds": 5, "rounds": 20, "optimizer": "adam"},
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_for_own_images_parses(name):
    line = next(line for line in TEXT.splitlines() if line.startswith(f"python -m tffapps.{name} --data"))
    flags = cli.parse(systems.find(name), line.partition("#")[0].split()[3:]).as_dict()
    assert {key: flags[key] for key in COMMANDS[name]} == COMMANDS[name]


def test_links_lead_somewhere():
    pages = {ROOT / "docs" / name: page for name, page in PAGES.items() if name != "README.md"}
    pages |= {ROOT / name: (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}
    for file, page in pages.items():
        for target in re.findall(r"\]\(([^)#]+)\)", page):
            assert "://" in target or (file.parent / target).exists(), f"{file.name}: {target}"


def test_the_index_names_every_page():
    linked = set(re.findall(r"\]\(([a-z_]+\.md)\)", PAGES["index.md"]))
    assert linked == set(PAGES) - {"README.md", "index.md"}


def test_modules_that_the_architecture_names_are_there():
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", PAGES["architecture.md"]))
    of_every_system = {
        "trials.py",
        "data.py",
        "placement.py",
        "jobs.py",
        "cost.py",
        "tables.py",
        "figures.py",
        "paper.py",
        "page.py",
    }
    known = {*of_every_system, "__init__.py"}
    assert len(named) > 20
    assert [
        name for name in sorted(named - known) if not any((ROOT / base / name).exists() for base in ("", "tffapps"))
    ] == []


def test_versions_agree():
    assert f"version: {tffapps.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {tffapps.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_a_commit_is_checked_as_the_tests_are():
    """pre-commit's hooks are the commands that run_tests.sh begins with."""
    checks = re.findall(r'^"\$PYTHON" -m ((?:ruff|mypy).*)$', (ROOT / "run_tests.sh").read_text(), re.M)
    hooks = re.findall(r"entry: \.venv/bin/python -m (.*)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.M)
    assert len(checks) == 3 and checks == hooks
