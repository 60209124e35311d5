"""The tables of the README and the docs are the committed results, and what they say of files and flags holds."""

import importlib.util
import pathlib
import re
import subprocess

import pytest

from tffapps import classify, cli, fedsda, fedstyle, fedtransfer, fnst, plfl

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


def test_every_flag_named_is_one():
    fields = {name for app in (classify, plfl, fedsda, fnst, fedstyle, fedtransfer) for name in app.APP.fields()}
    known = {"--" + name.replace("_", "-") for name in fields} | {"--profile", "--settings", "--fresh"}
    elsewhere = {"--help", "--no-deps", "--steps", "--target", "--content", "--grams", "--no-attack", "--top", "--by"}
    elsewhere |= {"--images", "--labels", "--only", "--for", "--magnification", "--level"}
    elsewhere |= {"--names", "--hosts", "--days", "--name", "--listen", "--allow-open-worker", "--no-jobs"}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT))
    assert named - elsewhere <= known


def test_the_command_for_own_images_parses():
    line = next(line for line in TEXT.splitlines() if line.startswith("python -m tffapps.classify --data"))
    values = cli.parse(classify.APP, line.split()[3:]).as_dict()
    assert values["model"] == "resnet18" and values["methods"] == ("fedavg", "fedprox", "separate", "centralised")


def test_the_command_for_knees_parses():
    line = next(line for line in TEXT.splitlines() if line.startswith("python -m tffapps.plfl --data"))
    values = cli.parse(plfl.APP, line.split()[3:]).as_dict()
    assert values["models"] == ("mobilenetv2",) and values["augment"] == "none" and values["size"] == 224


def test_the_command_for_patches_parses():
    line = next(line for line in TEXT.splitlines() if line.startswith("python -m tffapps.fedsda --data"))
    values = cli.parse(fedsda.APP, line.split()[3:]).as_dict()
    assert values["model"] == "densenet121" and values["diffusion_rounds"] == 3 and values["rounds"] == 100


def test_the_command_for_chaoyang_parses():
    line = next(line for line in TEXT.splitlines() if line.startswith("python -m tffapps.fnst --data"))
    values = cli.parse(fnst.APP, line.split()[3:]).as_dict()
    assert values["model"] == "resnet18" and values["rounds"] == 50 and values["vgg_weights"] == "imagenet"


def test_the_command_for_artists_parses():
    line = next(line for line in TEXT.splitlines() if line.startswith("python -m tffapps.fedstyle --data"))
    values = cli.parse(fedstyle.APP, line.partition("#")[0].split()[3:]).as_dict()
    assert values["model"] == "resnet18" and values["rounds"] == 100 and values["scalability"] == (20, 22, 24, 26)


def test_the_command_for_micrographs_parses():
    line = next(line for line in TEXT.splitlines() if line.startswith("python -m tffapps.fedtransfer --data"))
    values = cli.parse(fedtransfer.APP, line.partition("#")[0].split()[3:]).as_dict()
    assert values["tile"] == 400 and values["folds"] == 5 and values["rounds"] == 20 and values["optimizer"] == "adam"


def test_links_lead_somewhere():
    for name, page in PAGES.items():
        folder = ROOT if name == "README.md" else ROOT / "docs"
        for target in re.findall(r"\]\(([^)#]+)\)", page):
            assert "://" in target or (folder / target).exists(), f"{name}: {target}"
